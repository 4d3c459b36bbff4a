package floating_test

import (
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating"
)

func TestPools(t *testing.T) {
	bad := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "rack", Operator: "Near"}}}
	type spec = networkv1alpha1.IPPoolSpec
	ranges := func(texts ...string) (ranges []networkv1alpha1.IPPoolRange) {
		for _, text := range texts {
			ranges = append(ranges, networkv1alpha1.IPPoolRange{Addresses: text})
		}
		return ranges
	}
	team := &metav1.LabelSelector{MatchLabels: labels.Set{"team": "a"}}
	for name, c := range map[string]struct {
		spec networkv1alpha1.IPPoolSpec
		want string
	}{
		"both families": {spec{Location: "Overlay", Size: 3, Namespaces: &metav1.LabelSelector{},
			Ranges: ranges("2001:db8::/120", "192.0.2.0/28")},
			"Overlay  3 everybody [true false] 272 <nil>"},
		"an underlay": {spec{Location: "Underlay", Network: "vlan7", Namespaces: team, Ranges: ranges("192.0.2.1")},
			"Underlay vlan7 0 team=a [true] 1 <nil>"},
		"no namespaces":                      {spec{Location: "NAT", Ranges: ranges("2001:db8::1")}, "NAT  0 nobody [false] 1 <nil>"},
		"more addresses than a number holds": {spec{Ranges: ranges("2001:db8::/64", "192.0.2.0/24")}, fmt.Sprint(int64(math.MaxInt64))},
		"a range that is none": {spec{Ranges: ranges("192.0.2.1", "192.0.2.x")},
			`spec.ranges[1].addresses: ParseAddr("192.0.2.x")`},
		"ranges that overlap": {spec{Ranges: ranges("192.0.2.0/28", "192.0.2.15-192.0.2.16")},
			"spec.ranges[1].addresses: 192.0.2.15-192.0.2.16 overlaps 192.0.2.0-192.0.2.15 of spec.ranges[0]"},
		"a bad node selector": {spec{Ranges: []networkv1alpha1.IPPoolRange{{Addresses: "192.0.2.1", NodeSelector: bad}}},
			`spec.ranges[0].nodeSelector: "Near" is not`},
		"a bad namespace selector": {spec{Namespaces: bad}, `spec.namespaces: "Near" is not`},
	} {
		p, err := floating.ParsePool(&networkv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: c.spec})
		who := whom(p.Namespaces)
		got := fmt.Sprint(p.Location, " ", p.Network, " ", p.Size, " ", who, " ", p.Families(), " ", p.Total(), " ", err)
		if p.Name != "web" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// whom says in a word whose namespaces a selector selects.
func whom(selector labels.Selector) string {
	if selector == nil {
		return "unknown"
	}
	requirements, selectable := selector.Requirements()
	switch {
	case !selectable:
		return "nobody"
	case len(requirements) == 0:
		return "everybody"
	}
	return selector.String()
}

// A book ignores what is older than what it has, because caches are behind what the process writes.
func TestStaleVersions(t *testing.T) {
	b := floating.NewBook()
	b.SetPool(poolOf(t, "web", "192.0.2.1-192.0.2.2"), "")
	address := netip.MustParseAddr("192.0.2.1")
	version := func(uid types.UID, version, pod string) *networkv1alpha1.FloatingIP {
		f := floating.Claimed(floating.Choice{Address: address}, requesterOf("StatefulSet db", pod), "1a", metav1.Time{})
		f.UID, f.ResourceVersion = uid, version
		return f
	}
	for i, step := range []struct {
		observe, forget *networkv1alpha1.FloatingIP
		changed         bool
		pod             string // that has the address then; "": none has
	}{
		{observe: version("x", "7", "db-0"), changed: true, pod: "db-0"},
		{observe: version("x", "5", "db-1"), pod: "db-0"},
		{observe: version("x", "7", "db-1"), pod: "db-0"},
		{observe: version("x", "10", "db-2"), changed: true, pod: "db-2"},
		{forget: version("w", "9", "db-1"), pod: "db-2"},
		{forget: version("x", "12", "db-2")},
		{observe: version("y", "14", "db-3"), changed: true, pod: "db-3"},
		{forget: version("x", "12", "db-2"), pod: "db-3"},
		{forget: version("y", "15", "db-3")},
		{forget: version("y", "15", "db-3")},
	} {
		changed := step.observe != nil && b.Observe(step.observe)
		if step.forget != nil {
			b.Forget(step.forget)
		}
		got := ""
		if f := b.Get(address); f != nil {
			got = f.Spec.Holder.Pod
		}
		used := b.Counts("web").Used == 1
		if changed != step.changed || got != step.pod || used != (got != "") || len(b.Of(types.UID(step.pod))) == 1 != used {
			t.Errorf("step %d: changed %t, the pod is %q, want %q; used %t", i, changed, got, step.pod, used)
		}
		if faults := b.Faults(); len(faults) > 0 {
			t.Errorf("step %d: %v", i, faults)
		}
	}
}

func TestMalformedFloatingIPs(t *testing.T) {
	b := floating.NewBook()
	f := &networkv1alpha1.FloatingIP{}
	f.Spec.Address, f.Spec.Pool = "web", "web"
	if b.Observe(f) || len(b.InPool("web")) > 0 {
		t.Error("the book has a FloatingIP without an address")
	}
	b.Forget(f)
}

func TestChangesOfPools(t *testing.T) {
	b := floating.NewBook()
	p := poolOf(t, "web", "192.0.2.0/28 rack=1")
	nobody := poolOf(t, "web", "192.0.2.0/27 rack=2")
	nobody.Namespaces = labels.Nothing()
	for i, step := range []struct {
		pool    floating.Pool
		refused string
		changed bool
	}{
		{p, "", true}, {p, "", false}, {p, "overlap", true}, {p, "", true},
		{poolOf(t, "web", "192.0.2.0/28 rack=2"), "", true}, {poolOf(t, "web", "192.0.2.0/27 rack=2"), "", true},
		{poolOf(t, "web", "192.0.2.0/27 rack=2"), "", false},
		{nobody, "", true}, {nobody, "", false}, {poolOf(t, "web", "192.0.2.0/27 rack=2"), "", true}, // of all namespaces
	} {
		if changed := b.SetPool(step.pool, step.refused); changed != step.changed {
			t.Errorf("step %d: changed %t", i, changed)
		}
	}
}

func TestDecisions(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	exists := floating.State{Exists: true, Replicas: 1}
	immutable, immutable1h := []string{"release-policy=Immutable"}, []string{"release-policy=Immutable", "ttl=1h"}
	never72h, released := []string{"release-policy=Never", "ttl=72h"}, floating.Outcome{Released: true}
	for name, c := range map[string]struct {
		workload, pod string
		fields        []string
		state         floating.State
		ago           time.Duration
		want          floating.Outcome
	}{
		"Pod":                         {"Deployment web", "a", nil, exists, 0, released},
		"Pod with a TTL":              {"Deployment web", "a", []string{"ttl=1h"}, exists, 0, released},
		"Immutable":                   {"Deployment web", "a", immutable, exists, 0, floating.Outcome{}},
		"Immutable with a TTL":        {"Deployment web", "a", immutable1h, exists, time.Minute, floating.Outcome{Again: 59 * time.Minute}},
		"Immutable at its TTL":        {"Deployment web", "a", immutable1h, exists, time.Hour, released},
		"Immutable without workload":  {"Deployment web", "a", immutable, floating.State{}, 0, released},
		"Immutable of a former one":   {"Deployment web", "a", immutable, floating.State{Exists: true, UID: "new", Replicas: 1}, 0, released},
		"Immutable scaled to nothing": {"Deployment web", "a", immutable, floating.State{Exists: true}, 0, released},
		"Immutable of a DaemonSet":    {"DaemonSet agent", "a", immutable, floating.State{Exists: true, Replicas: -1}, 0, floating.Outcome{}},
		"Immutable of a Job":          {"Job import", "a", immutable, exists, 0, floating.Outcome{}},
		"Immutable of a bare pod":     {"Pod a", "a", immutable, floating.State{}, 0, released},
		"Immutable, pod 1 of 1":       {"StatefulSet db", "db-1", immutable, exists, 0, released},
		"Immutable, pod 0 of 1":       {"StatefulSet db", "db-0", immutable, exists, 0, floating.Outcome{}},
		"Immutable, pod 0 of 1 from 1": {"StatefulSet db", "db-0", immutable, floating.State{Exists: true, Replicas: 1, FirstOrdinal: 1}, 0,
			released},
		"Immutable, pod without an ordinal": {"StatefulSet db", "db", immutable, exists, 0,
			released},
		"Never":               {"Deployment web", "a", []string{"release-policy=Never"}, floating.State{}, time.Hour, floating.Outcome{}},
		"Never with a TTL":    {"Deployment web", "a", never72h, floating.State{}, time.Hour, floating.Outcome{Again: 71 * time.Hour}},
		"Never after its TTL": {"Deployment web", "a", never72h, exists, 73 * time.Hour, released},
	} {
		choice := floating.Choice{Address: netip.MustParseAddr("192.0.2.1")}
		f := floating.Claimed(choice, requesterOf(c.workload, c.pod, c.fields...), "1a", metav1.NewTime(now))
		if got := floating.Decide(f, c.state, floating.NewBook().Before, now.Add(-c.ago), now); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// Nothing can be translated to an address of a family that pods do not have.
func TestFamiliesOfATranslatingPool(t *testing.T) {
	v4, v6 := netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:244::/48")
	for name, c := range map[string]struct {
		location networkv1alpha1.IPPoolLocation
		networks []netip.Prefix
		want     string
	}{
		"both":               {networkv1alpha1.LocationNAT, []netip.Prefix{v6, v4}, ""},
		"no network yet":     {networkv1alpha1.LocationNAT, nil, ""},
		"IPv6 alone":         {networkv1alpha1.LocationNAT, []netip.Prefix{v6}, "range 192.0.2.1 of IPPool web is of a family"},
		"IPv4 alone":         {networkv1alpha1.LocationNAT, []netip.Prefix{v4}, "range 2001:db8::1 of IPPool web is of a family"},
		"not of Overlay ...": {networkv1alpha1.LocationOverlay, []netip.Prefix{v4}, ""}, // whose ranges must be inside
	} {
		p := poolOf(t, "web", "192.0.2.1", "2001:db8::1")
		p.Location = c.location
		if err := p.CheckFamilies(c.networks); (err == nil) != (c.want == "") || !strings.Contains(fmt.Sprint(err), c.want) && err != nil {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// The history has the latest pods of the address, and no more than its length.
func TestHistoryOfAnAddress(t *testing.T) {
	w := newWorld(t)
	w.pool("2001:db8::a")
	for i := range networkv1alpha1.HistoryLength + 3 {
		pod := fmt.Sprint("db-", i)
		w.is(w.get(requesterOf("StatefulSet db", pod), "1a"), "2001:db8::a")
		w.end(pod, 100)
	}
	f := w.Get(netip.MustParseAddr("2001:db8::a"))
	last := f.Status.History[0]
	if len(f.Status.History) != networkv1alpha1.HistoryLength || last.Pod != "db-18" || last.Node != "1a" ||
		last.Kind != "StatefulSet" || last.Until.Sub(last.From.Time) != 0 || f.Status.History[15].Pod != "db-3" ||
		f.Name != "2001-0db8-0000-0000-0000-0000-0000-000a" {
		t.Errorf("history %+v of %s", f.Status.History, f.Name)
	}
}

// What pods have of Overlay pools stays theirs, and what people reserved stays reserved, when a pool is deleted or recreated with
// other ranges, also while the book does not know that yet.
func TestOverlayAddressesInUse(t *testing.T) {
	pool := func(name, addresses string) networkv1alpha1.IPPool {
		p := networkv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Name: name}}
		p.Spec = networkv1alpha1.IPPoolSpec{Location: networkv1alpha1.LocationOverlay,
			Ranges: []networkv1alpha1.IPPoolRange{{Addresses: addresses}}}
		return p
	}
	book := floating.NewBook()
	set := func(p networkv1alpha1.IPPool) {
		read, err := floating.ParsePool(&p)
		if err != nil {
			t.Fatal(err)
		}
		book.SetPool(read, "")
	}
	web, moved := pool("web", "10.244.9.0-10.244.9.3"), pool("web", "10.244.8.0-10.244.8.1")
	set(web)
	for i, address := range []networkv1alpha1.EgressAddress{"10.244.9.0", "10.244.9.1", "10.244.9.2"} {
		f := &networkv1alpha1.FloatingIP{ObjectMeta: metav1.ObjectMeta{Name: string(address), ResourceVersion: "1"},
			Spec: networkv1alpha1.FloatingIPSpec{Address: address, Pool: "web"}}
		switch i {
		case 0:
			f.Spec.Holder = &networkv1alpha1.FloatingIPHolder{Kind: "Pod", Namespace: "demo", Name: "web", PodUID: "uid"}
		case 2:
			f.Labels = map[string]string{networkv1alpha1.ReservedLabel: ""}
		}
		book.Observe(f)
	}
	want := func(text string, pools ...networkv1alpha1.IPPool) {
		t.Helper()
		if have := fmt.Sprint(book.Overlay(pools)); have != text {
			t.Errorf("%s, want %s", have, text)
		}
	}
	want("[10.244.9.0/30]", web)
	want("[10.244.9.0/32 10.244.9.2/32]")
	want("[10.244.8.0/31 10.244.9.0/32 10.244.9.2/32]", moved)
	set(moved)
	want("[10.244.8.0/31 10.244.9.0/32 10.244.9.2/32]", moved)
	book.RemovePool("web")
	want("[10.244.9.0/32 10.244.9.2/32]")
	set(web)
	want("[10.244.9.0/30]", web)
}

// What pods have of a deleted pool of a Network takes no address from other Networks, also while the book has the pool still. The Network
// of a pool that the book never had is what the FloatingIP's label says.
func TestStrandedOfANetwork(t *testing.T) {
	pool := floating.Pool{Name: "web", Location: networkv1alpha1.LocationUnderlay, Network: "blue"}
	for name, c := range map[string]struct {
		known, removed     bool
		label              string
		cluster, blue, red string
	}{
		"deleted":                  {known: true, removed: true, cluster: "[]", blue: "[192.0.2.1/32]", red: "[]"},
		"still known":              {known: true, cluster: "[]", blue: "[192.0.2.1/32]", red: "[]"},
		"deleted before the start": {label: "blue", cluster: "[]", blue: "[192.0.2.1/32]", red: "[]"},
		"never known":              {cluster: "[192.0.2.1/32]", blue: "[192.0.2.1/32]", red: "[192.0.2.1/32]"},
	} {
		t.Run(name, func(t *testing.T) {
			book := floating.NewBook()
			if c.known {
				book.SetPool(pool, "")
			}
			f := &networkv1alpha1.FloatingIP{ObjectMeta: metav1.ObjectMeta{Name: "192.0.2.1", ResourceVersion: "1"},
				Spec: networkv1alpha1.FloatingIPSpec{Address: "192.0.2.1", Pool: "web", Holder: &networkv1alpha1.FloatingIPHolder{
					Kind: "Pod", Namespace: "demo", Name: "web", PodUID: "uid"}}}
			if c.label != "" {
				f.Labels = map[string]string{networkv1alpha1.PoolNetworkLabel: c.label}
			}
			book.Observe(f)
			if c.removed {
				book.RemovePool("web")
			}
			for network, want := range map[string]string{"": c.cluster, "blue": c.blue, "red": c.red} {
				if have := fmt.Sprint(book.Stranded(nil, network)); have != want {
					t.Errorf("Network %q: %s, want %s", network, have, want)
				}
			}
		})
	}
}

// Of the addresses of a workload for one index and family, those with a pod come before the others, and then the lowest.
func TestBefore(t *testing.T) {
	book := floating.NewBook()
	book.SetPool(poolOf(t, "web", "192.0.2.0/28", "2001:db8::/124"), "")
	observe := func(version int, address, pod string, index int32, ended bool) *networkv1alpha1.FloatingIP {
		a := requesterOf("Deployment web", pod, "release-policy=immutable")
		f := floating.Claimed(floating.Choice{Address: netip.MustParseAddr(address), Index: index}, a, "1a", metav1.Now())
		if ended {
			f = floating.Ended(f, floating.Outcome{}, metav1.Now())
		}
		f.ResourceVersion = strconv.Itoa(version)
		book.Observe(f)
		return f
	}
	kept := []*networkv1alpha1.FloatingIP{}
	for i, address := range []string{"192.0.2.1", "192.0.2.3", "192.0.2.5"} {
		kept = append(kept, observe(i+1, address, fmt.Sprint("old-", i), 0, true))
	}
	held := observe(4, "192.0.2.9", "new", 0, false)
	observe(5, "2001:db8::1", "new", 0, false) // another family
	observe(6, "192.0.2.2", "new", 1, false)   // another index
	for i, f := range kept {
		if got := book.Before(f); got != i+1 {
			t.Errorf("%d addresses before %s, want %d", got, f.Spec.Address, i+1)
		}
	}
	ended := floating.Ended(held, floating.Outcome{}, metav1.Now()) // the book does not have that yet
	if got, again := book.Before(held), book.Before(ended); got != 3 || again != 3 {
		t.Errorf("%d and %d addresses before %s, want the 3 lower ones", got, again, held.Spec.Address)
	}
}
