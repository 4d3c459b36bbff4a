package histories

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/kindtest"
)

func ignoreExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// do executes one step.
func (w *world) do(ctx context.Context, s Step) error {
	for _, part := range []func(context.Context, Step) (bool, error){w.doPod, w.doPodNetwork, w.doService, w.doFirewall, w.doQoS, w.doRoute,
		w.doMulticast, w.doPolicy,
		w.doLogging, w.doClusterPolicy, w.doEgress, w.doNode, w.doNetwork, w.doFault, w.doProcess, w.doDatabase, w.doScenario,
		w.doNetworkScenario, w.doMultiPolicy, w.doClaim, w.doLocalnet, w.doFloating, w.doScheduler, w.doLoadBalancer, w.doBGP, w.doZone} {
		if handled, err := part(ctx, s); handled {
			return errors.Join(err, w.noteSelected(ctx))
		}
	}
	return fmt.Errorf("step %q is unknown", s.Do)
}

func podKey(name string) types.NamespacedName {
	namespace, pod, _ := strings.Cut(name, "/")
	return types.NamespacedName{Namespace: namespace, Name: pod}
}

// doPod executes steps of users, the scheduler and kubelets.
func (w *world) doPod(ctx context.Context, s Step) (handled bool, err error) {
	switch s.Do {
	case "pod":
		return true, w.createPod(ctx, s)
	case "clear": // as a scale to zero does
		var pods corev1.PodList
		err := w.api.List(ctx, &pods, client.InNamespace(s.Name))
		for i := range pods.Items {
			err = errors.Join(err, client.IgnoreNotFound(w.api.Delete(ctx, &pods.Items[i], client.GracePeriodSeconds(0))))
		}
		return true, err
	case "delete-pod":
		return true, w.deletePod(ctx, s.Name)
	case "renew-pod":
		return true, errors.Join(w.deletePod(ctx, s.Name), w.createPod(ctx, s))
	case "schedule":
		return true, w.schedule(ctx, s)
	case "end-pod":
		return true, w.changePod(ctx, s.Name, true, func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodPhase(s.What) })
	case "ask-record":
		return true, w.changePod(ctx, s.Name, false, func(pod *corev1.Pod) {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, networkv1alpha1.PodRecordAnnotation, "true")
		})
	case "ask-records":
		namespace := &corev1.Namespace{}
		if err := w.api.Get(ctx, types.NamespacedName{Name: s.Name}, namespace); err != nil {
			return true, err
		}
		patch := client.MergeFrom(namespace.DeepCopy())
		metav1.SetMetaDataAnnotation(&namespace.ObjectMeta, networkv1alpha1.PodRecordAnnotation, s.What)
		return true, w.api.Patch(ctx, namespace, patch)
	case "kubelet":
		return true, w.reportPod(ctx, s.Name)
	}
	return false, nil
}

func (w *world) createPod(ctx context.Context, s Step) error {
	key := podKey(s.Name)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Spec: corev1.PodSpec{NodeName: s.Node, Containers: []corev1.Container{{Name: "c", Image: "none"}}}}
	switch s.What {
	case "host":
		pod.Spec.HostNetwork = true
	case "mirror":
		pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash-" + key.Name,
			"kubernetes.io/config.hash": "hash-" + key.Namespace + key.Name}
	case "asking":
		pod.Annotations = map[string]string{networkv1alpha1.PodRecordAnnotation: "true"}
	case "unscheduled":
		pod.Spec.NodeName = ""
	}
	if strings.HasSuffix(key.Name, "1") { // pods with this number request a host port
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8000 +
			int32(key.Namespace[0]), Protocol: corev1.ProtocolTCP},
			{ContainerPort: 80, HostPort: 10250, Protocol: corev1.ProtocolTCP}} // and kubelet's port, which they do not get
	}
	if number := key.Name[len(key.Name)-1]; number > '1' { // the others name a port; two numbers occur
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8080 + int32(number%2), Name: "web",
			Protocol: corev1.ProtocolTCP}}
	}
	return ignoreExists(w.api.Create(ctx, pod))
}

func (w *world) deletePod(ctx context.Context, name string) error {
	key := podKey(name)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	return client.IgnoreNotFound(w.api.Delete(ctx, pod, client.GracePeriodSeconds(0)))
}

func (w *world) schedule(ctx context.Context, s Step) error {
	var pod corev1.Pod
	if err := w.api.Get(ctx, podKey(s.Name), &pod); err != nil || pod.Spec.NodeName != "" {
		return client.IgnoreNotFound(err)
	}
	return w.api.SubResource("binding").Create(ctx, &pod, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: s.Node}})
}

// changePod changes an existing pod or its status.
func (w *world) changePod(ctx context.Context, name string, status bool, change func(*corev1.Pod)) error {
	var pod corev1.Pod
	if err := w.api.Get(ctx, podKey(name), &pod); err != nil {
		return client.IgnoreNotFound(err)
	}
	patch := client.MergeFrom(pod.DeepCopy())
	change(&pod)
	if status {
		return w.api.Status().Patch(ctx, &pod, patch)
	}
	return w.api.Patch(ctx, &pod, patch)
}

// reportPod reports, as kubelet does, the addresses that CNI gave to the pod: the addresses of its port in the
// database.
func (w *world) reportPod(ctx context.Context, name string) error {
	rows, up := w.serving(ctx, name).mirror.snapshot()
	if !up {
		return nil
	}
	return w.changePod(ctx, name, true, func(pod *corev1.Pod) {
		port, ok := findPort(rows, pod)
		if !ok || pod.Status.Phase != "" && pod.Status.Phase != corev1.PodPending {
			return
		}
		w.recent[string(pod.UID)] = pod.Spec.NodeName
		pod.Status.Phase, pod.Status.PodIPs = corev1.PodRunning, nil
		for _, a := range port.addresses {
			pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: a.String()})
		}
		pod.Status.PodIP = pod.Status.PodIPs[0].IP
		reportNetworks(rows, pod)
	})
}

// doNode executes steps of nodes, their agents and the garbage collector.
func (w *world) doNode(ctx context.Context, s Step) (handled bool, err error) {
	switch s.Do {
	case "node":
		return true, w.createNode(ctx, s.Name)
	case "delete-node":
		return true, w.deleteNode(ctx, s.Name)
	case "renew-node":
		return true, errors.Join(w.deleteNode(ctx, s.Name), w.createNode(ctx, s.Name))
	case "agent":
		delete(w.muted, s.Name)
		return true, w.report(ctx, s)
	case "mute":
		w.muted[s.Name] = true
	case "collect":
		return true, w.collect(ctx)
	case "delete-nodenetwork":
		nn := &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: s.Name}}
		return true, client.IgnoreNotFound(w.api.Delete(ctx, nn))
	default:
		return false, nil
	}
	return true, nil
}

func (w *world) createNode(ctx context.Context, name string) error {
	return ignoreExists(w.api.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
}

// deleteNode removes a Node. If pods on it survive, they have lost their addresses.
func (w *world) deleteNode(ctx context.Context, name string) error {
	var pods corev1.PodList
	if err := w.api.List(ctx, &pods); err != nil {
		return err
	}
	for i := range pods.Items {
		if pods.Items[i].Spec.NodeName == name {
			w.unpinned[string(pods.Items[i].UID)] = true
		}
	}
	return client.IgnoreNotFound(w.api.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
}

// report makes an agent report, if its node has a network.
func (w *world) report(ctx context.Context, s Step) error {
	if s.What == "renamed" {
		w.chassis[s.Name] = fmt.Sprintf("chassis-%s-%d", s.Name, s.N)
	}
	for {
		nn := &networkv1alpha1.NodeNetwork{}
		if err := w.api.Get(ctx, types.NamespacedName{Name: s.Name}, nn); err != nil {
			return client.IgnoreNotFound(err)
		}
		patch := client.MergeFromWithOptions(nn.DeepCopy(), client.MergeFromWithOptimisticLock{})
		w.fill(nn, s)
		// The operator writes its own condition into the same list.
		if err := w.api.Status().Patch(ctx, nn, patch); !apierrors.IsConflict(err) {
			return client.IgnoreNotFound(err)
		}
	}
}

// fill sets what an agent detects on its node.
func (w *world) fill(nn *networkv1alpha1.NodeNetwork, s Step) {
	if nn.Status.Chassis = w.chassis[s.Name]; nn.Status.Chassis == "" {
		nn.Status.Chassis = "chassis-" + s.Name
	}
	nn.Status.EncapIP, nn.Status.LinkMTU = kindtest.TunnelEnd(s.Name), 1500-100*int32(s.N)
	nn.Status.Gateway = foundGateway(s)
	nn.Status.Encryption = nil
	if nn.Spec.Encryption != "" {
		nn.Status.Encryption = &networkv1alpha1.NodeEncryption{Ready: s.N != 1}
	}
	ready := metav1.Condition{Type: networkv1alpha1.ConditionReady, Status: metav1.ConditionTrue,
		Reason: networkv1alpha1.ReasonAsExpected, Message: "ready"}
	if s.What == "unready" {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, "OVNControllerDown", "ovn-controller does not run"
	}
	meta.SetStatusCondition(&nn.Status.Conditions, ready)
}

// foundGateway returns what an agent detects about its node's link. It varies with the step's number; for some
// numbers it is nil.
func foundGateway(s Step) *networkv1alpha1.NodeGatewayStatus {
	number := s.Name[len(s.Name)-1:]
	found := &networkv1alpha1.NodeGatewayStatus{Mode: networkv1alpha1.GatewayShared,
		Uplink: networkv1alpha1.UplinkBridge, Bridge: "br-ex", Interface: "eth0",
		MACAddress: networkv1alpha1.MACAddress("02:00:00:00:01:0" + number), Addresses: []networkv1alpha1.InterfaceAddress{
			networkv1alpha1.InterfaceAddress("192.0.2.1" + number + "/24"),
			networkv1alpha1.InterfaceAddress("2001:db8::1" + number + "/64")},
		NextHops: []networkv1alpha1.IP{"192.0.2.254", "2001:db8::fe"}}
	switch (int(number[0]) + s.N) % 3 {
	case 1:
		found.Mode, found.Bridge, found.MACAddress = networkv1alpha1.GatewayLocal, "", ""
		found.AnswersForAddresses = s.N%2 == 0
	case 2:
		if s.What == "unready" {
			return nil
		}
		found.Addresses, found.NextHops = found.Addresses[:1], nil
	}
	return found
}

// collect deletes NodeNetworks without a Node, as the garbage collector does.
func (w *world) collect(ctx context.Context) error {
	var nodes corev1.NodeList
	var networks networkv1alpha1.NodeNetworkList
	if err := errors.Join(w.api.List(ctx, &nodes), w.api.List(ctx, &networks)); err != nil {
		return err
	}
	alive := map[types.UID]bool{}
	for i := range nodes.Items {
		alive[nodes.Items[i].UID] = true
	}
	for i := range networks.Items {
		nn := &networks.Items[i]
		if owner := metav1.GetControllerOf(nn); owner != nil && !alive[owner.UID] {
			if err := client.IgnoreNotFound(w.api.Delete(ctx, nn, client.Preconditions{UID: &nn.UID})); err != nil &&
				!apierrors.IsConflict(err) {
				return err
			}
		}
	}
	return w.collectDefinitions(ctx)
}
