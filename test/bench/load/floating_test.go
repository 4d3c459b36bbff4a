//go:build e2e

package load

import (
	"context"
	"flag"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/bench/figures"
	"github.com/weft-network/weft/test/poll"
)

var floatingPods = flag.Int("floating", 0, "pods with an address of an IPPool of 20,000 addresses, after the events")

const (
	poolName = "bench"
	// racks is the number of segments of the pool, each of perRack addresses.
	racks, perRack = 10, 2000
	// workloads is the number of Deployments to which the pods belong.
	workloads = 50
	// firstFloating is the number of the first pod with a floating address, above the numbers of all others.
	firstFloating = 200_000
)

// rackOf is the label of a node: its segment of the pool.
func rackOf(node int) map[string]string { return map[string]string{"rack": fmt.Sprint(node % racks)} }

// floatingPool has a range for each rack, in the last part of the network of pods, which no node needs.
func floatingPool() *networkv1alpha1.IPPool {
	pool := &networkv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Name: poolName}}
	pool.Spec.Location, pool.Spec.Namespaces = networkv1alpha1.LocationOverlay, &metav1.LabelSelector{}
	for rack := range racks {
		last := perRack - 1
		pool.Spec.Ranges = append(pool.Spec.Ranges, networkv1alpha1.IPPoolRange{
			Addresses:    fmt.Sprintf("10.191.%d.0-10.191.%d.%d", rack*8, rack*8+last/256, last%256),
			NodeSelector: &metav1.LabelSelector{MatchLabels: rackOf(rack)}})
	}
	return pool
}

// createPool creates the pool and the workloads, and returns when the pool is in force.
func (w *world) createPool() (owners []metav1.OwnerReference) {
	w.Helper()
	w.must(w.own.Create(w.Context(), floatingPool()))
	w.must(poll.Until(w.Context(), patience, func() error {
		var pool networkv1alpha1.IPPool
		if err := w.own.Get(w.Context(), client.ObjectKey{Name: poolName}, &pool); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(pool.Status.Conditions, networkv1alpha1.ConditionReady) || pool.Status.Total != racks*perRack {
			return fmt.Errorf("the pool's status is %+v", pool.Status)
		}
		return nil
	}))
	for i := range workloads {
		labels := map[string]string{"workload": fmt.Sprint(i)}
		none := int32(0) // no controller of Deployments runs
		template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podOf(0, 1, namespace).Spec}
		template.Spec.NodeName = ""
		replicas := int32(racks * perRack / workloads)
		d, err := w.api.AppsV1().Deployments(namespace).Create(w.Context(), &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("work-%d", i)},
			Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
		}, metav1.CreateOptions{})
		w.must(err)
		rs, err := w.api.AppsV1().ReplicaSets(namespace).Create(w.Context(), &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("work-%d-x", i), OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))}},
			Spec: appsv1.ReplicaSetSpec{Replicas: &none, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
		}, metav1.CreateOptions{})
		w.must(err)
		owners = append(owners, *metav1.NewControllerRef(rs, appsv1.SchemeGroupVersion.WithKind("ReplicaSet")))
	}
	return owners
}

// floating creates the pods with floating addresses as fast as the API server accepts them, and then measures
// additions and deletions of more, one at a time.
func (w *world) floating(size figures.Size, n int, events map[string]figures.Event) figures.Phase {
	w.Helper()
	owners := w.createPool()
	create := func(ctx context.Context, i int) error {
		pod := podOf(i, size.Nodes, namespace)
		pod.OwnerReferences = []metav1.OwnerReference{owners[i%workloads]}
		pod.Annotations = map[string]string{networkv1alpha1.IPPoolAnnotation: poolName,
			networkv1alpha1.ReleasePolicyAnnotation: string(networkv1alpha1.ReleaseImmutable)}
		_, err := w.api.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	}
	var storm figures.Phase
	w.profiled("floating", func() {
		storm = w.phase(size.Floating, func() {
			w.each(firstFloating, size.Floating, create)
			w.must(w.seen.whenPorts(size.Ports()))
		})
	})
	first := firstFloating + size.Floating
	var add figures.Event
	w.profiled("floating-one", func() {
		add = w.event(n, func(ctx context.Context, i int) error { return create(ctx, first+i) },
			func(i int) (time.Time, error) { return w.seen.when("Logical_Switch_Port", podName(first+i)) })
	})
	events["floating pod add"] = add
	events["floating pod delete"] = w.event(n, func(ctx context.Context, i int) error { return w.deletePod(ctx, first+i) },
		func(i int) (time.Time, error) { return w.seen.whenGone("Logical_Switch_Port", podName(first+i)) })
	if add.Each.Transactions > 1 || add.Each.Writes > 2 {
		w.Errorf("a pod with a floating address cost %.2f transactions and %.2f API writes, not 1 and at most 2",
			add.Each.Transactions, add.Each.Writes)
	}
	return storm
}

// checkHolders checks that every pod with a floating address has the address that its FloatingIP gives it, and that
// no other FloatingIP names a pod.
func (w *world) checkHolders(size figures.Size) error {
	var all networkv1alpha1.FloatingIPList
	if err := w.own.List(w.Context(), &all); err != nil {
		return err
	}
	held := 0
	for i := range all.Items {
		f := &all.Items[i]
		if f.Spec.Holder == nil || f.Spec.Holder.PodUID == "" {
			continue
		}
		held++
		if at := w.seen.address(f.Spec.Holder.Pod); at != string(f.Spec.Address) {
			return fmt.Errorf("pod %s has %s, its FloatingIP is %s", f.Spec.Holder.Pod, at, f.Spec.Address)
		}
	}
	if held != size.Floating {
		return fmt.Errorf("%d FloatingIPs have a pod, want %d", held, size.Floating)
	}
	return nil
}
