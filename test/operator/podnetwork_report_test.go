package operator

import (
	"context"
	"errors"
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
	"github.com/weft-network/weft/pkg/podcondition"
)

// flat is a Layer2 network of six addresses.
func flat() networkv1alpha1.NetworkSpec {
	return networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLayer2, Subnets: subnets("10.100.0.0/29")}
}

// routed is a Layer3 Network.
func routed() networkv1alpha1.NetworkSpec {
	return networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLayer3,
		Subnets: []networkv1alpha1.NetworkSubnet{{CIDR: "10.101.0.0/16", HostPrefix: 24}}}
}

// invalidate gives a Layer3 Network a spec that the operator cannot read. An API server with the present rules does not admit it.
func invalidate(n *networkv1alpha1.Network) {
	n.Spec.Subnets = append(n.Spec.Subnets, networkv1alpha1.NetworkSubnet{CIDR: "fd00:101::/48", HostPrefix: 12})
}

// awaitNetwork waits until a Network's condition has a reason.
func (w *world) awaitNetwork(n *networkv1alpha1.Network, reason string) {
	w.Helper()
	w.until(func() error {
		if err := view.Get(w.Context(), keyOf(n), n); err != nil {
			return err
		}
		if c := meta.FindStatusCondition(n.Status.Conditions, networkv1alpha1.ConditionReady); c == nil || c.Reason != reason ||
			c.ObservedGeneration != n.Generation {
			return fmt.Errorf("Network %s of generation %d has conditions %+v, want %s", n.Name, n.Generation, n.Status.Conditions, reason)
		}
		return nil
	})
}

// A running pod keeps its interface and address through what an administrator does to the Network and its definition, and through a
// restart of the operator meanwhile.
func TestAttachmentsStay(t *testing.T) {
	w := newWorld(t)
	o := w.start()
	w.network(dualStack()...)
	w.join("n1")
	blue := w.podNetwork("blue", flat())
	w.requesting("web", "n1", "blue")
	want := map[string]string{"blue_default_web_net1": "10.100.0.1"}
	w.wantPorts(want)
	again := func() { // an operator that starts in this state
		o.settle()
		o.stop()
		o = w.start()
		w.port(w.create("n1", fmt.Sprintf("extra-%d", w.nb.Transactions()))[0]) // it works
		o.settle()
		if have := w.networkPorts(); !maps.Equal(have, want) {
			t.Errorf("after a restart ports are %v, want %v", have, want)
		}
	}

	definition := &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blue"}}
	w.until(func() error { return view.Get(t.Context(), keyOf(definition), definition) })
	before := w.rowOfPort("blue_default_web_net1")
	w.delete(definition)
	w.until(func() error { // the operator restores it
		var have nadv1.NetworkAttachmentDefinition
		if err := view.Get(t.Context(), keyOf(definition), &have); err != nil {
			return fmt.Errorf("the definition is not restored: %w", err)
		}
		if have.UID == definition.UID {
			return errors.New("the definition is not deleted yet")
		}
		return nil
	})
	o.settle()
	if after := w.rowOfPort("blue_default_web_net1"); after != before {
		t.Errorf("the port was made again: %s, before %s", after, before)
	}

	patch(w, blue, func(n *networkv1alpha1.Network) { n.Spec.ExcludeSubnets = []networkv1alpha1.CIDR{"10.100.0.0/30"} })
	w.awaitNetwork(blue, networkv1alpha1.ReasonAsExpected)
	again()
	patch(w, blue, func(n *networkv1alpha1.Network) { n.Spec.Subnets = append(n.Spec.Subnets, subnets("fd00:100::/64")...) })
	w.awaitNetwork(blue, networkv1alpha1.ReasonAsExpected)
	again()
}

// A leader that removed the last port of a Network and ended before it wrote the count leaves the count to the next leader, although
// no pod requests a Network then.
func TestCountOfAPreviousLeader(t *testing.T) {
	for name, change := range map[string]func(*networkv1alpha1.Network){"valid": func(*networkv1alpha1.Network) {}, "invalid": invalidate} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			o := w.start()
			w.network(dualStack()...)
			w.join("n1")
			blue := w.podNetwork("blue", routed())
			w.awaitNetwork(blue, networkv1alpha1.ReasonAsExpected)
			o.settle()
			o.stop()

			patch(w, blue, change)
			stale := client.MergeFrom(blue.DeepCopy())
			blue.Status.Attachments = 2
			w.must(api.Status().Patch(t.Context(), blue, stale))
			w.start()
			w.until(func() error {
				if err := view.Get(t.Context(), keyOf(blue), blue); err != nil {
					return err
				}
				if n := blue.Status.Attachments; n != 0 {
					return fmt.Errorf("%d attachments without a port", n)
				}
				return nil
			})
		})
	}
}

// rowOfPort returns the row and the addresses of a port by its name.
func (w *world) rowOfPort(name string) (found string) {
	w.Helper()
	w.until(func() error {
		for _, row := range w.dump() {
			if strings.Contains(row, name) && strings.Contains(row, "Logical_Switch_Port") {
				found = row
				return nil
			}
		}
		return fmt.Errorf("no port %s", name)
	})
	return found
}

// An invalid Layer3 Network keeps the switches of nodes, too.
func TestInvalidNetworkKeepsItsSwitches(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.network(dualStack()...)
	w.join("n1")
	green := w.podNetwork("green", routed())
	w.requesting("web", "n1", "green")
	want := map[string]string{"green_default_web_net1": "10.101.0.3"}
	w.wantPorts(want)
	patch(w, green, invalidate)
	w.awaitNetwork(green, networkv1alpha1.ReasonInvalidSpec)
	w.port(w.create("n1", "later")[0])
	w.wantPorts(want)
}

// The status names a Network that is not ready, and pods whose requests are refused, with what to do.
func TestStatusNamesNetworks(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.network(dualStack()...)
	w.join("n1")
	blue := w.podNetwork("blue", flat())
	web := w.requesting("web", "n1", `[{"name":"blue","ips":["10.100.9.9"]}]`)
	bad := w.podNetwork("bad", routed())
	patch(w, bad, invalidate)
	w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
		i := slices.IndexFunc(s.Problems, func(p networkv1alpha1.Problem) bool { return p.Object == "Network/bad" })
		if i < 0 || s.Problems[i].Reason != networkv1alpha1.ReasonInvalidSpec || s.Problems[i].NextStep == "" ||
			!strings.Contains(s.Problems[i].Message, "hostPrefix") {
			return fmt.Errorf("problems are %+v", s.Problems)
		}
		return nil
	})
	w.refuses("Pod/default/web", "default/blue@net1")

	w.delete(bad)
	patch(w, blue, func(n *networkv1alpha1.Network) { n.Spec.Namespaces = nil })
	w.until(func() error {
		return isGone(&nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blue"}})
	})
	foreign := &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blue"},
		Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: networks.ConfigOf("blue")}}
	w.must(api.Create(w.Context(), foreign))
	patch(w, blue, func(n *networkv1alpha1.Network) { n.Spec.Namespaces = &metav1.LabelSelector{} })
	w.refuses("Network/blue", "default", "remove the NetworkAttachmentDefinitions")
	w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
		if slices.ContainsFunc(s.Problems, func(p networkv1alpha1.Problem) bool { return p.Object == "Network/blue" }) {
			return fmt.Errorf("the owner of a namespace makes the network unhealthy: %+v", s.Problems)
		}
		return nil
	})

	w.delete(foreign)
	w.request(web, "blue")
	w.awaitNetwork(blue, networkv1alpha1.ReasonAsExpected)
	w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
		if s.Refused != nil {
			return fmt.Errorf("still refused: %+v", s.Refused)
		}
		return nil
	})
}

// refuses waits until the status lists the refused request of an object.
func (w *world) refuses(object string, words ...string) {
	w.Helper()
	w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
		if s.Refused != nil {
			for _, r := range s.Refused.First {
				if r.Object == object && !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(r.Message, word) }) {
					return nil
				}
			}
		}
		return fmt.Errorf("refused are %+v, want %s with %q", s.Refused, object, words)
	})
}

// A plan shows the rows of a Network and of the pods that request it, and why a request would be refused.
func TestPlanOfANetworkAndItsPods(t *testing.T) {
	w := newWorld(t)
	o, _ := w.settled([]string{"n1"}, 1)
	w.Cleanup(func() { w.must(api.DeleteAllOf(context.Background(), &networkv1alpha1.Network{})) })
	spec := flat()
	spec.Namespaces = &metav1.LabelSelector{}
	blue := func() *networkv1alpha1.Network {
		return &networkv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Name: "blue"}, Spec: spec}
	}
	requester := func(name, annotation string) *corev1.Pod {
		p := pod(name, "n1")
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, networks.Annotation, annotation)
		return p
	}
	planned := o.plan([]string{"plan"}, w.dryRun(blue()), w.dryRun(requester("web", "blue")), w.dryRun(requester("bad", "red")))
	owners := map[string]int{}
	for _, c := range planned.Changes {
		owners[string(c.Owner)]++
	}
	if owners["podnetwork/blue"] == 0 || owners["podports/default/web"] == 0 || owners["podports/default/bad"] != 0 {
		t.Errorf("the plan has rows of %v", owners)
	}
	w.says(strings.Join(planned.Notes, "\n"), "default/red@net1", "does not exist")

	w.podNetwork("blue", flat())
	w.comesTrue(o.plan([]string{"plan"}, w.dryRun(requester("web", "blue"))), func() string {
		return string(w.requesting("web", "n1", "blue").UID)
	})
}

// A foreign change of a pod's port on a Network is named with its owner, and repaired.
func TestDriftOfAPortOnANetwork(t *testing.T) {
	w := newWorld(t)
	w.network(dualStack()...)
	o := w.start()
	w.join("n1")
	w.podNetwork("blue", flat())
	w.requesting("web", "n1", "blue")
	want := map[string]string{"blue_default_web_net1": "10.100.0.1"}
	w.wantPorts(want)
	o.settle()
	w.nb.Ctl("lsp-set-addresses", "blue_default_web_net1", "02:00:00:00:00:01 10.100.0.5")
	w.drift(func(d networkv1alpha1.DriftStatus) error {
		if len(d.Items) != 1 || d.Items[0].Row != "blue_default_web_net1" || d.Items[0].Owner != "podports/default/web" {
			return fmt.Errorf("drift is %+v", d)
		}
		return nil
	})
	w.wantPorts(want)
}

// The condition of a request that was refused ends with the request, also if that went while no operator ran.
func TestRefusalEndsWithItsRequest(t *testing.T) {
	w := newWorld(t)
	o := w.start()
	w.network(dualStack()...)
	w.join("n1")
	web := w.requesting("web", "n1", "absent")
	refused := func(want corev1.ConditionStatus) {
		t.Helper()
		w.until(func() error {
			if err := view.Get(t.Context(), keyOf(web), web); err != nil {
				return err
			}
			c := podcondition.Find(web, networkv1alpha1.PodNetworksAllocated)
			if c == nil || c.Status != want {
				return fmt.Errorf("the condition is %+v, want %s", c, want)
			}
			return nil
		})
	}
	refused(corev1.ConditionFalse)
	o.settle()
	o.stop()
	w.request(web, "")
	w.start()
	refused(corev1.ConditionTrue)
}
