package operator

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
)

// portAddresses returns the addresses column of each port on a Network, MAC included.
func (w *world) portAddresses() map[string]string {
	found := map[string]string{}
	for _, port := range ovndb.List(w.rows, func(p *nbdb.LogicalSwitchPort) bool { return strings.Count(p.Name, "_") == 3 }) {
		found[port.Name] = port.Addresses[0]
	}
	return found
}

// reportNetworks writes network-status of a pod from its ports, as the agent of its node does, and the status that kubelet writes.
func (w *world) reportNetworks(p *corev1.Pod) {
	w.Helper()
	requests, err := networks.Parse(p.Annotations, p.Namespace)
	w.must(err)
	all := []nadv1.NetworkStatus{{Name: "weft", Interface: "eth0", Default: true, IPs: []string{}}}
	for _, request := range requests {
		addresses := strings.Fields(w.portAddresses()[fmt.Sprintf("%s_%s_%s_%s", request.Element.Name, p.Namespace, p.Name, request.Interface)])
		if len(addresses) == 0 {
			w.Fatalf("pod %s has no port for %s", p.Name, request)
		}
		all = append(all, nadv1.NetworkStatus{Name: request.Definition().String(), Interface: request.Interface, Mac: addresses[0],
			IPs: addresses[1:]})
	}
	text, err := json.Marshal(all)
	w.must(err)
	patch(w, p, func(p *corev1.Pod) {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, nadv1.NetworkStatusAnnot, string(text))
	})
	w.phase(p, corev1.PodRunning, w.addresses(w.port(p))...)
}

// A new operator that finds an empty database gives every interface of running pods the addresses and the MAC that it has: on all
// topologies, with IPAMClaims and requests, also if the pod could not be attached any more. New pods get other addresses.
func TestNetworksOutliveTheDatabase(t *testing.T) {
	w := newWorld(t)
	o := w.start()
	w.network(dualStack()...)
	w.join("n1")
	w.join("n2")
	blue := w.podNetwork("blue", networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLayer2,
		Subnets: subnets("10.100.0.0/24", "fd00:100::/64")})
	w.podNetwork("green", networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLayer3,
		Subnets: []networkv1alpha1.NetworkSubnet{{CIDR: "10.100.0.0/16", HostPrefix: 24}}})
	w.podNetwork("bare", networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLayer2, IPAM: networkv1alpha1.IPAMNone})
	w.claim("vm", "blue")

	const withMAC = `[{"name":"blue","mac":"02:00:00:00:00:aa"},{"name":"bare","mac":"02:00:00:00:00:bb"}]`
	gone := w.requesting("gone", "n1", "blue, green, bare") // takes the first addresses
	pods := []*corev1.Pod{w.requesting("a", "n1", "blue, green, bare"), w.requesting("b", "n2", "green, blue"),
		w.requesting("c", "n1", withMAC), w.requesting("d", "n2", byClaim), w.requesting("e", "n2", `[{"name":"blue","ips":["10.100.0.77"]}]`)}
	interfaces := func() (n int) { return len(w.networkPorts()) }
	w.until(func() error {
		if n := interfaces(); n != 12 {
			return fmt.Errorf("%d ports, want 12", n)
		}
		return nil
	})
	for _, p := range pods {
		w.reportNetworks(p)
	}
	w.delete(gone)
	w.until(func() error {
		if n := interfaces(); n != 9 {
			return fmt.Errorf("%d ports, want 9", n)
		}
		return nil
	})
	before := w.portAddresses()

	o.stop()
	w.nb.Kill()
	w.nb.Empty()
	w.nb.Run()
	// The Network gives none of these addresses to a new pod.
	patch(w, blue, func(n *networkv1alpha1.Network) {
		n.Spec.Namespaces, n.Spec.ExcludeSubnets = nil, []networkv1alpha1.CIDR{"10.100.0.0/28"}
	})
	w.requesting("new", "n1", "green")
	w.start()
	w.until(func() error {
		after := w.portAddresses()
		added := after["green_default_new_net1"]
		delete(after, "green_default_new_net1")
		if !maps.Equal(before, after) || added == "" {
			return fmt.Errorf("ports have %v and the new pod %q, before %v", after, added, before)
		}
		if _, address, _ := strings.Cut(added, " "); slices.ContainsFunc(slices.Collect(maps.Values(before)), func(have string) bool {
			return strings.HasSuffix(have, " "+address)
		}) || !netip.MustParsePrefix("10.100.0.0/16").Contains(netip.MustParseAddr(address)) {
			return fmt.Errorf("the new pod has %s, which another has or no subnet", address)
		}
		return nil
	})
}
