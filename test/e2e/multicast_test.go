//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Two groups, one of each family. ff15 is transient and site-local.
const (
	group4 = "239.1.1.1"
	group6 = "ff15::101"
)

// choir are the pods of the multicast test.
type choir struct {
	all []*corev1.Pod
	// deaf is the pod that does not join the groups.
	deaf  *corev1.Pod
	cells []multicastCell
}

// multicastCell is whose datagrams of one family a pod received in a state of the cluster.
type multicastCell struct {
	State  string   `json:"state"`
	Pod    string   `json:"pod"`
	Family string   `json:"family"`
	From   []string `json:"from"`
}

// TestMulticast checks which pods receive the datagrams of which pods, on the wire, in both families. On request of their
// namespace, pods on all nodes that joined the group receive what the namespace's pods send, and nobody else does; a
// NetworkPolicy still isolates. By default the packets reach the sender's node.
func TestMulticast(t *testing.T) {
	for _, name := range []string{"multicast-a", "multicast-b"} {
		bed.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	in := func(namespace, name, node string) *corev1.Pod {
		p := bed.peerPod(name, node)
		p.Namespace, p.Labels = namespace, map[string]string{"name": name}
		return p
	}
	deaf := in("multicast-a", "deaf", "n1")
	c := &choir{all: []*corev1.Pod{in("multicast-a", "a1", "n1"), in("multicast-a", "a2", "n2"), in("multicast-a", "a3", "n1"), deaf,
		in("multicast-b", "b1", "n1"), in("multicast-b", "b2", "n2")}, deaf: deaf}
	t.Cleanup(func() { writeCells(t, "multicast.json", c.cells) })
	bed.run(t, c.all...)
	t.Cleanup(func() { setMulticast(t, networkv1alpha1.MulticastFlood) })

	n1, n2 := []string{"a1", "a3", "b1", "deaf"}, []string{"a2", "b2"}
	c.receive(t, "flooded", map[string][]string{"a1": n1, "a3": n1, "deaf": n1, "b1": n1, "a2": n2, "b2": n2})
	setMulticast(t, networkv1alpha1.MulticastOnRequest)
	c.receive(t, "nobody requests it", nil)
	requestMulticast(t, "multicast-a", "true")
	ofA := []string{"a1", "a2", "a3", "deaf"}
	received := map[string][]string{"a1": ofA, "a2": ofA, "a3": ofA}
	c.receive(t, "requested by one namespace", received)
	requestMulticast(t, "multicast-b", "true")
	ofB := []string{"b1", "b2"}
	both := map[string][]string{"b1": ofB, "b2": ofB}
	maps.Copy(both, received)
	c.receive(t, "requested by two namespaces", both)

	policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "multicast-a", Name: "isolate"}}
	policy.Spec.PodSelector.MatchLabels = map[string]string{"name": "a3"}
	policy.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
	from := metav1.LabelSelector{MatchLabels: map[string]string{"name": "a2"}}
	policy.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{PodSelector: &from}}}}
	bed.create(t, policy)
	both["a3"] = []string{"a2"}
	c.receive(t, "with a policy", both)
	bed.remove(t, policy)
	requestMulticast(t, "multicast-b", "no")
	c.receive(t, "one request ended", received)
	bed.awaitConsistent(t)
}

// receive waits until each pod receives datagrams of exactly the pods in want, other than itself.
func (c *choir) receive(t *testing.T, state string, want map[string][]string) {
	t.Helper()
	var have map[string]map[string][]string // family -> pod -> pods
	eventually(t, recoveryTimeout, func() (err error) {
		have = map[string]map[string][]string{}
		for family, group := range map[string]string{"IPv4": group4, "IPv6": group6} {
			if have[family], err = c.round(t.Context(), group); err != nil {
				return err
			}
			for _, p := range c.all {
				others := slices.DeleteFunc(slices.Clone(want[p.Name]), func(name string) bool { return name == p.Name })
				if got := have[family][p.Name]; !slices.Equal(got, others) {
					return fmt.Errorf("%s, %s: pod %s receives datagrams of %v, want %v", state, family, p.Name, got, others)
				}
			}
		}
		return nil
	})
	for _, family := range slices.Sorted(maps.Keys(have)) {
		for _, p := range c.all {
			c.cells = append(c.cells, multicastCell{state, p.Name, family, have[family][p.Name]})
		}
	}
}

// round lets all pods send to a group and listen at the same time, and returns whose datagrams each pod received.
func (c *choir) round(ctx context.Context, group string) (from map[string][]string, err error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	from = map[string][]string{}
	for _, p := range c.all {
		all.Go(func() {
			args := []string{peerPath, "receive"}
			if p != c.deaf {
				args = append(args, group)
			}
			out, failed := bed.in(ctx, p, args...)
			mu.Lock()
			defer mu.Unlock()
			from[p.Name] = labelsIn(out, p.Name)
			if failed != nil {
				err = failed
			}
		})
		all.Go(func() {
			if _, failed := bed.in(ctx, p, peerPath, "send", group); failed != nil {
				mu.Lock()
				defer mu.Unlock()
				err = failed
			}
		})
	}
	all.Wait()
	return from, err
}

// labelsIn lists the labels in the output of receive, other than the own name, sorted.
func labelsIn(out []byte, own string) (names []string) {
	for line := range bytes.Lines(out) {
		name, _, _ := strings.Cut(string(line), "\t")
		if name != own && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func setMulticast(t *testing.T, to networkv1alpha1.MulticastPolicy) {
	t.Helper()
	var cn networkv1alpha1.ClusterNetwork
	must(t, bed.api.Get(cleanup(), types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, &cn))
	patch := client.MergeFrom(cn.DeepCopy())
	cn.Spec.Multicast = to
	must(t, bed.api.Patch(cleanup(), &cn, patch))
}

func requestMulticast(t *testing.T, name, value string) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, networkv1alpha1.MulticastAnnotation, value)
	must(t, bed.api.Patch(t.Context(), namespace, client.RawPatch(types.MergePatchType, patch)))
}
