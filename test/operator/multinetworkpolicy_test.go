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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	cniv1beta1 "github.com/weft-network/weft/apis/cni/v1beta1"
	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/config"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/process/admin"
	"github.com/weft-network/weft/pkg/topology"
)

// multiKinds is the CRD of MultiNetworkPolicies, which the API server has at its start.
var multiKinds = envtest.CRDInstallOptions{Paths: []string{"../../config/crd/external/k8s.cni.cncf.io_multi-networkpolicies.yaml"}}

// multiPolicy returns a policy that isolates web's ports from all but the client's.
func multiPolicy(name, definitions string) *cniv1beta1.MultiNetworkPolicy {
	p := &cniv1beta1.MultiNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	p.Annotations = map[string]string{cniv1beta1.PolicyForAnnotation: definitions}
	p.Spec = policyObject(name, "web", "client").Spec
	return p
}

func (w *world) createMulti(name, definitions string) *cniv1beta1.MultiNetworkPolicy {
	w.Helper()
	p := multiPolicy(name, definitions)
	w.must(api.Create(w.Context(), p))
	w.Cleanup(func() { w.must(client.IgnoreNotFound(api.Delete(context.Background(), p))) })
	return p
}

// alias creates another definition of a namespace.
func (w *world) alias(name, config string) *nadv1.NetworkAttachmentDefinition {
	w.Helper()
	nad := &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	nad.Spec.Config = config
	w.must(api.Create(w.Context(), nad))
	w.Cleanup(func() { w.must(client.IgnoreNotFound(api.Delete(context.Background(), nad))) })
	return nad
}

// createDefinition creates a CustomResourceDefinition with the operator's rights.
func (w *world) createDefinition(manifest []byte) {
	w.Helper()
	crd := &unstructured.Unstructured{}
	w.must(yaml.Unmarshal(manifest, &crd.Object))
	operator, err := client.New(restConfig, client.Options{})
	w.must(err)
	w.must(operator.Create(w.Context(), crd))
}

// labelled creates a pod of an app that requests networks.
func (w *world) labelled(name, app, annotation string) *corev1.Pod {
	w.Helper()
	p := pod(name, "n1")
	p.Labels = map[string]string{"app": app}
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, networks.Annotation, annotation)
	w.run(p)
	return p
}

func ofApp(app, network string) facts.PodSelector {
	return facts.PodSelector{Namespace: "default", Pods: labels.SelectorFromSet(labels.Set{"app": app}), Network: network}
}

// multiRules waits until a policy has its ACLs on these Networks, and on no other.
func (w *world) multiRules(name string, on ...string) {
	w.Helper()
	var want []string
	for _, network := range on {
		set := "podset_" + topology.PodSetKey(ofApp("client", network)).Name()
		want = append(want, "0 to-lport pass: ", "1 to-lport pass: ", "2 to-lport drop: ip",
			fmt.Sprintf("2 to-lport allow-related: (ip4.src == $%s_IPv4 || ip6.src == $%[1]s_IPv6)", set))
	}
	w.policyRules("multinetworkpolicy/default/"+name, want...)
}

// groupHas waits until the group of an app's ports on a Network has as many ports.
func (w *world) groupHas(app, network string, ports int) {
	w.Helper()
	name := "pods_" + topology.PodGroupKey(ofApp(app, network)).Name()
	w.until(func() error {
		for _, row := range w.selectRows()[nbdb.PortGroupTable] {
			if slices.Contains(row["name"], name) && len(row["ports"]) == ports {
				return nil
			}
		}
		return fmt.Errorf("no group %s with %d ports", name, ports)
	})
}

// worldOfNetworks has the Networks blue and green, the pod web on both and the pod client on blue.
func worldOfNetworks(t *testing.T) (*world, *operator, *corev1.Pod) {
	t.Helper()
	w := newWorld(t)
	o := w.start()
	w.network(dualStack()...)
	w.join("n1")
	w.podNetwork("blue", networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLayer2,
		Subnets: subnets("10.100.0.0/24", "fd00:100::/64")})
	w.podNetwork("green", networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLayer3,
		Subnets: []networkv1alpha1.NetworkSubnet{{CIDR: "10.101.0.0/16", HostPrefix: 24}}})
	web := w.labelled("web", "web", "blue, green")
	w.labelled("client", "client", "blue")
	return w, o, web
}

func TestMultiNetworkPolicies(t *testing.T) {
	w, o, web := worldOfNetworks(t)
	w.alias("vlan", `{"type":"macvlan"}`)
	policy := w.createMulti("web", "blue, vlan")
	w.multiRules("web", "blue")
	w.groupHas("web", "blue", 1)
	w.says(w.event("web", "PolicyNotApplied"), "NetworkAttachmentDefinition default/vlan is not of a Network of Weft")

	t.Run("a pod joins with its port, in one transaction", func(t *testing.T) {
		if got := o.changes(func() { w.labelled("late", "web", "blue"); w.groupHas("web", "blue", 2) }); got > 2 {
			t.Errorf("a pod with two ports cost %d transactions, want one for each port", got)
		}
	})
	t.Run("a pod's labels move it", func(t *testing.T) {
		patch(w, web, func(p *corev1.Pod) { p.Labels["app"] = "other" })
		w.groupHas("web", "blue", 1)
		patch(w, web, func(p *corev1.Pod) { p.Labels["app"] = "web" })
		w.groupHas("web", "blue", 2)
	})
	t.Run("the annotation moves the policy", func(t *testing.T) {
		patch(w, policy, func(p *cniv1beta1.MultiNetworkPolicy) { p.Annotations[cniv1beta1.PolicyForAnnotation] = "green,blue" })
		w.multiRules("web", "blue", "green")
		w.groupHas("web", "green", 1)
		var checked admin.Violations
		w.must(o.query(nil, &checked, "check"))
		if len(checked.Violations) > 0 {
			t.Errorf("invariants: %v", checked.Violations)
		}
	})
	t.Run("a plan", func(t *testing.T) {
		planned := o.plan([]string{"plan"}, multiPolicy("planned", "green"))
		w.comesTrue(planned, func() string { w.createMulti("planned", "green"); return "" })
	})
	t.Run("a restart writes nothing", func(t *testing.T) {
		o.settle()
		before := w.selectRows()
		o.stop()
		o = w.start()
		w.must(o.engine.Wait(t.Context(), func() (bool, error) {
			return o.engine.Wanted(topology.MultiNetworkPolicyKey("default", "web")) && o.engine.Wanted(topology.PodPortsKey("default", "web")), nil
		}))
		o.settle()
		if got := differences(before, w.selectRows()); o.transactions() != 0 || len(got) > 0 {
			t.Errorf("a restart wrote %d transactions: %v", o.transactions(), got)
		}
	})
	t.Run("a request that cannot be read leaves its ports isolated, across a restart", func(t *testing.T) {
		w.request(web, "[{")
		w.event("web", "FailedNetworkAllocation")
		o.settle()
		o.stop()
		o = w.start()
		w.must(o.engine.Wait(t.Context(), func() (bool, error) { return o.engine.Wanted(topology.PodPortsKey("default", "web")), nil }))
		o.settle()
		w.groupHas("web", "blue", 2)
		if o.transactions() != 0 {
			t.Errorf("the restart wrote %d transactions", o.transactions())
		}
		ports := w.networkPorts()
		w.request(web, "blue, green")
		w.until(func() error { // the pod's own port names the requests that its node has to serve
			if generation := networks.Generation(web.Annotations); w.port(web).ExternalIDs["weft.dev/networks"] != generation {
				return fmt.Errorf("port %+v", w.port(web))
			}
			return nil
		})
		o.settle()
		if o.transactions() != 1 || !maps.Equal(ports, w.networkPorts()) {
			t.Errorf("%d transactions for the same ports: %v, now %v", o.transactions(), ports, w.networkPorts())
		}
	})
	w.delete(policy)
	w.policyRules("multinetworkpolicy/default/web")
}

// A policy follows its definitions. The kind may go, with all policies, and come.
func TestMultiNetworkPoliciesComeAndGo(t *testing.T) {
	w, _, _ := worldOfNetworks(t)
	w.createMulti("web", "alias")
	w.says(w.event("web", "PolicyNotApplied"), "NetworkAttachmentDefinition default/alias does not exist")
	alias := w.alias("alias", networks.ConfigOf("blue"))
	w.multiRules("web", "blue")
	w.delete(alias)
	w.multiRules("web")
	w.alias("alias", networks.ConfigOf("green"))
	w.multiRules("web", "green")

	w.Cleanup(func() { _, err := envtest.InstallCRDs(adminConfig, multiKinds); w.must(err) })
	w.must(envtest.UninstallCRDs(adminConfig, multiKinds))
	w.multiRules("web")
	w.until(func() error {
		for _, row := range w.selectRows()[nbdb.PortGroupTable] {
			if name := strings.Join(row["name"], ""); strings.HasPrefix(name, "pods_") {
				return fmt.Errorf("group %s remains", name)
			}
		}
		return nil
	})
	manifest, err := config.External.ReadFile("crd/external/k8s.cni.cncf.io_multi-networkpolicies.yaml")
	w.must(err)
	w.createDefinition(manifest)
	_, err = envtest.InstallCRDs(adminConfig, multiKinds) // it waits until the kind is served
	w.must(err)
	w.createMulti("web", "blue")
	w.multiRules("web", "blue")
}
