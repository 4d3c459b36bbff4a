package operator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
)

// podNetwork creates a Network that all namespaces may use, and waits until it is ready.
func (w *world) podNetwork(name string, spec networkv1alpha1.NetworkSpec) *networkv1alpha1.Network {
	w.Helper()
	spec.Namespaces = &metav1.LabelSelector{}
	n := &networkv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	w.must(api.Create(w.Context(), n))
	w.Cleanup(func() {
		w.must(client.IgnoreNotFound(api.Delete(context.Background(), n)))
		// this API server collects nothing
		w.must(api.DeleteAllOf(context.Background(), &nadv1.NetworkAttachmentDefinition{}, client.InNamespace("default")))
	})
	w.until(func() error {
		if err := view.Get(w.Context(), keyOf(n), n); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(n.Status.Conditions, networkv1alpha1.ConditionReady) {
			return fmt.Errorf("Network %s has conditions %+v", name, n.Status.Conditions)
		}
		return nil
	})
	return n
}

func subnets(cidrs ...string) (all []networkv1alpha1.NetworkSubnet) {
	for _, cidr := range cidrs {
		all = append(all, networkv1alpha1.NetworkSubnet{CIDR: networkv1alpha1.CIDR(cidr)})
	}
	return all
}

// requesting creates a pod on a node that requests networks.
func (w *world) requesting(name, node, annotation string) *corev1.Pod {
	w.Helper()
	p := pod(name, node)
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, networks.Annotation, annotation)
	w.run(p)
	return p
}

// request changes what a pod requests.
func (w *world) request(p *corev1.Pod, annotation string) {
	w.Helper()
	patch(w, p, func(p *corev1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, networks.Annotation, annotation) })
}

// networkPorts returns the ports of pods on Networks: name -> addresses.
func (w *world) networkPorts() map[string]string {
	found := map[string]string{}
	for _, port := range ovndb.List(w.rows, func(p *nbdb.LogicalSwitchPort) bool { return strings.Count(p.Name, "_") == 3 }) {
		_, addresses, _ := strings.Cut(port.Addresses[0], " ")
		found[port.Name] = addresses
	}
	return found
}

// wantPorts waits for exactly these ports on Networks.
func (w *world) wantPorts(want map[string]string) {
	w.Helper()
	w.until(func() error {
		if have := w.networkPorts(); !maps.Equal(have, want) {
			return fmt.Errorf("ports on networks are %v, want %v", have, want)
		}
		return nil
	})
}

// Pods get addresses and ports on Networks, and lose them, with their requests.
func TestPortsOnNetworks(t *testing.T) {
	w := newWorld(t)
	o := w.start()
	w.network(dualStack()...)
	w.join("n1")
	w.join("n2") // so that it has the second ID, and with it the second subnet of each network
	blue := w.podNetwork("blue", networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLayer2,
		Subnets: subnets("10.100.0.0/29", "fd00:100::/64"), ExcludeSubnets: []networkv1alpha1.CIDR{"10.100.0.2/32"}})
	w.podNetwork("green", networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLayer3,
		Subnets: []networkv1alpha1.NetworkSubnet{{CIDR: "10.100.0.0/16", HostPrefix: 24}}})
	w.podNetwork("bare", networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLayer2, IPAM: networkv1alpha1.IPAMNone})

	one := w.requesting("one", "n1", "blue, green, bare")
	two := w.requesting("two", "n2", "green")
	want := map[string]string{"blue_default_one_net1": "10.100.0.1 fd00:100::1", "green_default_one_net2": "10.100.0.3",
		"bare_default_one_net3": "", "green_default_two_net1": "10.100.1.3"}
	w.wantPorts(want)
	if w.port(one).ExternalIDs["weft.dev/networks"] == "" {
		t.Error("the pod's own port does not say that it requests networks")
	}
	w.until(func() error {
		if err := view.Get(t.Context(), keyOf(blue), blue); err != nil {
			return err
		}
		if blue.Status.Attachments != 1 {
			return fmt.Errorf("%d attachments, want 1", blue.Status.Attachments)
		}
		return nil
	})

	t.Run("a restart writes nothing", func(t *testing.T) {
		o.settle()
		before := w.dump()
		o.stop()
		o = w.start()
		extra := w.port(w.create("n1", "extra")[0]) // the operator works
		o.settle()
		if after := without(w.dump(), extra); !slices.Equal(before, after) {
			t.Errorf("the rows changed: %s", difference(before, after))
		}
		if o.transactions() != 1 || len(o.writes("/networks")) > 0 || len(o.writes("/network-attachment-definitions")) > 0 {
			t.Errorf("a restart wrote %d transactions besides the new pod's, and %v", o.transactions()-1, o.writes(""))
		}
	})
	t.Run("requested addresses", func(t *testing.T) {
		w.request(two, `[{"name":"green"},{"name":"blue","ips":["10.100.0.6","fd00:100::66"],"mac":"02:00:00:00:00:66"}]`)
		want["blue_default_two_net2"] = "10.100.0.6 fd00:100::66"
		w.wantPorts(want)
		w.request(two, `[{"name":"green"},{"name":"blue","ips":["10.100.0.5","fd00:100::66"]}]`)
		want["blue_default_two_net2"] = "10.100.0.5 fd00:100::66"
		w.wantPorts(want)
	})
	t.Run("what cannot be granted is named, and the rest is granted", func(t *testing.T) {
		three := w.requesting("three", "n1", `[{"name":"blue","ips":["10.100.0.5"]},{"name":"none"},{"name":"green"}]`)
		want["green_default_three_net3"] = "10.100.0.4"
		w.wantPorts(want)
		note := w.event("three", "FailedNetworkAllocation")
		w.says(note, "default/blue@net1", "10.100.0.5", "default/none@net2", "does not exist")
		w.request(two, "green")
		delete(want, "blue_default_two_net2")
		want["blue_default_three_net1"] = "10.100.0.5 fd00:100::2"
		w.wantPorts(want)
		w.request(three, "green")
		delete(want, "blue_default_three_net1")
		delete(want, "green_default_three_net3")
		want["green_default_three_net1"] = want["green_default_three_net1"] + "10.100.0.5"
		w.until(func() error {
			if have := w.networkPorts(); len(have) != len(want) {
				return fmt.Errorf("%v", have)
			}
			return nil
		})
	})
	t.Run("a pod that goes leaves nothing", func(t *testing.T) {
		w.delete(one)
		w.until(func() error {
			for name := range w.networkPorts() {
				if strings.Contains(name, "_one_") {
					return fmt.Errorf("port %s is left", name)
				}
			}
			return nil
		})
	})
}

// With Multus as the provider, pods have their ports on Networks, and no agent attaches them by the annotation.
func TestMultusAttaches(t *testing.T) {
	w := newWorld(t)
	w.start()
	cn := w.network(dualStack()...)
	w.join("n1")
	w.podNetwork("blue", networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLayer2, Subnets: subnets("10.100.0.0/24")})
	web := w.requesting("web", "n1", "blue")
	w.wantPorts(map[string]string{"blue_default_web_net1": "10.100.0.1"})
	provider := func(by networkv1alpha1.AttachmentProvider, want bool) {
		patch(w, cn, func(cn *networkv1alpha1.ClusterNetwork) { cn.Spec.AttachmentProvider = by })
		w.until(func() error {
			if text := w.port(web).ExternalIDs["weft.dev/networks"]; (text != "") != want {
				return fmt.Errorf("with %s the port has the networks %q", by, text)
			}
			return nil
		})
		w.wantPorts(map[string]string{"blue_default_web_net1": "10.100.0.1"})
	}
	provider(networkv1alpha1.AttachmentProviderMultus, false)
	provider(networkv1alpha1.AttachmentProviderWeft, true)
}

// A namespace that a Network does not select has no definition, and its pods get no port. A pod that has one keeps it, and the Network's
// condition names the namespace.
func TestNetworksSelectNamespaces(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.network(dualStack()...)
	w.join("n1")
	n := w.podNetwork("blue", networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLayer2, Subnets: subnets("10.100.0.0/24")})
	definition := &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blue"}}
	w.until(func() error { return view.Get(t.Context(), keyOf(definition), definition) })
	w.requesting("web", "n1", "blue")
	w.wantPorts(map[string]string{"blue_default_web_net1": "10.100.0.1"})
	patch(w, n, func(n *networkv1alpha1.Network) {
		n.Spec.Namespaces = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}}
	})
	w.until(func() error { return isGone(definition) })
	w.awaitNetwork(n, networkv1alpha1.ReasonNamespacesInUse)
	w.requesting("late", "n1", "blue")
	w.says(w.event("late", "FailedNetworkAllocation"), "default/blue@net1", "does not")
	w.wantPorts(map[string]string{"blue_default_web_net1": "10.100.0.1"})
}

// A pod whose request cannot be read keeps its port as long as its node, whose addresses another node may be given.
func TestUnreadableRequestLosesPortWithNode(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.network(dualStack()...)
	w.join("n1")
	w.join("n2")
	w.podNetwork("blue", flat())
	web := w.requesting("web", "n1", "blue")
	want := map[string]string{"blue_default_web_net1": "10.100.0.1"}
	w.wantPorts(want)
	w.request(web, "blue@a,blue@a")
	w.refuses("Pod/default/web", "interface a")
	w.wantPorts(want)
	w.delete(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	w.wantPorts(nil)
}
