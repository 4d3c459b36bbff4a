package serviceoracle

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// difference is a destination at which a client gets another answer than from kube-proxy.
type difference struct {
	seed      uint64
	sequence  int
	step      int
	mode      mode
	from      sender
	to        destination
	want      answer                      // kube-proxy's
	got       answer                      // Weft's
	owners    []*corev1.Service           // of the destination, by precedence
	slices    []discoveryv1.EndpointSlice // of the first owner
	contested answer                      // kube-proxy's answer if only the first owner had the destination
	services  []*corev1.Service           // of the sequence
}

func (d *difference) String() string {
	text := fmt.Sprintf("make check-services SEED=%d SEQUENCE=%d, step %d, %s: %s → %s:\n  kube-proxy: %v\n  Weft:       %v\n",
		d.seed, d.sequence, d.step, d.mode, d.from, d.to, d.want, d.got)
	if len(d.owners) > 1 {
		text += fmt.Sprintf("  kube-proxy without the others: %v\n", d.contested)
	}
	for _, o := range d.owners {
		text += "  " + describe(o) + "\n"
	}
	if len(d.owners) == 0 {
		for _, s := range d.services {
			text += "  (not an owner) " + describe(s) + "\n"
		}
	}
	for i := range d.slices {
		text += "  " + describeSlice(&d.slices[i]) + "\n"
	}
	return text
}

func describe(s *corev1.Service) string {
	spec := s.Spec
	text := fmt.Sprintf("Service %s/%s %s %v ext=%v etp=%s", s.Namespace, s.Name, spec.Type, spec.ClusterIPs, spec.ExternalIPs,
		spec.ExternalTrafficPolicy)
	if spec.InternalTrafficPolicy != nil {
		text += " itp=" + string(*spec.InternalTrafficPolicy)
	}
	if spec.TrafficDistribution != nil {
		text += " td=" + *spec.TrafficDistribution
	}
	for _, p := range spec.Ports {
		text += fmt.Sprintf(" %q %s %d/%d", p.Name, p.Protocol, p.Port, p.NodePort)
	}
	for _, i := range s.Status.LoadBalancer.Ingress {
		text += " ingress=" + i.IP
		if i.IPMode != nil {
			text += "(" + string(*i.IPMode) + ")"
		}
	}
	return text + fmt.Sprintf(" affinity=%s ranges=%q labels=%v annotations=%v",
		spec.SessionAffinity, spec.LoadBalancerSourceRanges, s.Labels, s.Annotations)
}

func describeSlice(s *discoveryv1.EndpointSlice) string {
	text := fmt.Sprintf("EndpointSlice %s %s %v", s.Name, s.AddressType, s.Labels)
	for _, p := range s.Ports {
		text += fmt.Sprintf(" %q %s %s", value(p.Name), value(p.Protocol), value(p.Port))
	}
	for _, e := range s.Endpoints {
		text += fmt.Sprintf("; %v on %s ready=%s serving=%s terminating=%s", e.Addresses, value(e.NodeName), value(e.Conditions.Ready),
			value(e.Conditions.Serving), value(e.Conditions.Terminating))
		if e.Hints != nil {
			text += fmt.Sprintf(" hints %v %v", e.Hints.ForZones, e.Hints.ForNodes)
		}
	}
	return text
}

func value[T any](p *T) string {
	if p == nil {
		return "nil"
	}
	return fmt.Sprint(*p)
}

// tally counts what was compared, and collects differences by the rule that explains them.
type tally struct {
	compared, served, checked, rejected int
	explained                           map[string]int
	examples                            map[string]*difference
	unknown                             map[string]*difference // the first of each kind
	unknowns                            map[string]int
}

func newTally() *tally {
	return &tally{explained: map[string]int{}, examples: map[string]*difference{},
		unknown: map[string]*difference{}, unknowns: map[string]int{}}
}

func (w *world) compare(o objects, kube proxy, ours []weft, step int, t *tally) {
	byNamespace := map[string][]*corev1.Service{}
	for i := range o.services {
		s := &o.services[i]
		byNamespace[s.Namespace] = append(byNamespace[s.Namespace], s)
	}
	for _, s := range w.sequences {
		t.rejected, s.rejected = t.rejected+s.rejected, 0
		services := byNamespace[s.namespace()]
		for to := range s.ever {
			owners := ownersOf(services, to)
			for _, from := range senders {
				if to.Addr().IsLoopback() && from != host { // no other client can send there
					continue
				}
				wanted := kube.answer(from, to, from.isOutside())
				for _, one := range ours {
					t.compared++
					d := &difference{seed: w.seed, sequence: s.number, step: step, mode: one.mode, from: from, to: to, want: wanted,
						got: one.answer(from, to), owners: owners, services: services}
					if wanted.Verdict == serve {
						t.served++
					}
					if d.isContested() && wanted.Verdict != none {
						d.contested = kube.as(owners[0], from, to)
					}
					if len(owners) > 0 {
						d.slices = slicesOf(o, owners[0])
					}
					t.judge(d)
				}
			}
		}
	}
}

func slicesOf(o objects, s *corev1.Service) (found []discoveryv1.EndpointSlice) {
	for i := range o.slices {
		if e := &o.slices[i]; e.Namespace == s.Namespace && e.Labels[discoveryv1.LabelServiceName] == s.Name {
			found = append(found, *e)
		}
	}
	return found
}

// ownersOf returns the services that have a destination, by precedence: a cluster IP precedes an address of a load balancer, which
// precedes an external IP. Then the older service precedes, then the first by name.
func ownersOf(all []*corev1.Service, to destination) (owners []*corev1.Service) {
	for _, s := range all {
		if slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool {
			if !strings.EqualFold(string(p.Protocol), to.proto) {
				return false
			}
			return p.NodePort == int32(to.Port()) && (isOwnAddress(to.Addr())) || p.Port == int32(to.Port()) && has(s, to.Addr())
		}) && proxiedByUs(s) {
			owners = append(owners, s)
		}
	}
	rank := func(s *corev1.Service) int {
		switch {
		case slices.Contains(s.Spec.ClusterIPs, to.Addr().String()):
			return 0
		case hasFamily(s, to.Addr()) && has(&corev1.Service{Spec: corev1.ServiceSpec{Type: s.Spec.Type}, Status: s.Status}, to.Addr()):
			return 1
		}
		return 2
	}
	slices.SortStableFunc(owners, func(a, b *corev1.Service) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	return owners
}

// hasFamily reports whether a service has a cluster IP of an address's family. It is balanced at no other address.
func hasFamily(s *corev1.Service, a netip.Addr) bool {
	return slices.ContainsFunc(s.Spec.ClusterIPs, func(text string) bool {
		own, err := netip.ParseAddr(text)
		return err == nil && own.Is4() == a.Is4()
	})
}

func proxiedByUs(s *corev1.Service) bool {
	return !isProxied(s) && s.Spec.Type != corev1.ServiceTypeExternalName && s.Spec.ClusterIP != corev1.ClusterIPNone
}

func has(s *corev1.Service, a netip.Addr) bool {
	texts := slices.Concat(s.Spec.ClusterIPs, s.Spec.ExternalIPs)
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer {
		for _, i := range s.Status.LoadBalancer.Ingress {
			if i.IPMode == nil || *i.IPMode == corev1.LoadBalancerIPModeVIP {
				texts = append(texts, i.IP)
			}
		}
	}
	return slices.Contains(texts, a.String())
}

// judge compares, and explains a difference by the first rule that applies.
func (t *tally) judge(d *difference) {
	if equal(d.want, d.got) {
		return
	}
	alone := *d // if the owner were alone, another rule may explain the difference
	if d.contested.Verdict == serve {
		alone.want = d.contested
	}
	for _, rule := range slices.Concat(byDesign, known) {
		if rule.applies(d) || rule.applies(&alone) {
			t.explained[rule.name]++
			if t.examples[rule.name] == nil {
				t.examples[rule.name] = d
			}
			return
		}
	}
	kind := d.kind()
	if t.unknowns[kind]++; t.unknown[kind] == nil {
		t.unknown[kind] = d
	}
}

// kind groups differences for reports.
func (d *difference) kind() string {
	where := "another address"
	switch {
	case slices.ContainsFunc(servicePrefixes, func(p netip.Prefix) bool { return p.Contains(d.to.Addr()) }):
		where = "a cluster IP"
	case isOwnAddress(d.to.Addr()):
		where = "an address of the node"
	}
	return fmt.Sprintf("%s at %s in mode %s: %s instead of %s", d.from, where, d.mode, d.got.Verdict, d.want.Verdict)
}
