package lbpool

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// ranges shortens a type.
type ranges = []networkv1alpha1.LoadBalancerRange

// aPool is a pool of these ranges for Services with the default class and without a class.
func aPool(t *testing.T, name string, of ranges, change ...func(*networkv1alpha1.LoadBalancerPoolSpec)) Pool {
	t.Helper()
	p := &networkv1alpha1.LoadBalancerPool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.Addresses, p.Spec.ServicesWithoutClass = of, true
	for _, c := range change {
		c(&p.Spec)
	}
	read, err := ParsePool(p)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// aService is a Service of type LoadBalancer with the TCP port 80 and these families.
func aService(families string, change ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web", Annotations: map[string]string{}}}
	s.Spec.Type, s.Spec.Ports = corev1.ServiceTypeLoadBalancer, []corev1.ServicePort{{Port: 80}}
	for _, f := range families {
		s.Spec.IPFamilies = append(s.Spec.IPFamilies, corev1.IPFamily("IPv"+string(f)))
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func annotated(name, value string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Annotations[name] = value }
}

func addresses(texts ...string) (all []netip.Addr) {
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

// used is a use by a Service with a key, a port, and a policy.
func used(key string, port int32, local bool) Use {
	return Use{Of: "service demo/other", Sharing: Sharing{Namespace: "demo", Key: key, Ports: []Port{{corev1.ProtocolTCP, port}},
		Local: local, Pods: map[string]string{"app": "a"}}}
}

// localOf is a use by a Service of a namespace with externalTrafficPolicy Local, the key "k" and the port 81, which allows all namespaces.
func localOf(namespace string) Use {
	u := used("k", 81, true)
	u.Namespace, u.Namespaces = namespace, []string{networkv1alpha1.EveryNamespace}
	return u
}

// usedBy is a use by a Service of a namespace with the key "k" and the port 81, which allows other namespaces.
func usedBy(namespace string, allowed ...string) Use {
	u := used("k", 81, false)
	u.Of, u.Namespace, u.Namespaces = "service "+namespace+"/other", namespace, allowed
	return u
}

// gave returns pools of which one gave Services the address 198.51.100.1, which is in no range now.
func gave(name string, pools func(*testing.T) []Pool) func(*testing.T) []Pool {
	return func(t *testing.T) []Pool {
		all := pools(t)
		for i := range all {
			if all[i].Name == name {
				all[i].InUse = addresses("198.51.100.1")
			}
		}
		return all
	}
}

func TestAssign(t *testing.T) {
	both := func(t *testing.T) []Pool {
		return []Pool{aPool(t, "a", ranges{"192.0.2.200-192.0.2.202", "2001:db8::/126"})}
	}
	unserving := func(t *testing.T) []Pool {
		return []Pool{aPool(t, "a", ranges{"192.0.2.200"}, func(s *networkv1alpha1.LoadBalancerPoolSpec) { s.ServicesWithoutClass = false })}
	}
	closed := func(s *networkv1alpha1.LoadBalancerPoolSpec) { s.AutoAssign = new(false) }
	prefer := func(s *corev1.Service) { s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyPreferDualStack) }
	const key = "metallb.universe.tf/allow-shared-ip"
	for name, c := range map[string]struct {
		service *corev1.Service
		pools   func(*testing.T) []Pool
		current []netip.Addr
		book    Book
		want    string // addresses, or the reason and a part of the message
	}{
		"the first of each family": {service: aService("46"), want: "192.0.2.200 2001:db8::"},
		"one family":               {service: aService("6"), want: "2001:db8::"},
		"it keeps its address":     {service: aService("4"), current: addresses("192.0.2.202"), want: "192.0.2.202"},
		"an address outside goes":  {service: aService("4"), current: addresses("198.51.100.1"), want: "192.0.2.200"},
		"a requested address":      {service: aService("4", annotated("metallb.io/loadBalancerIPs", "192.0.2.201")), want: "192.0.2.201"},
		"both families requested": {service: aService("46", annotated("weft.dev/load-balancer-ips", "2001:db8::3, 192.0.2.201")),
			want: "192.0.2.201 2001:db8::3"},
		"one of two families requested": {service: aService("46", annotated("weft.dev/load-balancer-ips", "192.0.2.201")),
			want: "192.0.2.201 2001:db8::"},
		"spec.loadBalancerIP": {service: aService("4", func(s *corev1.Service) { s.Spec.LoadBalancerIP = "192.0.2.202" }),
			want: "192.0.2.202"},
		"it goes to the requested address": {service: aService("4", annotated("weft.dev/load-balancer-ips", "192.0.2.201")),
			current: addresses("192.0.2.200"), want: "192.0.2.201"},
		"requested and not in a pool": {service: aService("4", annotated("weft.dev/load-balancer-ips", "198.51.100.1")),
			want: "AddressUnavailable requested address 198.51.100.1 is not in LoadBalancerPool a"},
		"requested and used": {service: aService("4", annotated("weft.dev/load-balancer-ips", "192.0.2.200")),
			book: Book{netip.MustParseAddr("192.0.2.200"): {used("", 80, false)}},
			want: "AddressUnavailable requested address 192.0.2.200: service demo/other has it"},
		"used addresses are skipped": {service: aService("4"), book: Book{netip.MustParseAddr("192.0.2.200"): {used("", 80, false)}},
			want: "192.0.2.201"},
		"exhausted": {service: aService("4"), pools: func(t *testing.T) []Pool {
			return []Pool{aPool(t, "a", ranges{"192.0.2.200"})}
		}, book: Book{netip.MustParseAddr("192.0.2.200"): {used("", 80, false)}},
			want: "PoolExhausted LoadBalancerPool a: no IPv4 address is free"},
		"a second pool": {service: aService("4"), pools: func(t *testing.T) []Pool {
			return []Pool{aPool(t, "a", ranges{"192.0.2.200"}), aPool(t, "b", ranges{"192.0.2.210"})}
		}, book: Book{netip.MustParseAddr("192.0.2.200"): {used("", 80, false)}}, want: "192.0.2.210"},
		"required families are given together": {service: aService("46"), pools: func(t *testing.T) []Pool {
			return []Pool{aPool(t, "a", ranges{"192.0.2.200"})}
		}, want: "PoolExhausted LoadBalancerPool a: no IPv6 address is free"},
		"preferred families are not": {service: aService("46", prefer), pools: func(t *testing.T) []Pool {
			return []Pool{aPool(t, "a", ranges{"192.0.2.200"})}
		}, want: "192.0.2.200"},
		"a pool without autoAssign": {service: aService("4"), pools: func(t *testing.T) []Pool {
			return []Pool{aPool(t, "a", ranges{"192.0.2.200"}, closed)}
		}, want: "PoolExhausted"},
		"a pool without autoAssign by its name": {service: aService("4", annotated("metallb.universe.tf/address-pool", "a")),
			pools: func(t *testing.T) []Pool {
				return []Pool{aPool(t, "a", ranges{"192.0.2.200"}, closed)}
			}, want: "192.0.2.200"},
		"a pool without autoAssign by an address": {service: aService("4", annotated("weft.dev/load-balancer-ips", "192.0.2.200")),
			pools: func(t *testing.T) []Pool {
				return []Pool{aPool(t, "a", ranges{"192.0.2.200"}, closed)}
			}, want: "192.0.2.200"},
		"another pool by its name": {service: aService("4", annotated("weft.dev/load-balancer-pool", "b")), want: "NoPool"},
		"another class": {service: aService("4", func(s *corev1.Service) { s.Spec.LoadBalancerClass = new("weft.dev/inner") }),
			want: `NoPool no LoadBalancerPool serves class "weft.dev/inner"`},
		"another label": {service: aService("4"), pools: func(t *testing.T) []Pool {
			return []Pool{aPool(t, "a", ranges{"192.0.2.200"}, func(s *networkv1alpha1.LoadBalancerPoolSpec) {
				s.ServiceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "web"}}
			})}
		}, want: "NoPool"},
		"a refused pool": {service: aService("4"), pools: func(t *testing.T) []Pool {
			p := aPool(t, "a", ranges{"192.0.2.200"})
			p.Refused = "range 192.0.2.200 of LoadBalancerPool a overlaps 192.0.2.200 of node n1"
			return []Pool{p}
		}, want: "PoolExhausted LoadBalancerPool a: no IPv4 address is free; range 192.0.2.200 of LoadBalancerPool a overlaps"},
		"a refused pool takes nothing away": {service: aService("4"), current: addresses("192.0.2.200"), pools: func(t *testing.T) []Pool {
			p := aPool(t, "a", ranges{"192.0.2.200"})
			p.Refused = "it overlaps"
			return []Pool{p}
		}, want: "192.0.2.200"},
		"a shared address": {service: aService("4", annotated(key, "k")), book: Book{netip.MustParseAddr("192.0.2.201"): {used("k", 81, false)}},
			want: "192.0.2.201"},
		"the same port is not shared": {service: aService("4", annotated(key, "k")),
			book: Book{netip.MustParseAddr("192.0.2.200"): {used("k", 80, false)}}, want: "192.0.2.201"},
		"another key is not shared": {service: aService("4", annotated(key, "k")),
			book: Book{netip.MustParseAddr("192.0.2.200"): {used("l", 81, false)}}, want: "192.0.2.201"},
		"Local and Cluster do not share": {service: aService("4", annotated(key, "k")),
			book: Book{netip.MustParseAddr("192.0.2.200"): {used("k", 81, true)}}, want: "192.0.2.201"},
		"Local shares with the same pods": {service: aService("4", annotated(key, "k"), func(s *corev1.Service) {
			s.Spec.ExternalTrafficPolicy, s.Spec.Selector = corev1.ServiceExternalTrafficPolicyLocal, map[string]string{"app": "a"}
		}), book: Book{netip.MustParseAddr("192.0.2.201"): {used("k", 81, true)}}, want: "192.0.2.201"},
		"Local does not share with another namespace": {service: aService("4", annotated(key, "k"), func(s *corev1.Service) {
			s.Spec.ExternalTrafficPolicy, s.Spec.Selector = corev1.ServiceExternalTrafficPolicyLocal, map[string]string{"app": "a"}
			s.Annotations[networkv1alpha1.SharedIPNamespacesAnnotation] = "*"
		}), book: Book{netip.MustParseAddr("192.0.2.200"): {localOf("shop")}}, want: "192.0.2.201"},
		"the older of two keeps an address": {service: aService("4"), current: addresses("192.0.2.200"),
			book: Book{netip.MustParseAddr("192.0.2.200"): {{Of: "service demo/other", Younger: true}}}, want: "192.0.2.200"},
		"an address that its pool gave stays": {service: aService("4"), pools: gave("a", both), current: addresses("198.51.100.1"),
			want: "198.51.100.1"},
		"requested, and its pool gave it": {service: aService("4", annotated("weft.dev/load-balancer-ips", "198.51.100.1")),
			pools: gave("a", both), current: addresses("198.51.100.1"), want: "198.51.100.1"},
		"requested, and its pool gave it to another": {service: aService("4", annotated("weft.dev/load-balancer-ips", "198.51.100.1")),
			pools: gave("a", both), want: "AddressUnavailable requested address 198.51.100.1 is not in LoadBalancerPool a"},
		"another pool is requested": {service: aService("4", annotated("weft.dev/load-balancer-pool", "b")), pools: gave("a",
			func(t *testing.T) []Pool { return append(both(t), aPool(t, "b", ranges{"192.0.2.210"})) }),
			current: addresses("198.51.100.1"), want: "192.0.2.210"},
		"another address is requested": {service: aService("4", annotated("weft.dev/load-balancer-ips", "192.0.2.201")),
			pools: gave("a", both), current: addresses("198.51.100.1"), want: "192.0.2.201"},
		"no pool serves it any more": {service: aService("4"), pools: gave("a", unserving), current: addresses("198.51.100.1"),
			want: "198.51.100.1"},
		"the pool that serves others gave one of two": {service: aService("46"), pools: gave("a", unserving),
			current: addresses("198.51.100.1"), want: "NoPool no LoadBalancerPool"},
		"what another Service has too is lost": {service: aService("4"), pools: gave("a", both), current: addresses("198.51.100.1"),
			book: Book{netip.MustParseAddr("198.51.100.1"): {{Of: "service demo/other"}}}, want: "192.0.2.200"},
		"the younger of two loses it": {service: aService("4"), current: addresses("192.0.2.200"),
			book: Book{netip.MustParseAddr("192.0.2.200"): {{Of: "service demo/other"}}}, want: "192.0.2.201"},
	} {
		t.Run(name, func(t *testing.T) {
			request, err := ParseRequest(c.service, nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.pools == nil {
				c.pools = both
			}
			have := Assign(request, c.current, c.pools(t), c.book)
			var texts []string
			for _, a := range have.Addresses {
				texts = append(texts, a.String())
			}
			if text := strings.TrimSpace(strings.Join(texts, " ") + have.Reason); have.Reason == "" && text != c.want ||
				have.Reason != "" && !strings.HasPrefix(have.Reason+" "+have.Message, c.want) {
				t.Errorf("%+v, want %s", have, c.want)
			}
			if !slices.IsSortedFunc(have.Addresses, netip.Addr.Compare) || len(have.Pools) != len(have.Addresses) {
				t.Errorf("%+v is not complete", have)
			}
			// What it has now, it keeps.
			if again := Assign(request, have.Addresses, c.pools(t), c.book); !slices.Equal(again.Addresses, have.Addresses) {
				t.Errorf("then it has %v instead of %v", again.Addresses, have.Addresses)
			}
		})
	}
}

// Services share an address across namespaces only if both allow the other's namespace. Services that share it already keep it.
func TestSharingAcrossNamespaces(t *testing.T) {
	const allow = networkv1alpha1.SharedIPNamespacesAnnotation
	a := netip.MustParseAddr("192.0.2.200")
	for name, c := range map[string]struct {
		allowed string // by the Service demo/web
		use     Use
		refused string
	}{
		"neither allows it":     {"", usedBy("bank"), "AddressUnavailable requested address 192.0.2.200: service bank/other has it, and"},
		"only the requester":    {"bank", usedBy("bank"), "service bank/other does not allow namespace demo"},
		"only the holder":       {"", usedBy("bank", "demo"), "the Service does not allow namespace bank"},
		"both name others":      {"shop, demo", usedBy("bank", "shop", "bank"), "does not allow namespace"},
		"a part of a name":      {"bank", usedBy("bank", "dem", "demo2"), "does not allow namespace demo"},
		"both":                  {"shop, bank", usedBy("bank", "demo"), ""},
		"all namespaces":        {"*", usedBy("bank", "*"), ""},
		"in the same namespace": {"", usedBy("demo"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := aService("4", annotated("weft.dev/allow-shared-ip", "k"), annotated("weft.dev/load-balancer-ips", a.String()),
				annotated(allow, c.allowed))
			request, err := ParseRequest(s, nil)
			if err != nil {
				t.Fatal(err)
			}
			pools, book := []Pool{aPool(t, "a", ranges{"192.0.2.200-192.0.2.202"})}, Book{a: {c.use}}
			have := Assign(request, nil, pools, book)
			if text := have.Reason + " " + have.Message; (c.refused == "") != slices.Equal(have.Addresses, addresses("192.0.2.200")) ||
				!strings.Contains(text, c.refused) {
				t.Errorf("%v %s, want %q", have.Addresses, text, c.refused)
			}
			request.Addresses = nil
			if any := Assign(request, nil, pools, book); (c.refused == "") != slices.Equal(any.Addresses, addresses("192.0.2.200")) {
				t.Errorf("without a request it has %v", any.Addresses)
			}
			kept := Assign(request, addresses("192.0.2.200"), pools, book)
			said := strings.Contains(kept.Message, "192.0.2.200 is shared with "+c.use.Of)
			if !slices.Equal(kept.Addresses, addresses("192.0.2.200")) || kept.Reason != "" || said != (c.refused != "") {
				t.Errorf("an address that both have: %+v", kept)
			}
		})
	}
}

// A Service keeps its addresses, and gets no others, while its annotation cannot be read, names no pool or a full one, or addresses that
// it cannot get.
func TestKeep(t *testing.T) {
	closed := func(s *networkv1alpha1.LoadBalancerPoolSpec) { s.AutoAssign = new(false) }
	prefer := func(s *corev1.Service) { s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyPreferDualStack) }
	edge := func(t *testing.T) []Pool {
		return []Pool{aPool(t, "b", ranges{"2001:db8::/126"}), aPool(t, "edge", ranges{"192.0.2.200"}, closed)}
	}
	for name, c := range map[string]struct {
		service *corev1.Service
		pools   func(*testing.T) []Pool
		current []netip.Addr
		book    Book
		want    []netip.Addr
	}{
		"another pool has the other family": {service: aService("46", prefer), current: addresses("192.0.2.200"),
			want: addresses("192.0.2.200")},
		"one of two required families": {service: aService("46"), current: addresses("192.0.2.200"), want: addresses("192.0.2.200")},
		"both families": {service: aService("46"), current: addresses("192.0.2.200", "2001:db8::3"),
			want: addresses("192.0.2.200", "2001:db8::3")},
		"none":                              {service: aService("46", prefer)},
		"a family that the Service has not": {service: aService("6"), current: addresses("192.0.2.200")},
		"an address in no pool":             {service: aService("46", prefer), current: addresses("198.51.100.1")},
		"an address that its pool gave": {service: aService("46", prefer), pools: gave("edge", edge), current: addresses("198.51.100.1"),
			want: addresses("198.51.100.1")},
		"another Service has one of two": {service: aService("46"), current: addresses("192.0.2.200", "2001:db8::3"),
			book: Book{netip.MustParseAddr("192.0.2.200"): {{Of: "service demo/other"}}}, want: addresses("2001:db8::3")},
	} {
		t.Run(name, func(t *testing.T) {
			if c.pools == nil {
				c.pools = edge
			}
			request, err := ParseRequest(c.service, nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Pool = "gone"
			unknown := Assign(request, c.current, c.pools(t), c.book)
			if !slices.Equal(unknown.Addresses, c.want) || unknown.Reason != networkv1alpha1.ReasonNoPool || len(unknown.Pools) != len(c.want) {
				t.Errorf("with an unknown pool: %+v, want %v", unknown, c.want)
			}
			request.Pool, request.Addresses = "", addresses("203.0.113.9", "2001:db8:f::9")
			elsewhere := Assign(request, c.current, c.pools(t), c.book)
			if !slices.Equal(elsewhere.Addresses, c.want) || elsewhere.Reason != networkv1alpha1.ReasonAddressUnavailable {
				t.Errorf("with addresses of no pool: %+v, want %v", elsewhere, c.want)
			}
			var want []string
			for _, a := range c.want {
				want = append(want, a.String())
			}
			if _, kept, _ := strings.Cut(elsewhere.Message, "; the Service keeps "); kept != strings.Join(want, ", ") {
				t.Errorf("%q does not name %v", elsewhere.Message, c.want)
			}
			request.Pool, request.Addresses = "full", nil
			full := append(c.pools(t), aPool(t, "full", ranges{"198.51.100.200"}))
			if exhausted := Assign(request, c.current, full, Book{netip.MustParseAddr("198.51.100.200"): {used("", 80, false)},
				netip.MustParseAddr("192.0.2.200"): c.book[netip.MustParseAddr("192.0.2.200")]}); !slices.Equal(exhausted.Addresses, c.want) ||
				exhausted.Reason != networkv1alpha1.ReasonPoolExhausted {
				t.Errorf("with a full pool: %+v, want %v", exhausted, c.want)
			}
			annotated("weft.dev/load-balancer-ips", "x")(c.service)
			request, err = ParseRequest(c.service, nil)
			if err == nil {
				t.Fatal("the annotation can be read")
			}
			if unreadable := Keep(request, c.current, c.pools(t), c.book, "Reason", err.Error()); !slices.Equal(unreadable.Addresses, c.want) {
				t.Errorf("with an unreadable annotation: %+v, want %v", unreadable, c.want)
			}
		})
	}
}

func TestBadRequests(t *testing.T) {
	for name, c := range map[string]struct {
		service *corev1.Service
		want    string
	}{
		"a word": {aService("4", annotated("weft.dev/load-balancer-ips", "web")),
			`annotation weft.dev/load-balancer-ips: "web" is not an IP address`},
		"a zone":         {aService("6", annotated("metallb.io/loadBalancerIPs", "fe80::1%eth0")), "is not an IP address"},
		"mapped":         {aService("4", annotated("metallb.io/loadBalancerIPs", "::ffff:192.0.2.1")), "is not an IP address"},
		"another family": {aService("4", annotated("metallb.io/loadBalancerIPs", "2001:db8::1")), "spec.ipFamilies does not have"},
		"two of one family": {aService("4", annotated("metallb.io/loadBalancerIPs", "192.0.2.1,192.0.2.2")),
			"192.0.2.2 is the second address of its family"},
		"a name that no namespace has": {aService("4", annotated("weft.dev/allow-shared-ip-namespaces", "bank,Demo_1")),
			`annotation weft.dev/allow-shared-ip-namespaces: "Demo_1" is neither the name of a namespace nor "*"`},
		"the spec": {aService("4", func(s *corev1.Service) { s.Spec.LoadBalancerIP = "x" }), `spec.loadBalancerIP: "x" is not an IP address`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ParseRequest(c.service, nil); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

func TestBadPools(t *testing.T) {
	selector := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}}
	for name, c := range map[string]struct {
		spec networkv1alpha1.LoadBalancerPoolSpec
		want string
	}{
		"host bits":    {networkv1alpha1.LoadBalancerPoolSpec{Addresses: ranges{"192.0.2.1/24"}}, "spec.addresses[0]: CIDR"},
		"backwards":    {networkv1alpha1.LoadBalancerPoolSpec{Addresses: ranges{"192.0.2.2-192.0.2.1"}}, "spec.addresses[0]"},
		"two families": {networkv1alpha1.LoadBalancerPoolSpec{Addresses: ranges{"192.0.2.2-2001:db8::1"}}, "spec.addresses[0]"},
		"multicast":    {networkv1alpha1.LoadBalancerPoolSpec{Addresses: ranges{"224.0.0.1"}}, "spec.addresses[0]"},
		"twice": {networkv1alpha1.LoadBalancerPoolSpec{Addresses: ranges{"192.0.2.0/24", "192.0.2.7"}},
			"spec.addresses[1]: 192.0.2.7 overlaps the earlier 192.0.2.0-192.0.2.255"},
		"services":   {networkv1alpha1.LoadBalancerPoolSpec{ServiceSelector: selector}, "spec.serviceSelector"},
		"namespaces": {networkv1alpha1.LoadBalancerPoolSpec{NamespaceSelector: selector}, "spec.namespaceSelector"},
		"nodes":      {networkv1alpha1.LoadBalancerPoolSpec{NodeSelector: selector}, "spec.nodeSelector"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParsePool(&networkv1alpha1.LoadBalancerPool{Spec: c.spec})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

// Services keep their addresses, and nodes answer for them, while a pool has a wrong field.
func TestABadFieldLeavesTheOthers(t *testing.T) {
	spec := networkv1alpha1.LoadBalancerPoolSpec{Addresses: ranges{"192.0.2.9-192.0.2.8", "192.0.2.200"}}
	read, err := ParsePool(&networkv1alpha1.LoadBalancerPool{Spec: spec})
	if err == nil || !strings.Contains(err.Error(), "spec.addresses[0]") {
		t.Errorf("error %v", err)
	}
	if !read.Contains(netip.MustParseAddr("192.0.2.200")) || !read.Nodes.Matches(labels.Set{}) {
		t.Errorf("of the pool is left: %+v", read)
	}
}

func TestTotal(t *testing.T) {
	for text, want := range map[networkv1alpha1.LoadBalancerRange]int64{"192.0.2.7": 1, "192.0.2.0/24": 256, "2001:db8::/48": 1<<63 - 1} {
		if have := aPool(t, "a", ranges{text}).Total(); have != want {
			t.Errorf("%s has %d addresses, want %d", text, have, want)
		}
	}
}

// No node probes an address for a Service that cannot get its other family.
func TestWhatIsProbed(t *testing.T) {
	policy := func(p corev1.IPFamilyPolicy) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.IPFamilyPolicy = &p }
	}
	pool := aPool(t, "edge", ranges{"192.0.2.200/31"})
	pool.Waits = func(netip.Addr) bool { return true }
	for p, want := range map[corev1.IPFamilyPolicy]int{corev1.IPFamilyPolicyRequireDualStack: 0, corev1.IPFamilyPolicyPreferDualStack: 1} {
		r, err := ParseRequest(aService("46", policy(p)), nil)
		if err != nil {
			t.Fatal(err)
		}
		a := Assign(r, nil, []Pool{pool}, Book{})
		if len(a.Chosen) != want || a.Waits != (want > 0) || (a.Reason == networkv1alpha1.ReasonProbing) != a.Waits {
			t.Errorf("%s: %+v", p, a)
		}
	}
}
