package networkport_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/controllers/networkport"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
	"github.com/weft-network/weft/test/kindtest"
)

var web = topology.PodPortsKey("demo", "web")

// selectedBed holds the pod demo/web, which requests the Network blue, and selectors that policies of blue use.
func selectedBed(t *testing.T, selectors ...facts.PodSelector) (*kindtest.Bed, *corev1.Pod) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web", UID: "u1", Labels: labels.Set{"app": "web"},
		Annotations: map[string]string{networks.Annotation: "blue"}}}
	pod.Spec.NodeName = "n1"
	blue := &networkv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Name: "blue"}}
	blue.Spec = networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLayer2, Namespaces: &metav1.LabelSelector{},
		Subnets: []networkv1alpha1.NetworkSubnet{{CIDR: "10.100.0.0/24"}, {CIDR: "fd00:100::/64"}}}
	nad := &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "blue"}}
	nad.Spec.Config = networks.ConfigOf("blue")
	nn := &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	nn.Spec.NodeID, nn.Status.Chassis = 1, "c1"
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo", Labels: map[string]string{"team": "red"}}}
	prepare := func(env *kind.Env) { env.NetworkAddresses = alloc.NewSet(func() time.Time { return kindtest.Start }) }
	b := kindtest.New(t, networkport.Kinds, topology.KindPodPorts, prepare, pod, blue, nad, nn, namespace)
	for _, s := range selectors {
		use := map[unit.Key]facts.PodSelector{topology.PodGroupKey(s): s, topology.PodSetKey(s): s}
		policy := topology.MultiNetworkPolicyKey("demo", "p")
		none := func(context.Context, facts.PodSelector) ([]types.NamespacedName, error) { return nil, nil }
		if err := b.Env.Selectors.Use(t.Context(), policy, use, none); err != nil {
			t.Fatal(err)
		}
	}
	return b, pod
}

// joined lists the elements of optional memberships.
func joined(o kindtest.Outcome) (elements []string) {
	for _, line := range o.Units[web] {
		if element, ok := strings.CutSuffix(line, " (optional)"); ok {
			_, element, _ = strings.Cut(element, " += ")
			elements = append(elements, element)
		}
	}
	slices.Sort(elements)
	return elements
}

func selecting(key, value, network string) facts.PodSelector {
	return facts.PodSelector{Namespace: "demo", Pods: labels.SelectorFromSet(labels.Set{key: value}), Network: network}
}

// A port is in the groups and sets of its Network from the transaction that makes it, and follows the pod's labels.
func TestPortsJoinGroupsOfTheirNetwork(t *testing.T) {
	team := facts.PodSelector{Namespaces: labels.SelectorFromSet(labels.Set{"team": "red"}), Pods: labels.Everything(), Network: "blue"}
	in := []string{"10.100.0.1", "blue_demo_web_net1", "fd00:100::1"}
	for name, c := range map[string]struct {
		selector facts.PodSelector
		want     []string
	}{
		"by a label of the pod":    {selecting("app", "web", "blue"), in},
		"by the namespace's label": {team, in},
		"another label":            {selecting("app", "db", "blue"), nil},
		"another Network":          {selecting("app", "web", "green"), nil},
		"the cluster network":      {selecting("app", "web", ""), nil},
	} {
		t.Run(name, func(t *testing.T) {
			b, _ := selectedBed(t, c.selector)
			have := b.Reconcile("demo", "web")
			if got := joined(have); !slices.Equal(got, c.want) || len(have.Units[web]) == 0 {
				t.Errorf("joined %q, want %q, in %q", got, c.want, have.Units[web])
			}
		})
	}
}

// A request that can no longer be read, or a node without an agent, leaves the ports; they join what selects them now.
func TestPortsThatStayFollowPolicies(t *testing.T) {
	for name, change := range map[string]func(*kindtest.Bed, *corev1.Pod){
		"a request that cannot be read": func(b *kindtest.Bed, pod *corev1.Pod) {
			pod.Annotations[networks.Annotation] = "[{"
			b.Update(pod)
		},
		"no agent": func(b *kindtest.Bed, _ *corev1.Pod) {
			nn := &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
			nn.Spec.NodeID = 1
			b.Update(nn)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, pod := selectedBed(t, selecting("app", "db", "blue"))
			before := b.Reconcile("demo", "web")
			change(b, pod)
			pod.Labels = labels.Set{"app": "db"}
			b.Update(pod)
			after := b.Reconcile("demo", "web")
			if got := joined(after); len(joined(before)) > 0 || len(got) != 3 {
				t.Errorf("joined %q, then %q", joined(before), got)
			}
			for _, line := range before.Units[web] {
				if !slices.Contains(after.Units[web], line) {
					t.Errorf("%q is gone: %q", line, after.Units[web])
				}
			}
		})
	}
}

// attachments counts the attachments of the Network blue.
func attachments(b *kindtest.Bed) (interfaces int, known bool) {
	byNamespace, known := b.Env.Attached("blue")
	for _, n := range byNamespace {
		interfaces += n
	}
	return interfaces, known
}

// The interface of a pod gets an MTU that every node's link carries, also before the status of the Network has it.
func TestAPortHasTheMTUInEffect(t *testing.T) {
	for status, want := range map[int32]string{0: "1442", 1300: "1300", 9000: "1442"} {
		b, pod := selectedBed(t)
		blue := &networkv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Name: "blue"}}
		if err := b.API.Patch(t.Context(), blue, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"mtu":9000}}`))); err != nil {
			t.Fatal(err)
		}
		for _, o := range []client.Object{blue, &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}} {
			if err := b.API.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
				t.Fatal(err)
			}
			switch o := o.(type) {
			case *networkv1alpha1.Network:
				o.Status.MTU = status
			case *networkv1alpha1.NodeNetwork:
				o.Status.LinkMTU, o.Status.EncapIP = 1500, "192.0.2.1"
			}
			if err := b.API.Status().Update(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
		got := strings.Join(b.Reconcile(pod.Namespace, pod.Name).Units[web], "\n")
		if !slices.ContainsFunc([]string{":", "=", `="`}, func(is string) bool { return strings.Contains(got, "weft.dev/mtu"+is+want) }) {
			t.Errorf("with status %d the port is %s", status, got)
		}
	}
}
