package serviceoracle

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/weft-network/weft/pkg/ipam"
)

const (
	serve = "serve"
	none  = "none" // nothing was done for the packet
)

// answer is what a client gets.
type answer struct {
	Verdict  string // serve, reject, drop or none
	Backends []string
	Affinity int // seconds; 0 without affinity or choice
}

func (a answer) String() string {
	if a.Verdict != serve {
		return a.Verdict
	}
	text := strings.Join(a.Backends, " ")
	if a.Affinity > 0 {
		text += fmt.Sprintf(" (affinity %d s)", a.Affinity)
	}
	return text
}

// tidy sorts the backends. A client of one backend needs no affinity.
func (a answer) tidy() answer {
	slices.Sort(a.Backends)
	if a.Backends = slices.Compact(a.Backends); len(a.Backends) < 2 {
		a.Affinity = 0
	}
	a.Affinity = min(a.Affinity, maxAffinity)
	return a
}

// maxAffinity is the longest affinity that OVN has (docs/user/services.md).
const maxAffinity = 65535

func equal(a, b answer) bool {
	return a.Verdict == b.Verdict && a.Affinity == b.Affinity && slices.Equal(a.Backends, b.Backends)
}

// sender is a kind of client of a node's services.
type sender string

const (
	pod      sender = "pod"      // on the node
	host     sender = "host"     // the node itself
	allowed  sender = "outside"  // its address is in most source ranges
	stranger sender = "stranger" // outside, too; its address is in few source ranges
)

var senders = []sender{pod, host, allowed, stranger}

var sources = map[sender][2]netip.Addr{
	pod:      {netip.MustParseAddr("10.244.1.5"), netip.MustParseAddr("fd00:10:244:1::5")},
	host:     {netip.MustParseAddr("192.0.2.11"), netip.MustParseAddr("2001:db8::11")},
	allowed:  {netip.MustParseAddr("203.0.113.7"), netip.MustParseAddr("2001:db8:cafe::7")},
	stranger: {netip.MustParseAddr("198.51.100.9"), netip.MustParseAddr("2001:db8:beef::9")},
}

func (c sender) isOutside() bool { return c == allowed || c == stranger }

func (c sender) packet(to destination) packet {
	p := packet{iif: "eth0", proto: to.proto, dst: to.Addr(), original: to.Addr(), port: to.Port(), src: sources[c][0]}
	if to.Addr().Is6() {
		p.src = sources[c][1]
	}
	if c == host && to.Addr().IsLoopback() {
		p.src = to.Addr()
	}
	return p
}

// proxy evaluates kube-proxy's tables.
type proxy struct{ ip, ip6 *ruleset }

// firewall is the priority of kube-proxy's chains with source ranges.
const firewall = -110

// answer returns what kube-proxy does for a client. Without ranges the source ranges are left out.
func (k proxy) answer(c sender, to destination, ranges bool) answer {
	r := k.ip
	if to.Addr().Is6() {
		r = k.ip6
	}
	skip := 1 << 20
	if !ranges {
		skip = firewall
	}
	p := c.packet(to)
	found := []outcome{{p, next}}
	if c == host {
		found = r.at("output", skip, found)
		return proxied(append(r.at("input", skip, isLocal(r, found, true)), isLocal(r, found, false)...))
	}
	if c == pod {
		found[0].iif = "veth0"
	}
	found = r.at("prerouting", skip, found)
	return proxied(append(r.at("input", skip, isLocal(r, found, true)), r.at("forward", skip, isLocal(r, found, false))...))
}

// as returns what kube-proxy does for a client of a service at a destination that another service has, too. The answer none means drop
// or reject: the service has no chain, because it has no endpoint there.
func (k proxy) as(owner *corev1.Service, c sender, to destination) answer {
	r, port := k.ip, portOf(owner, to)
	if to.Addr().Is6() {
		r = k.ip6
	}
	suffix := fmt.Sprintf("-%s/%s/%s/%s", owner.Namespace, owner.Name, to.proto, port.Name)
	chainOf := func(prefix string) *chain {
		for name, c := range r.chains {
			if strings.HasPrefix(name, prefix) && strings.HasSuffix(name, suffix) {
				return c
			}
		}
		return nil
	}
	kind, internal := "external-", owner.Spec.InternalTrafficPolicy
	if slices.Contains(owner.Spec.ClusterIPs, to.Addr().String()) {
		kind = "service-"
		if internal != nil && *internal == corev1.ServiceInternalTrafficPolicyLocal {
			kind = "local-"
		}
	} else if c.isOutside() && hasIngress(owner, to.Addr()) {
		if limits := chainOf("firewall-"); limits != nil && r.run(limits, c.packet(to))[0].verdict == drop {
			return answer{Verdict: drop}
		}
	}
	serving := chainOf(kind)
	if serving == nil {
		return answer{Verdict: none}
	}
	return proxied(r.run(serving, c.packet(to)))
}

// isLocal selects the packets for the host itself, or the others.
func isLocal(r *ruleset, all []outcome, is bool) (found []outcome) {
	for _, o := range all {
		if r.local(o.dst) == is {
			found = append(found, o)
		}
	}
	return found
}

func proxied(all []outcome) answer {
	a := answer{Verdict: none}
	for _, o := range all {
		switch {
		case o.verdict == drop || o.verdict == reject:
			a.Verdict = o.verdict
		case o.translated:
			a.Verdict, a.Affinity = serve, o.affinity
			a.Backends = append(a.Backends, netip.AddrPortFrom(o.dst, o.port).String())
		}
	}
	return a.tidy()
}

// weft evaluates what Weft rendered for a mode.
type weft struct {
	mode   mode
	fabric fabric
	table  *ruleset
	bridge bridge
	own    map[netip.Addr]bool // the node's addresses
}

// answer follows a packet of a client through the host's table, the external bridge and OVN.
func (w weft) answer(c sender, to destination) answer {
	p := c.packet(to)
	switch {
	case c == pod:
		a := w.fabric.fromSwitch(to, nil)
		switch {
		case a.Verdict != none:
			return a
		case w.mode != local && !w.own[to.Addr()]:
			return w.unbalanced(p)
		}
		p.iif = "ovn-k8s-mp0"
		return w.afterHost(w.table.at("forward", 1<<20, w.table.at("prerouting", 1<<20, []outcome{{p, next}})))
	case c == host:
		found := w.table.at("output", 1<<20, []outcome{{p, next}})
		return w.afterHost(found)
	case w.mode == shared:
		switch w.bridge.receiver(p) {
		case "":
			return answer{Verdict: drop}
		case "router":
			if a, ok := lookup(w.fabric.atRouter, to, w.isOwn); ok {
				return a
			}
			return answer{Verdict: none}
		}
	}
	return w.afterHost(w.table.at("prerouting", 1<<20, []outcome{{p, next}}))
}

// unbalanced returns what a packet gets that no balancer took, where it leaves OVN by the default route.
func (w weft) unbalanced(p packet) answer {
	if w.mode == local {
		p.iif = "ovn-k8s-mp0"
		return proxied(w.table.at("forward", 1<<20, []outcome{{p, next}}))
	}
	p.src = sources[host][0] // translated by the gateway router
	if p.dst.Is6() {
		p.src = sources[host][1]
	}
	if w.bridge.lets(p) {
		return answer{Verdict: none}
	}
	return answer{Verdict: drop}
}

func (w weft) isOwn(a netip.Addr) bool { return w.own[a] }

// afterHost follows packets that have passed the host's table: packets to cluster IPs, and to ipam.LocalNodePorts, enter OVN through
// the management port. OVN cannot send them to the host's own addresses.
func (w weft) afterHost(all []outcome) answer {
	sum := answer{Verdict: none}
	for _, o := range all {
		to := destination{netip.AddrPortFrom(o.dst, o.port), o.proto}
		var a answer
		switch {
		case o.verdict == drop || o.verdict == reject:
			a.Verdict = o.verdict
		case intoOVN(o.dst):
			a = w.fabric.fromSwitch(to, w.isOwn)
			if a.Verdict == none && o.translated {
				a.Verdict = drop
			} else if a.Verdict == none {
				a = w.unbalanced(o.packet)
			}
		case o.translated:
			a = answer{Verdict: serve, Backends: []string{to.AddrPort.String()}}
		default:
			a.Verdict = none
		}
		if len(all) > 1 && a.Verdict != serve {
			a = answer{Verdict: serve, Backends: []string{a.Verdict}}
		}
		sum.Verdict, sum.Affinity, sum.Backends = a.Verdict, a.Affinity, append(sum.Backends, a.Backends...)
	}
	return sum.tidy()
}

func intoOVN(a netip.Addr) bool {
	return a == ipam.LocalNodePorts()[0] || a == ipam.LocalNodePorts()[1] ||
		slices.ContainsFunc(servicePrefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}
