package operator

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/test/kindtest"
)

func entry(cidr string, hostPrefix int32) networkv1alpha1.ClusterNetworkEntry {
	return networkv1alpha1.ClusterNetworkEntry{CIDR: networkv1alpha1.CIDR(cidr), HostPrefix: hostPrefix}
}

// dualStack has 60 IPv4 addresses for pods on each node.
func dualStack() []networkv1alpha1.ClusterNetworkEntry {
	return []networkv1alpha1.ClusterNetworkEntry{entry("10.244.0.0/16", 26), entry("fd00:10:244::/48", 64)}
}

// network creates the ClusterNetwork. With an IPv6 entry it adds the IPv6 service network.
func (w *world) network(entries ...networkv1alpha1.ClusterNetworkEntry) *networkv1alpha1.ClusterNetwork {
	w.Helper()
	cn := &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: networkv1alpha1.ClusterNetworkName}}
	cn.Spec.ClusterNetwork = entries
	cn.Spec.ServiceNetwork = []networkv1alpha1.CIDR{"10.96.0.0/16"}
	if slices.ContainsFunc(entries, func(e networkv1alpha1.ClusterNetworkEntry) bool { return strings.Contains(string(e.CIDR), "::") }) {
		cn.Spec.ServiceNetwork = append(cn.Spec.ServiceNetwork, "fd00:10:96::/112")
	}
	w.must(api.Create(w.Context(), cn))
	return cn
}

// status waits until the ClusterNetwork's status is as expected.
func (w *world) status(wrong func(networkv1alpha1.ClusterNetworkStatus) error) {
	w.Helper()
	w.until(func() error {
		var cn networkv1alpha1.ClusterNetwork
		if err := view.Get(context.Background(), types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, &cn); err != nil {
			return err
		}
		return wrong(cn.Status)
	})
}

// condition returns an error if a condition differs.
func condition(conditions []metav1.Condition, kind, reason string, status metav1.ConditionStatus) error {
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil || c.Status != status || c.Reason != reason {
		return fmt.Errorf("condition %s is %+v, not %s with reason %s", kind, c, status, reason)
	}
	return nil
}

// register creates Nodes as their kubelets would.
func (w *world) register(names ...string) {
	w.Helper()
	for _, name := range names {
		w.must(api.Create(w.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
}

// nodeNetwork waits until the present Node's NodeNetwork has a subnet.
func (w *world) nodeNetwork(node string) *networkv1alpha1.NodeNetwork {
	w.Helper()
	var nn networkv1alpha1.NodeNetwork
	uid := w.node(node).UID
	w.until(func() error {
		nn = networkv1alpha1.NodeNetwork{}
		if err := view.Get(context.Background(), types.NamespacedName{Name: node}, &nn); err != nil {
			return err
		}
		if owner := metav1.GetControllerOf(&nn); owner == nil || owner.UID != uid || len(nn.Spec.PodSubnets) == 0 {
			return fmt.Errorf("NodeNetwork %s has owner %v and subnets %v", node, owner, nn.Spec.PodSubnets)
		}
		return nil
	})
	return &nn
}

// report patches the status as the node's agent does.
func (w *world) report(node string) *networkv1alpha1.NodeNetwork {
	w.Helper()
	var nn *networkv1alpha1.NodeNetwork
	w.until(func() error { // retry if the operator has written its own condition in between
		nn = w.nodeNetwork(node)
		patch := client.MergeFromWithOptions(nn.DeepCopy(), client.MergeFromWithOptimisticLock{})
		nn.Status.Chassis, nn.Status.EncapIP, nn.Status.LinkMTU = "chassis-"+node, kindtest.TunnelEnd(node), 1500
		meta.SetStatusCondition(&nn.Status.Conditions, metav1.Condition{
			Type: networkv1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: networkv1alpha1.ReasonAsExpected, Message: "ready",
		})
		err := api.Status().Patch(w.Context(), nn, patch)
		if err != nil && !apierrors.IsConflict(err) {
			w.Fatal(err)
		}
		return err
	})
	return nn
}

// join registers Nodes and makes their agents report.
func (w *world) join(names ...string) {
	w.Helper()
	w.register(names...)
	for _, name := range names {
		w.report(name)
	}
}

// pod returns a Pod that is not created yet; without a node it is not scheduled.
func pod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "none"}}},
	}
}

// run creates Pods.
func (w *world) run(pods ...*corev1.Pod) {
	w.Helper()
	for _, pod := range pods {
		w.must(api.Create(w.Context(), pod))
	}
}

// create makes plain Pods on a node.
func (w *world) create(node string, names ...string) []*corev1.Pod {
	w.Helper()
	var pods []*corev1.Pod
	for _, name := range names {
		pods = append(pods, pod(name, node))
	}
	w.run(pods...)
	return pods
}

// delete removes objects as the API server does without finalizers.
func (w *world) delete(objects ...client.Object) {
	w.Helper()
	for _, object := range objects {
		w.must(api.Delete(w.Context(), object, client.GracePeriodSeconds(0)))
	}
}

// phase sets a Pod's phase and addresses as its kubelet does.
func (w *world) phase(pod *corev1.Pod, phase corev1.PodPhase, ips ...netip.Addr) {
	w.Helper()
	patch := client.MergeFrom(pod.DeepCopy())
	pod.Status.Phase, pod.Status.PodIPs = phase, nil
	for _, ip := range ips {
		pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: ip.String()})
	}
	if len(ips) > 0 {
		pod.Status.PodIP = ips[0].String()
	}
	w.must(api.Status().Patch(w.Context(), pod, patch))
}

// findPort returns a Pod's port if the database has it with the Pod's UID.
func (w *world) findPort(pod *corev1.Pod) (*nbdb.LogicalSwitchPort, error) {
	port, ok := ovndb.Find(w.rows, &nbdb.LogicalSwitchPort{Name: pod.Namespace + "_" + pod.Name})
	if !ok {
		return nil, fmt.Errorf("port of pod %s: %w", pod.Name, errAbsent)
	}
	if got := port.Options["iface-id-ver"]; got != string(pod.UID) {
		return nil, fmt.Errorf("port of pod %s has UID %s, want %s", pod.Name, got, pod.UID)
	}
	return port, nil
}

// port waits for a Pod's port.
func (w *world) port(pod *corev1.Pod) (port *nbdb.LogicalSwitchPort) {
	w.Helper()
	w.until(func() (err error) {
		port, err = w.findPort(pod)
		return err
	})
	return port
}

// noPort waits until no port has the Pod's name.
func (w *world) noPort(pod *corev1.Pod) {
	w.Helper()
	w.until(func() error {
		if port, ok := ovndb.Find(w.rows, &nbdb.LogicalSwitchPort{Name: pod.Namespace + "_" + pod.Name}); ok {
			return fmt.Errorf("pod %s has port %s", pod.Name, port.UUID)
		}
		return nil
	})
}

// addresses reads the addresses of a port.
func (w *world) addresses(port *nbdb.LogicalSwitchPort) []netip.Addr {
	w.Helper()
	if len(port.Addresses) != 1 {
		w.Fatalf("port %s has addresses %v", port.Name, port.Addresses)
	}
	address, err := ovnexpr.ParsePortAddress(port.Addresses[0])
	w.must(err)
	return address.Addresses
}

// onSwitch lists the UUIDs of a switch's ports as the server has them.
func (w *world) onSwitch(name string) []string {
	w.Helper()
	text := w.nb.Ctl("--bare", "--columns=ports", "find", "Logical_Switch", "name="+name)
	return strings.Fields(text)
}

// podPorts lists the ports of pods.
func (w *world) podPorts() []*nbdb.LogicalSwitchPort {
	return ovndb.List(w.rows, func(p *nbdb.LogicalSwitchPort) bool { return p.ExternalIDs["pod"] == "true" })
}

// unavailable returns an error if a Node's condition NetworkUnavailable differs.
func unavailable(name string, status corev1.ConditionStatus) error {
	var node corev1.Node
	if err := view.Get(context.Background(), types.NamespacedName{Name: name}, &node); err != nil {
		return err
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeNetworkUnavailable && c.Status == status {
			return nil
		}
	}
	return fmt.Errorf("node %s: NetworkUnavailable is not %s: %+v", name, status, node.Status.Conditions)
}

func isGone(object client.Object) error {
	err := view.Get(context.Background(), client.ObjectKeyFromObject(object), object)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("%T %s still exists (%w)", object, object.GetName(), err)
}
