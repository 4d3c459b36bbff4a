package bgp

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/test/kindtest"
)

const all = networkv1alpha1.ClusterNetworkName

// newBed has two nodes, a pool, a Service with one of its addresses, and these objects.
func newBed(t *testing.T, counted *[]string, objects ...client.Object) *kindtest.Bed {
	t.Helper()
	b := kindtest.New(t, Kinds, Kind, func(env *kind.Env) {
		env.Settings.Sessions = func(peer string, nodes, established int, bfdUp *int32) {
			text := fmt.Sprint(peer, " ", nodes, " ", established)
			if bfdUp != nil {
				text += fmt.Sprint(" ", *bfdUp)
			}
			*counted = append(*counted, text)
		}
	})
	pool := &networkv1alpha1.LoadBalancerPool{ObjectMeta: metav1.ObjectMeta{Name: "edge"}}
	pool.Spec.Addresses = []networkv1alpha1.LoadBalancerRange{"198.51.100.0/24"}
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web"}}
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "198.51.100.1"}}
	meta.SetStatusCondition(&s.Status.Conditions, metav1.Condition{Type: networkv1alpha1.ServiceLoadBalancerReady,
		Status: metav1.ConditionTrue, Reason: networkv1alpha1.ReasonAsExpected})
	objects = append(objects, pool, s)
	for _, id := range []int{1, 2} {
		node, nn := kindtest.Node(t, id, "46")
		objects = append(objects, node, nn)
	}
	for _, o := range objects {
		status := o.DeepCopyObject().(client.Object)
		b.Create(o)
		status.SetResourceVersion("")
		b.Update(status)
	}
	return b
}

func aPeer() *networkv1alpha1.BGPPeer {
	return &networkv1alpha1.BGPPeer{ObjectMeta: metav1.ObjectMeta{Name: "rack", Generation: 2},
		Spec: networkv1alpha1.BGPPeerSpec{PeerAddress: "192.0.2.254", PeerASN: 64512, MyASN: 64513}}
}

// session is how conditions name a session with aPeer.
const session = "peerAddress 192.0.2.254, peerASN 64512, myASN 64513: "

func anAdvertisement() *networkv1alpha1.BGPAdvertisement {
	return &networkv1alpha1.BGPAdvertisement{ObjectMeta: metav1.ObjectMeta{Name: "services", Generation: 3},
		Spec: networkv1alpha1.BGPAdvertisementSpec{LoadBalancers: &networkv1alpha1.BGPLoadBalancers{}}}
}

func networkOf(b *kindtest.Bed, name string) *networkv1alpha1.NodeNetwork {
	return kindtest.Get(b, &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

func TestRoutesAreWrittenOnce(t *testing.T) {
	var counted []string
	b := newBed(t, &counted, aPeer(), anAdvertisement())
	kindtest.Expect(t, kindtest.Outcome{Writes: []string{"patch NodeNetwork n1", "patch NodeNetwork n2",
		"patch status BGPPeer rack", "patch status BGPAdvertisement services"}, Events: []string{
		"Warning SessionsDown BGPPeer rack: Established is False: " + session + "node n1: its agent has not reported the session yet; " +
			"node n2: its agent has not reported the session yet",
		"Normal AsExpected BGPAdvertisement services: Advertised is True: a node announces each selected address"}},
		b.Reconcile("", all))
	b.ExpectSettled("", all)
	for _, name := range []string{"n1", "n2"} {
		spec := networkOf(b, name).Spec.BGP
		if spec == nil || len(spec.Routes) != 1 || spec.Routes[0].Prefix != "198.51.100.1/32" || len(spec.Peers) != 1 {
			t.Errorf("%s announces %+v", name, spec)
		}
	}
	if !slices.Contains(counted, "rack 2 0") {
		t.Errorf("counted %v", counted)
	}
}

func TestSessionsAreReported(t *testing.T) {
	var counted []string
	b := newBed(t, &counted, aPeer(), anAdvertisement())
	b.Reconcile("", all)
	for name, session := range map[string]networkv1alpha1.NodeBGPSession{
		"n1": {Peer: "rack", State: networkv1alpha1.BGPEstablished, Routes: 1},
		"n2": {Peer: "rack", State: networkv1alpha1.BGPConnecting, Message: "cannot connect: connection refused"},
	} {
		nn := networkOf(b, name)
		nn.Status.BGP = []networkv1alpha1.NodeBGPSession{session}
		b.Update(nn)
	}
	kindtest.Expect(t, kindtest.Outcome{Writes: []string{"patch status BGPPeer rack"}}, b.Reconcile("", all))
	p := kindtest.Get(b, aPeer())
	c := meta.FindStatusCondition(p.Status.Conditions, networkv1alpha1.ConditionEstablished)
	if p.Status.Nodes != 2 || p.Status.Established != 1 || c.Message != session+"node n2: cannot connect: connection refused" {
		t.Errorf("status %+v", p.Status)
	}
	b.Delete(p)
	kindtest.Expect(t, kindtest.Outcome{Writes: []string{"patch NodeNetwork n1", "patch NodeNetwork n2",
		"patch status BGPAdvertisement services"}, Events: []string{"Warning NoPeer BGPAdvertisement services: Advertised is False: " +
		"no selected node has a session with a selected BGPPeer"}}, b.Reconcile("", all))
	if networkOf(b, "n1").Spec.BGP != nil {
		t.Error("a node without peers still announces")
	}
	if counted[len(counted)-1] != "rack 0 0" {
		t.Errorf("counted %v", counted)
	}
}

// BFD has a condition and a count of its own, which go with it.
func TestBFDIsReported(t *testing.T) {
	var counted []string
	watched := aPeer()
	watched.Spec.BFD = &networkv1alpha1.BGPPeerBFD{}
	b := newBed(t, &counted, watched)
	b.Reconcile("", all)
	up := networkv1alpha1.NodeBGPSession{Peer: "rack", State: networkv1alpha1.BGPEstablished,
		BFD: &networkv1alpha1.NodeBFDSession{State: networkv1alpha1.BFDUp}}
	down := *up.DeepCopy()
	down.BFD = &networkv1alpha1.NodeBFDSession{State: networkv1alpha1.BFDDown, Message: "the router sends no packets"}
	for name, session := range map[string]networkv1alpha1.NodeBGPSession{"n1": up, "n2": down} {
		nn := networkOf(b, name)
		nn.Status.BGP = []networkv1alpha1.NodeBGPSession{session}
		b.Update(nn)
	}
	kindtest.Expect(t, kindtest.Outcome{Writes: []string{"patch status BGPPeer rack"}, Events: []string{
		"Normal AsExpected BGPPeer rack: Established is True: each selected node has a session"}}, b.Reconcile("", all))
	p := kindtest.Get(b, aPeer())
	c := meta.FindStatusCondition(p.Status.Conditions, networkv1alpha1.ConditionBFDUp)
	if c == nil || c.Reason != networkv1alpha1.ReasonBFDDown || c.Message != session+"node n2: the router sends no packets" ||
		p.Status.BFDUp == nil || *p.Status.BFDUp != 1 || counted[len(counted)-1] != "rack 2 2 1" {
		t.Errorf("status %+v, counted %v", p.Status, counted)
	}
	nn := networkOf(b, "n2")
	nn.Status.BGP = []networkv1alpha1.NodeBGPSession{up}
	b.Update(nn)
	kindtest.Expect(t, kindtest.Outcome{Writes: []string{"patch status BGPPeer rack"}, Events: []string{
		"Normal AsExpected BGPPeer rack: BFDUp is True: the BFD session of each selected node is up"}}, b.Reconcile("", all))
	p = kindtest.Get(b, aPeer())
	p.Spec.BFD = nil
	b.Update(p)
	b.Reconcile("", all)
	p = kindtest.Get(b, aPeer())
	if len(p.Status.Conditions) != 1 || p.Status.BFDUp != nil || networkOf(b, "n1").Spec.BGP.Peers[0].BFD != nil {
		t.Errorf("without BFD: %+v", p.Status)
	}
}

// Without a BGPPeer or BGPAdvertisement no event of another object enqueues anything.
func TestAnUnusedFeatureCostsNothing(t *testing.T) {
	var counted []string
	b := newBed(t, &counted)
	r := b.Kinds[0].Reconciler.(*Reconciler)
	s := kindtest.Get(b, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web"}})
	requests := slices.Concat(r.ofService(t.Context(), s), r.ofNetwork(t.Context(), networkOf(b, "n1")), r.ifUsed(t.Context(), s))
	if len(requests) > 0 {
		t.Errorf("requests %v", requests)
	}
	kindtest.Expect(t, kindtest.Outcome{}, b.Reconcile("", all))
	leftOver := networkOf(b, "n1")
	leftOver.Spec.BGP = &networkv1alpha1.NodeBGP{RouterID: "192.0.2.1"}
	if requests := r.ofNetwork(t.Context(), leftOver); len(requests) != 1 {
		t.Errorf("a node whose routes are left over: %v", requests)
	}
}

func TestPredicates(t *testing.T) {
	node, nn := kindtest.Node(t, 1, "46")
	for name, c := range map[string]struct {
		passes predicate.Funcs
		object client.Object
		change func(client.Object)
		want   bool
	}{
		"a heartbeat": {trigger.Changed(nodeChanged), node, func(o client.Object) { o.SetResourceVersion("9") }, false},
		"a cordon":    {trigger.Changed(nodeChanged), node, func(o client.Object) { o.(*corev1.Node).Spec.Unschedulable = true }, true},
		"a label":     {trigger.Changed(nodeChanged), node, func(o client.Object) { o.SetLabels(map[string]string{"a": "b"}) }, true},
		"pods":        {trigger.Changed(networkChanged), nn, func(o client.Object) { o.(*networkv1alpha1.NodeNetwork).Status.Pods = 7 }, false},
		"a session": {trigger.Changed(networkChanged), nn, func(o client.Object) {
			o.(*networkv1alpha1.NodeNetwork).Status.BGP = []networkv1alpha1.NodeBGPSession{{Peer: "rack"}}
		}, true},
		"a service's ports": {trigger.Changed(serviceChanged), &corev1.Service{}, func(o client.Object) {
			o.(*corev1.Service).Spec.Ports = []corev1.ServicePort{{Port: 80}}
		}, false},
		"a service's policy": {trigger.Changed(serviceChanged), &corev1.Service{}, func(o client.Object) {
			o.(*corev1.Service).Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			after := c.object.DeepCopyObject().(client.Object)
			c.change(after)
			if have := c.passes.Update(event.UpdateEvent{ObjectOld: c.object, ObjectNew: after}); have != c.want {
				t.Errorf("passes %t, want %t", have, c.want)
			}
		})
	}
}
