//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/test/lab"
	"github.com/weft-network/weft/test/poll"
)

// podNetwork creates a Network for the pods of all namespaces.
func podNetwork(t *testing.T, name string, topology networkv1alpha1.NetworkTopology, subnets ...networkv1alpha1.NetworkSubnet) {
	t.Helper()
	createNetwork(t, name, networkv1alpha1.NetworkSpec{Topology: topology, Subnets: subnets})
}

// segment creates a Network on the nodes' own segment, which their gateways reach as physnet.
func segment(t *testing.T, name string, vlan int32, subnets ...networkv1alpha1.NetworkSubnet) {
	t.Helper()
	createNetwork(t, name, networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLocalnet, VLAN: vlan, Subnets: subnets,
		PhysicalNetwork: networkv1alpha1.GatewayPhysicalNetwork})
}

func createNetwork(t *testing.T, name string, spec networkv1alpha1.NetworkSpec) {
	t.Helper()
	spec.Namespaces = &metav1.LabelSelector{}
	n := &networkv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
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
	t.Helper()
	return reachAt(t, from, to, ifName, on(t, to, ifName)...)
}

// reachAt calls some of a pod's addresses.
func reachAt(t *testing.T, from, to *corev1.Pod, ifName string, addresses ...netip.Addr) error {
	t.Helper()
	return bed.reach(t.Context(), from, on(t, from, ifName), targetsAt(to, addresses))
}

// targetsAt returns targets for some addresses of a pod.
func targetsAt(to *corev1.Pod, addresses []netip.Addr) (targets []target) {
	for _, a := range addresses {
		targets = append(targets, target{Name: to.Name, Ping: a.String(), HTTP: "http://" + netip.AddrPortFrom(a, 8080).String()})
	}
	return targets
}

// networkCell is one element of the matrix of TestNetworks: who reaches whom on which network.
type networkCell struct {
	Network   string `json:"network"` // topology, or the delegate's plugin
	Family    string `json:"family"`
	Relation  string `json:"relation"`  // between caller and server
	Requested bool   `json:"requested"` // the server's address, MAC or both are requested
	OK        bool   `json:"ok"`
	Error     string `json:"error,omitempty"`
}

// TestNetworks: pods of two nodes reach each other on each Network, in both families, with and without requested
// addresses and MACs, and no other Network with the same addresses. So do pods on one node with delegates.
func TestNetworks(t *testing.T) {
	layer2 := []networkv1alpha1.NetworkSubnet{{CIDR: "10.100.0.0/24"}, {CIDR: "fd00:100::/64"}}
	podNetwork(t, "blue", networkv1alpha1.TopologyLayer2, layer2...)
	podNetwork(t, "red", networkv1alpha1.TopologyLayer2, layer2...)
	podNetwork(t, "green", networkv1alpha1.TopologyLayer3, networkv1alpha1.NetworkSubnet{CIDR: "10.101.0.0/16", HostPrefix: 24},
		networkv1alpha1.NetworkSubnet{CIDR: "fd00:101::/48", HostPrefix: 64})
	segment(t, "plain", 0, networkv1alpha1.NetworkSubnet{CIDR: "10.120.0.0/24"}, networkv1alpha1.NetworkSubnet{CIDR: "fd00:120::/64"})
	segment(t, "tagged", 100, networkv1alpha1.NetworkSubnet{CIDR: "10.121.0.0/24"}, networkv1alpha1.NetworkSubnet{CIDR: "fd00:121::/64"})
	delegates := defineDelegates(t)
	const asked = `[{"name":"blue","ips":["10.100.0.%[1]d","fd00:100::%[1]d"],"mac":"02:00:00:00:01:%[1]d"},
		{"name":"green","mac":"02:00:00:00:02:%[1]d"},
		{"name":"plain","ips":["10.120.0.%[1]d","fd00:120::%[1]d"]},
		{"name":"tagged","ips":["10.121.0.%[1]d","fd00:121::%[1]d"],"mac":"02:00:00:00:04:%[1]d"}]`
	const all = "blue,green,plain,tagged"
	one, near, two := requesting("one", "n1", all), requesting("near", "n1", all), requesting("two", "n2", all)
	nearAsked, twoAsked := requesting("near-asked", "n1", fmt.Sprintf(asked, 77)), requesting("two-asked", "n2", fmt.Sprintf(asked, 78))
	alone := requesting("alone", "n2", `[{"name":"red","ips":["10.100.0.79","fd00:100::79"]}]`)
	bed.run(t, one, near, two, nearAsked, twoAsked, alone)
	var cells []*networkCell
	t.Cleanup(func() { writeCells(t, "networks.json", cells) })
	for ifName, topology := range map[string]string{"net1": "Layer2", "net2": "Layer3", "net3": "Localnet", "net4": "Localnet, VLAN 100"} {
		for to, c := range map[*corev1.Pod]networkCell{near: {Relation: "same node"}, two: {Relation: "cross node"},
			nearAsked: {Relation: "same node", Requested: true}, twoAsked: {Relation: "cross node", Requested: true}} {
			c.Network = topology
			cells = append(cells, tryOn(t, one, to, ifName, c)...)
		}
	}
	cells = append(cells, tryOutside(t, one)...)
	cells = append(cells, delegates.try(t)...)
	bed.mustReach(t, one, two)
	hasAsked(t, twoAsked, "10.100.0.78", "02:00:00:00:01:78")
	if err := reachOn(t, one, alone, "net1"); err == nil {
		t.Error("a pod of network blue reaches a pod of network red")
	}
}

// tryOutside gives the segment's router addresses of the Network there, and pings them from a pod of the Network.
func tryOutside(t *testing.T, from *corev1.Pod) (cells []*networkCell) {
	t.Helper()
	router := lab.Router().Name
	for family, address := range map[string]string{"IPv4": "10.120.0.250/24", "IPv6": "fd00:120::250/64"} {
		bed.mustExec(t, router, "ip", "addr", "add", address, "dev", "eth0", "nodad")
		t.Cleanup(func() {
			_, err := bed.Exec(cleanup(), router, "ip", "addr", "del", address, "dev", "eth0")
			must(t, err)
		})
		to := target{Name: router, Ping: netip.MustParsePrefix(address).Addr().String()}
		err := poll.Slowly(t.Context(), readyTimeout, func() error { return bed.reach(t.Context(), from, nil, []target{to}) })
		c := &networkCell{Network: "Localnet", Family: family, Relation: "host of the segment", OK: err == nil}
		if err != nil {
			c.Error = err.Error()
			t.Errorf("%+v", c)
		}
		cells = append(cells, c)
	}
	return cells
}

// tryOn fills a cell for each family.
func tryOn(t *testing.T, from, to *corev1.Pod, ifName string, c networkCell) (cells []*networkCell) {
	t.Helper()
	for _, a := range on(t, to, ifName) {
		done := c
		done.Family = map[bool]string{true: "IPv4", false: "IPv6"}[a.Is4()]
		err := poll.Slowly(t.Context(), readyTimeout, func() error { return reachAt(t, from, to, ifName, a) })
		if done.OK = err == nil; !done.OK {
			done.Error = err.Error()
			t.Errorf("%+v", done)
		}
		cells = append(cells, &done)
	}
	return cells
}

// hasAsked checks that network-status has a requested address and MAC on net1.
func hasAsked(t *testing.T, p *corev1.Pod, address, mac string) {
	t.Helper()
	var all []nadv1.NetworkStatus
	must(t, json.Unmarshal([]byte(p.Annotations[nadv1.NetworkStatusAnnot]), &all))
	for _, s := range all {
		if s.Interface == "net1" && slices.Contains(s.IPs, address) && strings.EqualFold(s.Mac, mac) {
			return
		}
	}
	t.Errorf("pod %s has %+v, want %s and %s on net1", p.Name, all, address, mac)
}

// delegates are definitions of the CNI project's plugins that the lab's kernel can run.
type delegates []string

// defineDelegates defines a network of each plugin, with addresses that the pods request.
func defineDelegates(t *testing.T) delegates {
	t.Helper()
	const static = `"capabilities":{"ips":true},"ipam":{"type":"static"}`
	installPlugin(t, "ipam/static")
	kinds := delegates{"bridge", "macvlan"}
	for kind, config := range map[string]string{
		"bridge":  `{"type":"bridge","bridge":"lab0",` + static + `}`,
		"macvlan": `{"type":"macvlan","mode":"bridge","master":"lab1",` + static + `}`,
	} {
		nad := delegateDefinition(t, kind, config, "main/"+kind)
		must(t, bed.api.Create(t.Context(), nad))
		t.Cleanup(func() { must(t, client.IgnoreNotFound(bed.api.Delete(cleanup(), nad))) })
	}
	bed.mustExec(t, "n1", "ip", "link", "add", "lab1", "type", "veth", "peer", "name", "lab2")
	bed.mustExec(t, "n1", "ip", "link", "set", "lab1", "up")
	bed.mustExec(t, "n1", "ip", "link", "set", "lab2", "up")
	t.Cleanup(func() {
		removeLink(t, "lab0")
		removeLink(t, "lab1")
	})
	return kinds
}

// try runs two pods of a node on each delegate.
func (d delegates) try(t *testing.T) (cells []*networkCell) {
	t.Helper()
	for _, kind := range d {
		var pods []*corev1.Pod
		for i := range 2 {
			pods = append(pods, requesting(fmt.Sprintf("%s-%d", kind, i), "n1",
				fmt.Sprintf(`[{"name":%q,"ips":["10.110.0.%d/24","fd00:110::%d/64"]}]`, kind, 1+i, 1+i)))
		}
		bed.run(t, pods...)
		cells = append(cells, tryOn(t, pods[0], pods[1], "net1", networkCell{Network: kind, Relation: "same node", Requested: true})...)
	}
	return cells
}
