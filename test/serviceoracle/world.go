package serviceoracle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/pkg/agent/nftables"
)

// step changes the sequence's objects a few times.
func (s *sequence) step(ctx context.Context, api client.Client, first bool) error {
	changes := 1 + s.rng.IntN(3)
	if first {
		changes = 5
	}
	for range changes {
		if err := s.change(ctx, api, first); err != nil {
			return fmt.Errorf("sequence %d: %w", s.number, err)
		}
	}
	for _, service := range s.services {
		s.remember(service)
	}
	return nil
}

func (s *sequence) change(ctx context.Context, api client.Client, first bool) error {
	known := slices.Sorted(maps.Keys(s.services))
	name := pick(s, "a", "b", "c")
	switch r := s.rng.IntN(100); {
	case len(known) == 0, first && r < 40, r < 25:
		return s.put(ctx, api, s.service(name), s.chance(30))
	case r < 35:
		return s.remove(ctx, api, pick(s, known...))
	case r < 50: // a single field
		return s.tweak(ctx, api, pick(s, known...))
	case r < 60 && len(s.slices) > 0:
		slice := pick(s, slices.Sorted(maps.Keys(s.slices))...)
		old := s.slices[slice]
		delete(s.slices, slice)
		return client.IgnoreNotFound(api.Delete(ctx, old))
	}
	service := s.services[pick(s, known...)]
	return s.putSlice(ctx, api, s.slice(fmt.Sprintf("%s-%d", service.Name, s.rng.IntN(3)), service))
}

// put writes a service, by an update or, if that is refused or again is true, by a deletion and a creation.
func (s *sequence) put(ctx context.Context, api client.Client, v *corev1.Service, again bool) error {
	status := v.DeepCopy().Status
	if old := s.services[v.Name]; old != nil && !again {
		v.ResourceVersion = ""
		v.Spec.ClusterIPs, v.Spec.ClusterIP = old.Spec.ClusterIPs, old.Spec.ClusterIP
		if v.Spec.Type == corev1.ServiceTypeExternalName {
			v.Spec.ClusterIPs, v.Spec.ClusterIP = nil, ""
		}
		v.Spec.IPFamilies = nil
		err := s.try(api.Update(ctx, v))
		if err == nil {
			return s.putStatus(ctx, api, v, status)
		} else if !errors.Is(err, errRefused) {
			return err
		}
		v.Spec.ClusterIPs, v.Spec.ClusterIP = nil, ""
	}
	if s.services[v.Name] != nil {
		if err := s.remove(ctx, api, v.Name); err != nil {
			return err
		}
	}
	v.ResourceVersion, v.UID = "", ""
	if err := s.try(api.Create(ctx, v)); errors.Is(err, errRefused) {
		return nil
	} else if err != nil {
		return err
	}
	return s.putStatus(ctx, api, v, status)
}

var errRefused = errors.New("refused")

// try counts what the API server refuses, because random objects are sometimes invalid.
func (s *sequence) try(err error) error {
	if apierrors.IsInvalid(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsBadRequest(err) {
		s.rejected++
		return errRefused
	}
	return err
}

func (s *sequence) putStatus(ctx context.Context, api client.Client, v *corev1.Service, status corev1.ServiceStatus) error {
	s.services[v.Name] = v
	if v.Spec.Type != corev1.ServiceTypeLoadBalancer || len(status.LoadBalancer.Ingress) == 0 {
		return nil
	}
	v.Status = status
	if err := s.try(api.Status().Update(ctx, v)); err != nil && !errors.Is(err, errRefused) {
		return err
	}
	return nil
}

func (s *sequence) remove(ctx context.Context, api client.Client, name string) error {
	old := s.services[name]
	delete(s.services, name)
	return client.IgnoreNotFound(api.Delete(ctx, old))
}

// tweak changes a single field of a service.
func (s *sequence) tweak(ctx context.Context, api client.Client, name string) error {
	v, other := s.services[name].DeepCopy(), s.service(name)
	status := v.DeepCopy().Status
	switch s.rng.IntN(8) {
	case 0:
		v.Spec.ExternalTrafficPolicy = other.Spec.ExternalTrafficPolicy
	case 1:
		v.Spec.InternalTrafficPolicy = other.Spec.InternalTrafficPolicy
	case 2:
		v.Spec.SessionAffinity, v.Spec.SessionAffinityConfig = other.Spec.SessionAffinity, other.Spec.SessionAffinityConfig
	case 3:
		v.Spec.LoadBalancerSourceRanges = other.Spec.LoadBalancerSourceRanges
	case 4:
		v.Spec.ExternalIPs = other.Spec.ExternalIPs
	case 5:
		status = other.Status
	case 6:
		v.Spec.TrafficDistribution, v.Annotations = other.Spec.TrafficDistribution, other.Annotations
	case 7:
		v.Labels = other.Labels
	}
	if err := s.try(api.Update(ctx, v)); errors.Is(err, errRefused) {
		return nil
	} else if err != nil {
		return err
	}
	return s.putStatus(ctx, api, v, status)
}

func (s *sequence) putSlice(ctx context.Context, api client.Client, v *discoveryv1.EndpointSlice) error {
	if old := s.slices[v.Name]; old != nil && old.AddressType != v.AddressType {
		if err := client.IgnoreNotFound(api.Delete(ctx, old)); err != nil {
			return err
		}
		delete(s.slices, v.Name)
	}
	var err error
	if s.slices[v.Name] != nil {
		err = s.try(api.Update(ctx, v))
	} else {
		err = s.try(api.Create(ctx, v))
	}
	if errors.Is(err, errRefused) {
		return nil
	}
	if err == nil {
		s.slices[v.Name] = v
	}
	return err
}

// remember adds the destinations of a service to the compared destinations.
func (s *sequence) remember(v *corev1.Service) {
	addresses := slices.Concat(v.Spec.ClusterIPs, v.Spec.ExternalIPs)
	for _, ingress := range v.Status.LoadBalancer.Ingress {
		addresses = append(addresses, ingress.IP)
	}
	for _, port := range v.Spec.Ports {
		proto := strings.ToLower(string(port.Protocol))
		for _, text := range addresses {
			if a, err := netip.ParseAddr(text); err == nil {
				s.ever[destination{netip.AddrPortFrom(a, uint16(port.Port)), proto}] = true
				s.ever[destination{netip.AddrPortFrom(a, uint16(s.port(5))), proto}] = true
			}
		}
		if port.NodePort != 0 {
			for _, a := range append([]netip.Addr{netip.MustParseAddr("127.0.0.1")}, ownAddresses...) {
				s.ever[destination{netip.AddrPortFrom(a, uint16(port.NodePort)), proto}] = true
			}
		}
	}
}

// world has many sequences, the nodes and the marker by which kube-proxy shows that it has followed.
type world struct {
	*cluster
	seed      uint64
	sequences []*sequence
	steps     int
	nodes     []corev1.Node
	table     *nftables.Table   // of an agent that starts again in each step
	plant     func(r rendering) // spoils what Weft rendered, to test the oracle; nil: nothing
}

func (w *world) begin(ctx context.Context, seed uint64, n int, only int) error {
	w.seed, w.sequences = seed, nil
	w.restart()
	for i := 1; i <= n; i++ {
		if only == 0 || only == i {
			w.sequences = append(w.sequences, newSequence(seed, i))
		}
	}
	return w.each(func(s *sequence) error {
		ns := &corev1.Namespace{}
		ns.Name = s.namespace()
		if err := w.api.Create(ctx, ns); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		return nil
	})
}

// each calls do for the sequences, several at once.
func (w *world) each(do func(*sequence) error) error {
	var wait sync.WaitGroup
	var mu sync.Mutex
	var failed error
	work := make(chan *sequence)
	for range 8 {
		wait.Go(func() {
			for s := range work {
				if err := do(s); err != nil {
					mu.Lock()
					failed = errors.Join(failed, err)
					mu.Unlock()
				}
			}
		})
	}
	for _, s := range w.sequences {
		work <- s
	}
	close(work)
	wait.Wait()
	return failed
}

func (w *world) end(ctx context.Context) error {
	return w.each(func(s *sequence) error {
		return errors.Join(w.api.DeleteAllOf(ctx, &discoveryv1.EndpointSlice{}, client.InNamespace(s.namespace())),
			w.api.DeleteAllOf(ctx, &corev1.Service{}, client.InNamespace(s.namespace())))
	})
}

// zones gives the nodes zones that depend on the seed and the step.
func (w *world) zones(ctx context.Context, step int) error {
	for i := range w.nodes {
		zone := []string{"za", "zb", ""}[(int(w.seed)+step*(i+1))%3]
		node := w.nodes[i].DeepCopy()
		node.Labels = map[string]string{corev1.LabelTopologyZone: zone, corev1.LabelHostname: node.Name}
		if zone == "" {
			delete(node.Labels, corev1.LabelTopologyZone)
		}
		node.ResourceVersion = ""
		if err := w.api.Update(ctx, node); err != nil {
			return err
		}
		w.nodes[i].Labels = node.Labels
	}
	return nil
}

const marker = "marker"

// mark changes the marker after all other objects. Its port shows which step kube-proxy has reached, and which of its endpoints are
// used shows the zone that kube-proxy has read from its node.
func (w *world) mark(ctx context.Context) (want []string, err error) {
	w.steps++
	port := int32(1000 + w.steps%50000)
	v := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: marker}}
	if err := w.api.Get(ctx, client.ObjectKeyFromObject(v), v); client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	v.Spec.IPFamilyPolicy = ptr(corev1.IPFamilyPolicyRequireDualStack)
	v.Spec.TrafficDistribution = ptr(corev1.ServiceTrafficDistributionPreferClose)
	v.Spec.Ports = []corev1.ServicePort{{Port: port, Protocol: corev1.ProtocolTCP}}
	if v.UID == "" {
		err = w.api.Create(ctx, v)
	} else {
		err = w.api.Update(ctx, v)
	}
	if err != nil {
		return nil, err
	}
	for family, format := range map[discoveryv1.AddressType]string{"IPv4": "198.51.100.%d", "IPv6": "2001:db8:51::%x"} {
		slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: marker + strings.ToLower(string(family)),
			Labels: map[string]string{discoveryv1.LabelServiceName: marker}}, AddressType: family}
		slice.Ports = []discoveryv1.EndpointPort{{Name: ptr(""), Port: &port, Protocol: ptr(corev1.ProtocolTCP)}}
		for i, zone := range []string{"za", "zb"} {
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf(format, 1+i)},
				Conditions: discoveryv1.EndpointConditions{Ready: ptr(true)},
				Hints:      &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: zone}}}})
		}
		if err := w.api.Update(ctx, slice); apierrors.IsNotFound(err) {
			err = w.api.Create(ctx, slice)
			if err != nil {
				return nil, err
			}
		} else if err != nil {
			return nil, err
		}
	}
	zone := w.nodes[0].Labels[corev1.LabelTopologyZone]
	backends := func(format string) string {
		var found []string
		for i, z := range []string{"za", "zb"} {
			if zone == "" || zone == z {
				found = append(found, netip.AddrPortFrom(netip.MustParseAddr(fmt.Sprintf(format, 1+i)), uint16(port)).String())
			}
		}
		return strings.Join(found, " ")
	}
	return []string{v.Spec.ClusterIPs[0], v.Spec.ClusterIPs[1], fmt.Sprint(port), backends("198.51.100.%d"), backends("2001:db8:51::%x")}, nil
}

// sync waits until kube-proxy has followed, and returns its tables.
func (w *world) sync(ctx context.Context) (proxy, error) {
	want, err := w.mark(ctx)
	if err != nil {
		return proxy{}, err
	}
	end := time.Now().Add(patience)
	for {
		var k proxy
		var errs [2]error
		k.ip, errs[0] = listRules(isOwnAddress, "ip", "kube-proxy")
		k.ip6, errs[1] = listRules(isOwnAddress, "ip6", "kube-proxy")
		if err = errors.Join(errs[0], errs[1]); err == nil {
			got4 := k.answer(pod, destination{netip.MustParseAddrPort(want[0] + ":" + want[2]), "tcp"}, true)
			got6 := k.answer(pod, destination{netip.MustParseAddrPort("[" + want[1] + "]:" + want[2]), "tcp"}, true)
			if got4.String() == want[3] && got6.String() == want[4] {
				return k, nil
			}
			err = fmt.Errorf("marker %v has %v and %v", want, got4, got6)
		}
		if time.Now().After(end) {
			return k, fmt.Errorf("kube-proxy did not follow: %w", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// read lists the objects.
func (w *world) read(ctx context.Context) (o objects, err error) {
	var services corev1.ServiceList
	var list discoveryv1.EndpointSliceList
	var nodes corev1.NodeList
	err = errors.Join(w.api.List(ctx, &services), w.api.List(ctx, &list), w.api.List(ctx, &nodes))
	return objects{services.Items, list.Items, nodes.Items}, err
}

// restart replaces the agent. The new one finds the table of its predecessor.
func (w *world) restart() { w.table = &nftables.Table{} }

// apply evaluates what Weft renders for a mode: rows and flows as they are, the host's table as the kernel has it.
func (w *world) apply(ctx context.Context, o objects, m mode, t *tally) (weft, error) {
	r := render(o, m)
	if w.plant != nil {
		w.plant(r)
	}
	if _, err := w.table.Apply(ctx, r.table); err != nil {
		return weft{}, err
	}
	if m == modes[w.steps%len(modes)] { // an agent that starts again has nothing to write
		w.restart()
		if changed, err := w.table.Apply(ctx, r.table); err != nil {
			return weft{}, err
		} else if changed {
			return weft{}, fmt.Errorf("mode %s: an agent that starts again changes its table", m)
		}
	}
	table, err := listRules(isOwnAddress, "inet", nftables.Name)
	own := map[netip.Addr]bool{}
	for _, a := range ownAddresses {
		own[a] = true
	}
	return weft{mode: m, fabric: newFabric(r), table: table, bridge: newBridge(r.flows), own: own}, err
}

func isOwnAddress(a netip.Addr) bool {
	return a.IsLoopback() || slices.Contains(ownAddresses, a)
}
