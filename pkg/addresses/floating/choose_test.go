package floating_test

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating"
)

// With policy Pod an address is free when its pod ends. The address that was free longest is used first, because its
// FloatingIP exists.
func TestPolicyPod(t *testing.T) {
	w := newWorld(t)
	w.pool("192.0.2.1-192.0.2.3")
	for i, want := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.3"} {
		w.is(w.get(requesterOf("Deployment web", string(rune('a'+i))), "1a"), want)
	}
	w.is(w.get(requesterOf("Deployment web", "d"), "1a"), "IPPool web: all its IPv4 addresses are in use; "+
		"it waits for the end of a pod of Deployment demo/web, such as a, which has 192.0.2.1")
	w.is(w.get(requesterOf("Deployment other", "d"), "1a"), "IPPool web: all its IPv4 addresses are in use")
	w.end("c", 3)
	w.end("a", 3)
	w.is(w.holders(), "192.0.2.1:- 192.0.2.2:b 192.0.2.3:-")
	w.is(w.get(requesterOf("Deployment other", "d"), "1a"), "192.0.2.3")
	w.is(w.get(requesterOf("StatefulSet db", "db-0"), "1a"), "192.0.2.1")
	w.end("db-0", 1)
	w.is(w.get(requesterOf("Job import", "import-x"), "1a"), "192.0.2.1")
	w.end("b", -1)
	w.is(w.get(requesterOf("Pod bare", "bare"), "1a"), "192.0.2.2")
	if got := w.Counts("web"); got != (floating.Counts{Total: 3, Used: 3}) {
		t.Errorf("counts %+v", got)
	}
}

// A StatefulSet's pod gets its own address back, on any node that carries it. The new pod waits for the end of the former.
func TestStatefulSetKeepsAddressesByPod(t *testing.T) {
	for _, policy := range []string{"policy", "Immutable", "Never"} {
		w := newWorld(t)
		w.pool("192.0.2.1-192.0.2.8 rack=1", "192.0.2.64/29 rack=2", "2001:db8::/120")
		pod := func(name, uid string) floating.Requester {
			return requesterOf("StatefulSet db", name, "release-policy="+policy, "uid="+uid)
		}
		if policy == "policy" {
			pod = func(name, uid string) floating.Requester { return requesterOf("StatefulSet db", name, "uid="+uid) }
		}
		w.is(w.get(pod("db-0", "u0"), "1a"), "192.0.2.1 2001:db8::")
		w.is(w.get(pod("db-1", "u1"), "2a"), "192.0.2.64 2001:db8::1")
		w.is(w.get(pod("db-0", "u2"), "1b"), "IPPool web: 192.0.2.1 belongs to this pod's name; "+
			"it waits for the end of the former pod demo/db-0 (UID u0)")
		w.end("u1", 2)
		w.end("u0", 2)
		if policy == "policy" {
			w.is(w.holders(), "192.0.2.1:- 192.0.2.64:- 2001:db8:::- 2001:db8::1:-")
			continue
		}
		w.is(w.get(pod("db-2", "u3"), "1a"), "192.0.2.2 2001:db8::2")
		w.is(w.get(pod("db-1", "u4"), "1a"),
			"IPPool web: 192.0.2.64, which is kept for this pod, is carried by nodes with rack=2, not by node 1a")
		w.is(w.get(pod("db-1", "u4"), "2b"), "192.0.2.64 2001:db8::1")
		w.is(w.get(pod("db-0", "u5"), "1b"), "192.0.2.1 2001:db8::")
		w.is(w.get(pod("db-0", "u5"), "1b"), "192.0.2.1 2001:db8::")
	}
}

func TestStatefulSetScaledAndDeleted(t *testing.T) {
	db := requesterOf("StatefulSet db", "db-0").Workload
	for _, c := range []struct {
		policy, want string
		state        floating.State
	}{
		{"Immutable", "192.0.2.0:(db-0) 192.0.2.1:(db-1) 192.0.2.2:(db-2)", floating.State{Exists: true, Replicas: 3}},
		{"Immutable", "192.0.2.0:(db-0) 192.0.2.1:- 192.0.2.2:-", floating.State{Exists: true, Replicas: 1}},
		{"Immutable", "192.0.2.0:- 192.0.2.1:(db-1) 192.0.2.2:(db-2)", floating.State{Exists: true, Replicas: 2, FirstOrdinal: 1}},
		{"Immutable", "192.0.2.0:- 192.0.2.1:- 192.0.2.2:-", floating.State{Exists: true}},
		{"Immutable", "192.0.2.0:- 192.0.2.1:- 192.0.2.2:-", floating.State{}},
		{"Never", "192.0.2.0:(db-0) 192.0.2.1:(db-1) 192.0.2.2:(db-2)", floating.State{Exists: true}},
		{"Never", "192.0.2.0:(db-0) 192.0.2.1:(db-1) 192.0.2.2:(db-2)", floating.State{}},
	} {
		w := newWorld(t)
		w.pool("192.0.2.0/28")
		for _, pod := range []string{"db-0", "db-1", "db-2"} {
			w.get(requesterOf("StatefulSet db", pod, "release-policy="+c.policy), "1a")
			w.end(pod, 3)
		}
		w.again(db, c.state)
		w.is(w.holders(), c.want)
	}
}

// A Deployment's new pod gets an address that an old one left; addresses above the replicas become free.
func TestDeploymentKeepsAddresses(t *testing.T) {
	w := newWorld(t)
	w.pool("192.0.2.1-192.0.2.4")
	pod := func(name string) floating.Requester {
		return requesterOf("Deployment web", name, "release-policy=immutable")
	}
	w.get(pod("a"), "1a")
	w.get(pod("b"), "1a")
	w.get(pod("c"), "1a")
	w.end("b", 3)
	w.is(w.holders(), "192.0.2.1:a 192.0.2.2:(web) 192.0.2.3:c")
	w.is(w.get(requesterOf("Deployment other", "o"), "1a"), "192.0.2.4")
	w.is(w.get(pod("d"), "2a"), "192.0.2.2")
	w.end("a", 2)
	w.end("c", 2)
	w.is(w.holders(), "192.0.2.1:- 192.0.2.2:d 192.0.2.3:(web) 192.0.2.4:o")
	w.again(pod("x").Workload, floating.State{Exists: true, Replicas: 1})
	w.is(w.holders(), "192.0.2.1:- 192.0.2.2:d 192.0.2.3:- 192.0.2.4:o")
	w.end("d", 1)
	w.is(w.holders(), "192.0.2.1:- 192.0.2.2:(web) 192.0.2.3:- 192.0.2.4:o")
	w.again(pod("x").Workload, floating.State{})
	w.is(w.holders(), "192.0.2.1:- 192.0.2.2:- 192.0.2.3:- 192.0.2.4:o")
}

// During a rolling update of a Deployment with as many addresses as replicas, the surplus pod waits for a pod that is
// replaced, and says for which.
func TestRollingUpdate(t *testing.T) {
	w := newWorld(t)
	w.pool("192.0.2.1-192.0.2.2 rack=1", "192.0.2.16-192.0.2.31 rack=2")
	pod := func(name string) floating.Requester {
		return requesterOf("Deployment web", name, "release-policy=immutable", "limit=2")
	}
	w.get(pod("old-1"), "1a")
	w.get(pod("old-2"), "1b")
	const waits = "IPPool web: Deployment demo/web has 2 addresses, one for each replica"
	w.is(w.get(pod("new-1"), "1a"), waits+"; it waits for the end of a pod of Deployment demo/web, such as old-1, which has 192.0.2.1")
	_, err := w.Choose(pod("new-1"), nodeOf("2a"))
	var unavailable *floating.UnavailableError
	if !errors.As(err, &unavailable) || !unavailable.Elsewhere || unavailable.Pool != "web" {
		t.Errorf("on another segment: %+v", err)
	}
	w.end("old-2", 2)
	w.is(w.get(pod("new-1"), "1a"), "192.0.2.2")
	w.is(w.get(pod("new-2"), "1a"), waits+"...")
	w.end("old-1", 2)
	w.is(w.get(pod("new-2"), "1a"), "192.0.2.1")
	w.is(w.holders(), "192.0.2.1:new-2 192.0.2.2:new-1")
}

// A pod on a segment that cannot carry what the workload kept gets another address, and the kept address becomes free.
func TestKeptAddressOnAnotherSegment(t *testing.T) {
	w := newWorld(t)
	w.pool("192.0.2.1-192.0.2.2 rack=1", "192.0.2.17 rack=2")
	pod := func(name string) floating.Requester {
		return requesterOf("Deployment web", name, "release-policy=immutable")
	}
	w.get(pod("a"), "1a")
	w.end("a", 1)
	w.is(w.get(pod("b"), "2a"), "192.0.2.17")
	w.again(pod("x").Workload, floating.State{Exists: true, Replicas: 1})
	w.is(w.holders(), "192.0.2.1:- 192.0.2.17:b")
	w.is(w.get(pod("c"), "2a"), "IPPool web: its free IPv4 addresses are carried by other nodes, not by node 2a; "+
		"it waits for the end of a pod of Deployment demo/web, such as b, which has 192.0.2.17")
	w.is(w.get(pod("c"), "3a"), "IPPool web: its free IPv4 addresses are carried by other nodes, not by node 3a")
}

// A DaemonSet's pod gets the address back that its node had.
func TestDaemonSetReturnsToItsNode(t *testing.T) {
	w := newWorld(t)
	w.pool("192.0.2.1-192.0.2.9")
	pod := func(name string) floating.Requester {
		return requesterOf("DaemonSet agent", name, "release-policy=immutable")
	}
	for _, node := range []string{"1a", "1b", "1c"} {
		w.get(pod(node+"-x"), node)
	}
	for _, node := range []string{"1a", "1b", "1c"} {
		w.end(node+"-x", 100)
	}
	w.again(pod("x").Workload, floating.State{Exists: true, Replicas: -1})
	w.is(w.get(pod("1c-y"), "1c"), "192.0.2.3")
	w.is(w.get(pod("1b-y"), "1b"), "192.0.2.2")
	w.is(w.get(pod("1d-y"), "1d"), "192.0.2.1")
	w.is(w.get(pod("1a-y"), "1a"), "192.0.2.4")
}

// A pod without a controller keeps its address by its name.
func TestBarePod(t *testing.T) {
	w := newWorld(t)
	w.pool("192.0.2.1-192.0.2.9")
	w.is(w.get(requesterOf("Pod sip", "sip", "uid=u1", "release-policy=never"), "1a"), "192.0.2.1")
	w.is(w.get(requesterOf("Pod sip", "sip", "uid=u2", "release-policy=never"), "1a"),
		"IPPool web: 192.0.2.1 belongs to this pod's name; ...")
	w.end("u1", -1)
	w.is(w.holders(), "192.0.2.1:(sip)")
	w.is(w.get(requesterOf("Pod other", "other"), "1a"), "192.0.2.2")
	w.is(w.get(requesterOf("Pod sip", "sip", "uid=u2"), "1b"), "192.0.2.1")
	w.end("u2", -1)
	w.is(w.holders(), "192.0.2.1:- 192.0.2.2:other")
}

func TestRangesForEachAddress(t *testing.T) {
	const ranges = `ranges=[["192.0.2.10-192.0.2.11","2001:db8::10"],["192.0.2.11-192.0.2.12"]]`
	w := newWorld(t)
	w.pool("192.0.2.0/28", "2001:db8::/120")
	w.is(w.get(requesterOf("StatefulSet db", "db-0", ranges), "1a"), "192.0.2.10 2001:db8::10 192.0.2.11 2001:db8::")
	w.is(w.get(requesterOf("StatefulSet db", "db-1", ranges), "1a"),
		"IPPool web: no address of the requested ranges [192.0.2.10-192.0.2.11] is free")
	w.is(w.get(requesterOf("Pod x", "x", `ranges=[["198.51.100.1"]]`), "1a"),
		"IPPool web: no address of the requested ranges [198.51.100.1] is free")
	w.end("db-0", 0)
	w.is(w.get(requesterOf("Pod x", "x", `ranges=[["192.0.2.10","2001:db8::10"]]`), "1a"), "192.0.2.10 2001:db8::10")
	w.is(w.get(requesterOf("StatefulSet db", "db-1", ranges), "1a"), "IPPool web: no address of the requested ranges [2001:db8::10] is free")
}

// What a Deployment kept for one of several addresses goes to the same of a new pod, because its ranges differ and the
// addresses above the replicas are counted for each.
func TestKeptAddressesOfPodsWithSeveral(t *testing.T) {
	w := newWorld(t)
	w.pool("192.0.2.1-192.0.2.6")
	pod := func(name string) floating.Requester {
		return requesterOf("Deployment web", name, "release-policy=immutable", "count=2")
	}
	w.is(w.get(pod("a"), "1a"), "192.0.2.1 192.0.2.2")
	w.is(w.get(pod("b"), "1a"), "192.0.2.3 192.0.2.4")
	w.end("a", 2)
	w.end("b", 2)
	w.is(w.get(pod("c"), "1a"), "192.0.2.1 192.0.2.2")
	w.again(pod("x").Workload, floating.State{Exists: true, Replicas: 2})
	w.is(w.holders(), "192.0.2.1:c 192.0.2.2:c 192.0.2.3:(web) 192.0.2.4:(web)")
	w.again(pod("x").Workload, floating.State{Exists: true, Replicas: 1})
	w.is(w.holders(), "192.0.2.1:c 192.0.2.2:c 192.0.2.3:- 192.0.2.4:-")
}

func TestReservedAddresses(t *testing.T) {
	w := newWorld(t)
	w.pool("192.0.2.1-192.0.2.3")
	w.reserve("192.0.2.1", true)
	w.reserve("192.0.2.3", true)
	w.is(w.get(requesterOf("StatefulSet db", "db-0", "release-policy=immutable"), "1a"), "192.0.2.2")
	w.is(w.get(requesterOf("Pod x", "x"), "1a"), "IPPool web: all its IPv4 addresses are in use")
	w.reserve("192.0.2.2", true)
	w.end("db-0", 1)
	w.is(w.get(requesterOf("Pod x", "x"), "1a"), "IPPool web: all its IPv4 addresses are in use")
	w.is(w.get(requesterOf("StatefulSet db", "db-0", "uid=u2"), "1a"), "192.0.2.2")
	w.end("u2", 1)
	w.is(w.get(requesterOf("StatefulSet db", "db-0", "uid=u3"), "1a"), "IPPool web: all its IPv4 addresses are in use")
	w.reserve("192.0.2.3", false)
	w.is(w.get(requesterOf("Pod x", "x"), "1a"), "192.0.2.3")
}

func TestPoolsThatGiveNothing(t *testing.T) {
	w := newWorld(t)
	w.is(w.get(requesterOf("Pod x", "x"), "1a"), "IPPool web: there is no IPPool of this name")
	pool := poolOf(t, "web", "192.0.2.1-192.0.2.9")
	pool.Namespaces = labels.SelectorFromSet(labels.Set{"team": "web"})
	w.SetPool(pool, "")
	w.is(w.get(requesterOf("Pod x", "x"), "1a"), "IPPool web: spec.namespaces does not select namespace demo")
	x := requesterOf("Pod x", "x")
	x.NamespaceLabels = labels.Set{"team": "web"}
	w.is(w.get(x, "1a"), "192.0.2.1")
	w.SetPool(pool, "range 192.0.2.1 overlaps IPPool other")
	y := requesterOf("Pod y", "y")
	y.NamespaceLabels = x.NamespaceLabels
	w.is(w.get(y, "1a"), "IPPool web: it is not in force: range 192.0.2.1 overlaps IPPool other")
	w.is(w.get(x, "1a"), "192.0.2.1")
	w.is(w.get(requesterOf("Pod x", "x"), "1a"), "192.0.2.1")
	w.RemovePool("web")
	w.is(w.get(x, "1a"), "192.0.2.1")
	w.is(w.get(y, "1a"), "IPPool web: there is no IPPool of this name")
	if _, _, known := w.Pool("web"); known || w.Counts("web") != (floating.Counts{Used: 1}) {
		t.Errorf("the removed pool is known: %t, counts %+v", known, w.Counts("web"))
	}
}

// A smaller pool gives no address of its former ranges; a larger pool gives the new addresses.
func TestPoolsShrinkAndGrow(t *testing.T) {
	w := newWorld(t)
	w.pool("192.0.2.1-192.0.2.2", "192.0.2.16-192.0.2.17")
	pod := func(name string) floating.Requester {
		return requesterOf("Deployment web", name, "release-policy=immutable")
	}
	w.get(pod("a"), "1a")
	w.get(requesterOf("Pod x", "x"), "1a")
	w.end("x", -1)
	w.pool("192.0.2.16-192.0.2.17")
	w.is(w.get(pod("a"), "1a"), "192.0.2.1")
	w.is(w.get(requesterOf("Pod y", "y"), "1a"), "192.0.2.16")
	w.end("a", 1)
	w.is(w.get(pod("b"), "1a"), "192.0.2.17")
	w.is(w.get(requesterOf("Pod z", "z"), "1a"), "IPPool web: all its IPv4 addresses are in use")
	w.pool("192.0.2.1-192.0.2.17")
	w.is(w.get(requesterOf("Pod z", "z"), "1a"), "192.0.2.2")
	w.is(w.get(requesterOf("Pod v", "v"), "1a"), "192.0.2.3")
	if got := w.Counts("web"); got != (floating.Counts{Total: 17, Used: 4, Kept: 1}) {
		t.Errorf("counts %+v", got)
	}
}

// A pod that is not bound yet keeps the address of an earlier attempt on nodes that carry it. On another node it gets
// another address, and what it drops does not count for the limit of its workload.
func TestAddressesOfAPodThatIsNotBound(t *testing.T) {
	w := newWorld(t)
	w.pool("192.0.2.1-192.0.2.9 rack=1", "192.0.2.17-192.0.2.18 rack=2")
	a := requesterOf("Deployment web", "a", "release-policy=immutable", "limit=1")
	w.is(w.get(a, "1a"), "192.0.2.1")
	w.is(w.get(a, "1b"), "192.0.2.1")
	w.is(w.get(a, "2a"), "192.0.2.17")
	w.is(w.get(a, "1b"), "192.0.2.1")
	w.is(w.get(a, "3a"), "IPPool web: its free IPv4 addresses are carried by other nodes, not by node 3a")
	w.is(w.drop(a, "2a"), "192.0.2.1")
	w.is(w.get(a, "2b"), "192.0.2.17")
	w.is(w.get(requesterOf("StatefulSet db", "db-0", "count=2"), "2a"),
		"IPPool web: its free IPv4 addresses are carried by other nodes, not by node 2a")
	w.is(w.get(requesterOf("StatefulSet db", "db-0", "count=2"), "1a"), "192.0.2.1 192.0.2.2")
}

// A pod that got its address without a node, by its gate, gets another address where nodes do not carry it.
func TestAddressesOfAPodWithoutANode(t *testing.T) {
	w := newWorld(t)
	w.pool("192.0.2.1 rack=1", "192.0.2.17 rack=2")
	a, rack := requesterOf("Pod a", "a"), func(name string) floating.Node { return floating.Node{Labels: nodeOf(name).Labels} }
	choices, err := w.Choose(a, rack("1"))
	if err != nil {
		t.Fatal(err)
	}
	w.write(floating.Claimed(choices[0], a, "", metav1.NewTime(w.now)))
	choices, err = w.Choose(a, rack("2"))
	if err != nil || len(choices) != 1 || choices[0].Address.String() != "192.0.2.17" {
		t.Errorf("in rack 2: %v, %v", choices, err)
	}
	w.is(w.get(a, "3a"), "IPPool web: its free IPv4 addresses are carried by other nodes, not by node 3a")
	w.is(w.get(requesterOf("Pod b", "b"), "2a"), "192.0.2.17")
	w.is(w.get(a, "2a"), "IPPool web: its free IPv4 addresses are carried by other nodes, not by node 2a")
	w.is(w.get(a, "1a"), "192.0.2.1")
}

// An address that was kept for a pod's name holds the pod on the nodes that carry it. A first address does not, even if
// it is kept once the pod ends.
func TestKeptAddressesOfAPodThatIsNotBound(t *testing.T) {
	for _, policy := range []string{"immutable", "never"} {
		w := newWorld(t)
		w.pool("192.0.2.1-192.0.2.9 rack=1", "192.0.2.17-192.0.2.18 rack=2")
		pod := func(uid string) floating.Requester {
			return requesterOf("StatefulSet db", "db-0", "release-policy="+policy, "uid="+uid)
		}
		w.is(w.get(pod("u1"), "1a"), "192.0.2.1")
		w.is(w.get(pod("u1"), "2a"), "192.0.2.17")
		w.is(w.drop(pod("u1"), "2a"), "192.0.2.1")
		w.is(w.holders(), "192.0.2.1:- 192.0.2.17:u1")
		w.end("u1", 1)
		w.is(w.get(pod("u2"), "2b"), "192.0.2.17")
		w.is(w.get(pod("u2"), "1a"), "IPPool web: 192.0.2.17, which is kept for this pod, is carried by nodes with rack=2, not by node 1a")
	}
}

// What a Deployment keeps for ever returns to it when its pod goes to another segment.
func TestNeverReleasedAddressReturnsToItsWorkload(t *testing.T) {
	w := newWorld(t)
	w.pool("192.0.2.1-192.0.2.9 rack=1", "192.0.2.17-192.0.2.18 rack=2")
	pod := func(name string) floating.Requester {
		return requesterOf("Deployment web", name, "release-policy=never")
	}
	w.get(pod("a"), "1a")
	w.end("a", 1)
	w.is(w.get(pod("b"), "1b"), "192.0.2.1")
	w.is(w.get(pod("b"), "2b"), "192.0.2.17")
	w.is(w.drop(pod("b"), "2b"), "192.0.2.1")
	w.is(w.holders(), "192.0.2.1:(web) 192.0.2.17:b")
}

// A pod that may get nothing any more keeps what it has, on the nodes that carry it.
func TestPodThatIsNotBoundWhenItsPoolIsDeleted(t *testing.T) {
	w := newWorld(t)
	pool := poolOf(t, "web", "192.0.2.1-192.0.2.9 rack=1", "192.0.2.17-192.0.2.18 rack=2")
	w.SetPool(pool, "")
	a := requesterOf("Deployment web", "a")
	w.is(w.get(a, "1a"), "192.0.2.1")
	pool.Namespaces = labels.SelectorFromSet(labels.Set{"team": "web"})
	w.SetPool(pool, "")
	w.is(w.get(a, "1b"), "192.0.2.1")
	w.is(w.get(a, "2a"), "IPPool web: spec.namespaces does not select namespace demo")
	w.RemovePool("web")
	w.is(w.get(a, "2a"), "192.0.2.1")
}

// A claim that was cut off after its first address goes on with it.
func TestClaimThatWasCutOff(t *testing.T) {
	w := newWorld(t)
	w.pool("192.0.2.1-192.0.2.9", "2001:db8::/120")
	a := requesterOf("Deployment web", "a", "count=2", "release-policy=immutable", "ttl=72h")
	choices, err := w.Choose(a, nodeOf("1a"))
	if err != nil || len(choices) != 4 {
		t.Fatalf("%v, %v", choices, err)
	}
	w.write(floating.Claimed(choices[0], a, "1a", metav1.NewTime(w.now)))
	w.is(w.get(a, "1a"), "192.0.2.1 2001:db8:: 192.0.2.2 2001:db8::1")
	f := w.Of("a")[0]
	if f.Name != "192.0.2.1" || f.Labels[networkv1alpha1.PoolLabel] != "web" || f.Spec.Holder.TTL.Duration != 72*time.Hour ||
		f.Spec.Holder.ReleasePolicy != networkv1alpha1.ReleaseImmutable || f.Spec.Holder.Node != "1a" {
		t.Errorf("FloatingIP %+v", f)
	}
}
