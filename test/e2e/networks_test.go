//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/test/poll"
)

// podNetwork creates a Network for the pods of all namespaces.
func podNetwork(t *testing.T, name string, topology networkv1alpha1.NetworkTopology, subnets ...networkv1alpha1.NetworkSubnet) {
	t.Helper()
	n := &networkv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: networkv1alpha1.NetworkSpec{Topology: topology, Subnets: subnets, Namespaces: &metav1.LabelSelector{}}}
	must(t, bed.api.Create(t.Context(), n))
	t.Cleanup(func() { // refused while the status still counts the pods that were just removed
		must(t, poll.Slowly(cleanup(), readyTimeout, func() error { return client.IgnoreNotFound(bed.api.Delete(cleanup(), n)) }))
	})
	eventually(t, readyTimeout, func() error {
		nad := &nadv1.NetworkAttachmentDefinition{}
		return bed.api.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, nad)
	})
}

// requesting returns a pod that requests networks.
func requesting(name, node, annotation string) *corev1.Pod {
	p := bed.peerPod(name, node)
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, networks.Annotation, annotation)
	return p
}

// networkStatus reads a pod's annotation network-status: interface -> addresses.
func networkStatus(t *testing.T, p *corev1.Pod) (map[string][]string, error) {
	if err := bed.api.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
		return nil, err
	}
	var all []nadv1.NetworkStatus
	if err := json.Unmarshal([]byte(p.Annotations[nadv1.NetworkStatusAnnot]), &all); err != nil {
		return nil, fmt.Errorf("network-status %q: %w", p.Annotations[nadv1.NetworkStatusAnnot], err)
	}
	found := map[string][]string{}
	for _, s := range all {
		found[s.Interface] = s.IPs
	}
	return found, nil
}

// on returns a pod's addresses on an interface.
func on(t *testing.T, p *corev1.Pod, ifName string) (addresses []netip.Addr) {
	t.Helper()
	status, err := networkStatus(t, p)
	must(t, err)
	for _, text := range status[ifName] {
		addresses = append(addresses, netip.MustParseAddr(text))
	}
	if len(addresses) == 0 {
		t.Fatalf("pod %s has no addresses on %s: %v", p.Name, ifName, status)
	}
	return addresses
}

// reachOn calls a pod's addresses on an interface from another pod, which must be seen with its own addresses there.
func reachOn(t *testing.T, from, to *corev1.Pod, ifName string) error {
	var targets []target
	for _, a := range on(t, to, ifName) {
		targets = append(targets, target{Name: to.Name, Ping: a.String(), HTTP: "http://" + netip.AddrPortFrom(a, 8080).String()})
	}
	return bed.reach(t.Context(), from, on(t, from, ifName), targets)
}

// TestNetworks: pods of two nodes reach each other on each Network, in both families, and no other Network with the
// same addresses.
func TestNetworks(t *testing.T) {
	podNetwork(t, "blue", networkv1alpha1.TopologyLayer2, networkv1alpha1.NetworkSubnet{CIDR: "10.100.0.0/24"},
		networkv1alpha1.NetworkSubnet{CIDR: "fd00:100::/64"})
	podNetwork(t, "red", networkv1alpha1.TopologyLayer2, networkv1alpha1.NetworkSubnet{CIDR: "10.100.0.0/24"},
		networkv1alpha1.NetworkSubnet{CIDR: "fd00:100::/64"})
	podNetwork(t, "green", networkv1alpha1.TopologyLayer3, networkv1alpha1.NetworkSubnet{CIDR: "10.101.0.0/16", HostPrefix: 24},
		networkv1alpha1.NetworkSubnet{CIDR: "fd00:101::/48", HostPrefix: 64})
	one, two := requesting("one", "n1", "blue,green"), requesting("two", "n2", "blue,green")
	near := requesting("near", "n1", "blue,green")
	alone := requesting("alone", "n2", `[{"name":"red","ips":["10.100.0.77","fd00:100::77"]}]`)
	bed.run(t, one, two, near, alone)
	for _, ifName := range []string{"net1", "net2"} {
		for _, to := range []*corev1.Pod{two, near} {
			eventually(t, 20*time.Second, func() error { return reachOn(t, one, to, ifName) })
		}
	}
	bed.mustReach(t, one, two)
	if err := reachOn(t, one, alone, "net1"); err == nil {
		t.Error("a pod of network blue reaches a pod of network red")
	}
}

// TestHotPlug changes what running pods request while each pings another on the cluster network: no packet there is
// lost, network-status is what the pods have, and nothing is left at the end.
func TestHotPlug(t *testing.T) {
	podNetwork(t, "plug", networkv1alpha1.TopologyLayer2, networkv1alpha1.NetworkSubnet{CIDR: "10.102.0.0/24"})
	podNetwork(t, "route", networkv1alpha1.TopologyLayer3, networkv1alpha1.NetworkSubnet{CIDR: "10.103.0.0/16", HostPrefix: 24})
	pods := []*corev1.Pod{requesting("plug-0", "n1", ""), requesting("plug-1", "n2", "plug")}
	bed.run(t, pods...)
	running := startPings(t, pods[0], pods[1])
	r := rand.New(rand.NewPCG(1, 2))
	var took []time.Duration
	for range plugs {
		p := pods[r.IntN(len(pods))]
		annotation := randomRequest(r)
		must(t, bed.api.Get(t.Context(), client.ObjectKeyFromObject(p), p))
		before := p.DeepCopy()
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, networks.Annotation, annotation)
		must(t, bed.api.Patch(t.Context(), p, client.MergeFrom(before)))
		took = append(took, eventually(t, 30*time.Second, func() error { return hasRequested(t, p, annotation) }))
	}
	for _, result := range running.stop(t) {
		longest := 0
		for _, gap := range result.Gaps {
			longest = max(longest, gap.Lost)
		}
		// The userspace datapath of a lab without Open vSwitch's kernel module may lose a packet when a port is added
		// or removed.
		t.Logf("%d of %d packets on eth0 to %s are lost: %+v", result.Lost, result.Sent, result.To, result.Gaps)
		if result.Lost > plugs || longest > 2 {
			t.Errorf("more is lost than the switch itself loses at a change of its ports")
		}
	}
	slices.Sort(took)
	t.Logf("from annotation to network-status: p50 %s, p99 %s", took[len(took)/2], took[len(took)*99/100])
	for _, p := range pods {
		bed.remove(t, p)
	}
	eventually(t, 30*time.Second, func() error {
		left, err := bed.rows(t.Context(), bed.central, "ovn-nbctl", "logical_switch_port", "name")
		for _, row := range left {
			if name := fmt.Sprint(row["name"]); strings.HasPrefix(name, "plug_") || strings.HasPrefix(name, "route_") {
				return fmt.Errorf("port %s is left", name)
			}
		}
		return err
	})
}

// plugs is how many changes TestHotPlug makes.
const plugs = 30

// randomRequest returns an annotation with up to two networks, at times with a requested address or another name of
// the interface.
func randomRequest(r *rand.Rand) string {
	var elements []string
	for _, network := range []string{"plug", "route"} {
		switch r.IntN(4) {
		case 0:
		case 1:
			elements = append(elements, fmt.Sprintf(`{"name":%q}`, network))
		case 2:
			elements = append(elements, fmt.Sprintf(`{"name":%q,"interface":"data%d"}`, network, len(elements)))
		case 3:
			if network == "route" { // its addresses depend on the node
				elements = append(elements, `{"name":"route"}`)
				continue
			}
			elements = append(elements, fmt.Sprintf(`{"name":%q,"ips":["10.102.0.%d"]}`, network, 100+r.IntN(100)))
		}
	}
	return "[" + strings.Join(elements, ",") + "]"
}

// hasRequested returns an error unless network-status has exactly what the annotation requests, and the pod the
// links.
func hasRequested(t *testing.T, p *corev1.Pod, annotation string) error {
	status, err := networkStatus(t, p)
	if err != nil {
		return err
	}
	requests, err := networks.Parse(map[string]string{networks.Annotation: annotation}, p.Namespace)
	must(t, err)
	out, err := bed.in(t.Context(), p, "ls", "/sys/class/net")
	if err != nil {
		return err
	}
	var links []string
	for _, link := range strings.Fields(string(out)) {
		if link != "lo" && !strings.HasPrefix(link, "ifb") {
			links = append(links, link)
		}
	}
	want := []string{"eth0"}
	for _, request := range requests {
		want = append(want, request.Interface)
		have := status[request.Interface]
		if len(have) == 0 || len(request.Addresses) > 0 && have[0] != request.Addresses[0].Addr().String() {
			return fmt.Errorf("%s: network-status is %v, want %s", p.Name, status, request)
		}
	}
	slices.Sort(want)
	slices.Sort(links)
	if len(status) != len(want) || !slices.Equal(links, want) {
		return fmt.Errorf("%s: links %v, network-status %v, want %v", p.Name, links, status, want)
	}
	return nil
}
