package histories

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

const (
	ippools     = "ippools"
	floatingIPs = "floatingips"
	rackLabel   = "rack"
)

// floatingWatched are the resources that decide who has which floating address.
var floatingWatched = []string{ippools, floatingIPs, floatingIPs, "deployments", "statefulsets", "pods"}

func anIPPool(r *rand.Rand) string { return oneOf(r, "f0", "f0", "f0", "f0", "f1", "f2") }

// aCarrier names a node for a pod that requests a floating address, mostly a node of every history.
func aCarrier(r *rand.Rand) string { return oneOf(r, "n0", "n0", "n0", "n1", "n1", "n1", aNode(r)) }

// aWorkload names a Deployment d<n> or a StatefulSet s<n>.
func aWorkload(r *rand.Rand) string {
	return oneOf(r, "a/d0", "a/d0", "a/d0", "a/s0", "a/s0", "a/d1", "b/s1", "b/d0")
}

// aFloater names a pod that requests floating addresses: <workload>-<n>, or bare-<n> without a workload.
func aFloater(r *rand.Rand) string {
	if r.IntN(4) == 0 {
		return fmt.Sprintf("%s/bare-%d", oneOf(r, "a", "b"), r.IntN(2))
	}
	return fmt.Sprintf("%s-%d", aWorkload(r), r.IntN(4))
}

// aFloatingRequest is what a pod requests: its pool, its release policy and more, separated by commas.
func aFloatingRequest(r *rand.Rand) string {
	return strings.Join([]string{anIPPool(r), oneOf(r, "Pod", "Immutable", "Immutable", "Never"),
		oneOf(r, "", "", "", "", "count=2", "ttl=1s", "ttl=72h", "ranges", "wrong")}, ",")
}

// poolVariants are what a pool is: where it lives, and what is special about it.
var poolVariants = []string{"overlay", "overlay", "overlay", "overlay-racks", "nat", "nat", "nat-racks", "overlay-size", "nat-size",
	"overlay-some", "nat-some", "overlay-wide", "overlay-outside", "nat-egress", "nat-wrong"}

// floatingChoices are the steps of IPPools. They are drawn separately, so that a seed keeps its meaning for the other
// steps.
var floatingChoices = []choice{
	{4, func(r *rand.Rand) Step {
		return Step{Do: "ippool", Name: anIPPool(r), What: oneOf(r, poolVariants...), N: r.IntN(3)}
	}},
	{5, func(r *rand.Rand) Step {
		return Step{Do: "change-ippool", Name: anIPPool(r), What: oneOf(r, "", "", "racks", "size", "some", "wide"), N: r.IntN(3)}
	}},
	{2, func(r *rand.Rand) Step { return Step{Do: "delete-ippool", Name: anIPPool(r)} }},
	{4, func(r *rand.Rand) Step { return Step{Do: "workload", Name: aWorkload(r), N: r.IntN(4)} }},
	{4, func(r *rand.Rand) Step { return Step{Do: "scale", Name: aWorkload(r), N: r.IntN(4)} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "delete-workload", Name: aWorkload(r)} }},
	{1, func(r *rand.Rand) Step { return Step{Do: "renew-workload", Name: aWorkload(r), N: r.IntN(4)} }},
	{24, aFloaterStep},
	{8, func(r *rand.Rand) Step { return Step{Do: "delete-pod", Name: aFloater(r)} }},
	{8, func(r *rand.Rand) Step {
		return Step{Do: "renew-floater", Name: aFloater(r), Node: aCarrier(r), What: aFloatingRequest(r)}
	}},
	{3, func(r *rand.Rand) Step {
		return Step{Do: "end-pod", Name: aFloater(r), What: oneOf(r, "Succeeded", "Failed")}
	}},
	{6, func(r *rand.Rand) Step { return Step{Do: "kubelet", Name: aFloater(r)} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "rerequest", Name: aFloater(r), What: aFloatingRequest(r)} }},
	{3, func(r *rand.Rand) Step { return Step{Do: "release-ip", N: r.IntN(100)} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "reserve-ip", N: r.IntN(100)} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "delete-ip", N: r.IntN(100)} }},
	{4, func(r *rand.Rand) Step {
		return Step{Do: "rack", Name: "/" + aNode(r), What: oneOf(r, "1", "2", "no")}
	}},
	{2, func(r *rand.Rand) Step {
		return Step{Do: "label-namespace", Name: oneOf(r, "a", "b"), What: oneOf(r, "yes", "yes", "no")}
	}},
	{4, func(r *rand.Rand) Step { return Step{Do: "delay", Name: oneOf(r, floatingWatched...)} }},
	{3, func(r *rand.Rand) Step { return Step{Do: "deliver", Name: oneOf(r, floatingWatched...)} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "lose", Name: oneOf(r, floatingWatched...)} }},
	{1, func(r *rand.Rand) Step { return Step{Do: "double", Name: oneOf(r, floatingWatched...)} }},
	{5, func(r *rand.Rand) Step { return Step{Do: "api", What: oneOf(r, apiFaults...), N: r.IntN(4)} }},
	{3, func(r *rand.Rand) Step { return Step{Do: "wire", What: oneOf(r, wireFaults...), N: r.IntN(4)} }},
	{3, func(*rand.Rand) Step { return Step{Do: "crash"} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "stale", N: 1 + r.IntN(12)} }},
	{6, func(r *rand.Rand) Step { return Step{Do: "wait", N: 1 + r.IntN(6)} }},
}

// aFloaterStep creates a pod that requests floating addresses.
func aFloaterStep(r *rand.Rand) Step {
	return Step{Do: "floater", Name: aFloater(r), Node: aCarrier(r), What: aFloatingRequest(r)}
}

// withFloating inserts steps of IPPools into two of three histories. They begin with a pool and a node of each rack.
func withFloating(p Plan) Plan {
	r := rand.New(rand.NewPCG(p.Seed, 15))
	if r.IntN(3) == 0 {
		return p
	}
	begin := []Step{{Do: "network"}, {Do: "node", Name: "n0"}, {Do: "node", Name: "n1"}, {Do: "wait", N: 20},
		{Do: "agent", Name: "n0", N: r.IntN(3)}, {Do: "agent", Name: "n1", N: r.IntN(3)},
		{Do: "rack", Name: "/n0", What: "1"}, {Do: "rack", Name: "/n1", What: "2"},
		{Do: "ippool", Name: "f0", What: oneOf(r, poolVariants[:7]...), N: 1 + r.IntN(2)},
		{Do: "workload", Name: "a/d0", N: 1 + r.IntN(3)}, {Do: "workload", Name: "a/s0", N: 1 + r.IntN(3)}, {Do: "wait", N: 4}}
	for range 5 {
		begin = append(begin, aFloaterStep(r))
	}
	begin = append(begin, Step{Do: "wait", N: 6})
	at := r.IntN(min(len(p.Steps), 6) + 1)
	p.Steps = slices.Insert(p.Steps, at, begin...)
	for range 15 + r.IntN(40) {
		p.Steps = slices.Insert(p.Steps, at+len(begin)+r.IntN(len(p.Steps)-at-len(begin)+1), draw(r, floatingChoices))
	}
	return p
}

// doFloating executes steps of administrators on IPPools, and of users and workload controllers on what requests them.
func (w *world) doFloating(ctx context.Context, s Step) (handled bool, err error) {
	switch s.Do {
	case "ippool":
		pool := &networkv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Name: s.Name}, Spec: w.poolOf(s)}
		return true, ignoreInvalid(ignoreExists(w.api.Create(ctx, pool)))
	case "change-ippool":
		pool := &networkv1alpha1.IPPool{}
		return true, ignoreInvalid(change(ctx, w.api, types.NamespacedName{Name: s.Name}, pool, func() {
			s.What = strings.ToLower(string(pool.Spec.Location)) + "-" + s.What
			pool.Spec = w.poolOf(s)
		}))
	case "delete-ippool":
		return true, client.IgnoreNotFound(w.api.Delete(ctx, &networkv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Name: s.Name}}))
	case "release-ip", "reserve-ip", "delete-ip":
		return true, w.changeIP(ctx, s)
	case "rack":
		return true, w.tag(ctx, s, &corev1.Node{}, rackLabel)
	}
	return w.doWorkload(ctx, s)
}

// ignoreInvalid ignores that a real API server refuses an IPPool, which a definition without validation lets through.
func ignoreInvalid(err error) error {
	if apierrors.IsInvalid(err) {
		return nil
	}
	return err
}

// poolOf derives a pool from a step. Pools of a name with the same location have the same first addresses, so that they
// grow and shrink.
func (w *world) poolOf(s Step) networkv1alpha1.IPPoolSpec {
	location, what, _ := strings.Cut(s.What, "-")
	spec := networkv1alpha1.IPPoolSpec{Location: networkv1alpha1.LocationNAT, Namespaces: &metav1.LabelSelector{}}
	first := []string{"192.0.2.%d", "2001:db8::%d"}
	if location == "overlay" {
		spec.Location, first = networkv1alpha1.LocationOverlay, overlays[w.plan.Shape]
	}
	number := int(s.Name[len(s.Name)-1] - '0')
	add := func(format string, from, n int, rack string) {
		r := networkv1alpha1.IPPoolRange{Addresses: fmt.Sprintf(format+"-"+format, from, from+n-1)}
		if rack != "" {
			r.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{rackLabel: rack}}
		}
		spec.Ranges = append(spec.Ranges, r)
	}
	for _, format := range first {
		if location == "nat" && what != "egress" && what != "wrong" && !w.hasFamily(format) {
			continue // such a pool is refused
		}
		from, n := overlayFirst[w.plan.Shape]+2*number, 1+s.N/2
		if location == "nat" {
			from, n = 64+8*number, 1+2*s.N
		}
		switch what {
		case "racks":
			add(format, from, 1, "1")
			add(format, from+1, n, "2")
			continue
		case "wide": // over the next pool's addresses
			n = 9
		}
		add(format, from, n, "")
	}
	switch what {
	case "size":
		spec.Size = int32(1 + s.N)
	case "some":
		spec.Namespaces.MatchLabels = map[string]string{"out": "yes"}
	case "outside":
		spec.Ranges[0].Addresses = "198.51.100.1-198.51.100.4"
	case "egress": // addresses of EgressIPs
		spec.Ranges[0].Addresses = "192.0.2.150-192.0.2.153"
	case "wrong":
		spec.Ranges[0].Addresses = "192.0.2.300"
	}
	return spec
}

// hasFamily reports whether the pods of the history have addresses of the family of a format.
func (w *world) hasFamily(format string) bool {
	return slices.ContainsFunc(shapes[w.plan.Shape].first, func(e networkv1alpha1.ClusterNetworkEntry) bool {
		return strings.Contains(string(e.CIDR), ":") == strings.Contains(format, ":")
	})
}

// overlays are the formats of Overlay pools' addresses in the last subnets of each shape, and overlayFirst are their
// first numbers.
var (
	overlays = [][]string{{"10.244.255.%d"}, {"10.244.0.%d"}, {"10.244.0.%d", "fd00:10:244:3::%d"}, {"fd00:10:244:f::%d"},
		{"10.244.0.%d", "fd00:10:244:f::%d"}}
	overlayFirst = []int{16, 25, 50, 16, 240}
)

// changeIP changes a FloatingIP as a person does: it takes the address from its holder, keeps it from other pods, or
// forgets a FloatingIP without a holder.
func (w *world) changeIP(ctx context.Context, s Step) error {
	var all networkv1alpha1.FloatingIPList
	if err := w.api.List(ctx, &all); err != nil {
		return err
	}
	ips := slices.DeleteFunc(all.Items, func(f networkv1alpha1.FloatingIP) bool {
		return s.Do != "reserve-ip" && (f.Spec.Holder != nil) != (s.Do == "release-ip")
	})
	if len(ips) == 0 {
		return nil
	}
	f := &ips[s.N%len(ips)]
	w.note("%s %s", s.Do, f.Name)
	if f.Spec.Holder != nil { // a running pod may get another address, which it does not report
		w.unpinned[string(f.Spec.Holder.PodUID)] = true
	}
	var err error
	switch before := f.DeepCopy(); s.Do {
	case "release-ip":
		f.Spec.Holder = nil
		err = w.observer.byPerson(f.Name, func() error {
			return w.api.Patch(ctx, f, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		})
	case "reserve-ip":
		if _, reserved := f.Labels[networkv1alpha1.ReservedLabel]; reserved {
			delete(f.Labels, networkv1alpha1.ReservedLabel)
		} else {
			metav1.SetMetaDataLabel(&f.ObjectMeta, networkv1alpha1.ReservedLabel, "true")
		}
		err = w.api.Patch(ctx, f, client.MergeFrom(before))
	case "delete-ip": // a policy refuses the deletion of a FloatingIP with a holder
		err = w.api.Delete(ctx, f, client.Preconditions{UID: &f.UID, ResourceVersion: &f.ResourceVersion})
	}
	if apierrors.IsConflict(err) {
		return nil // the operator was faster
	}
	return client.IgnoreNotFound(err)
}

// doWorkload executes steps of users and of workload controllers.
func (w *world) doWorkload(ctx context.Context, s Step) (handled bool, err error) {
	switch s.Do {
	case "workload":
		return true, w.createWorkload(ctx, s)
	case "scale":
		workload, replicas := workloadOf(s.Name)
		return true, change(ctx, w.api, podKey(s.Name), workload, func() { *replicas() = new(int32(s.N)) })
	case "delete-workload":
		return true, w.deleteWorkload(ctx, s.Name)
	case "renew-workload":
		return true, errors.Join(w.deleteWorkload(ctx, s.Name), w.createWorkload(ctx, s))
	case "floater":
		return true, w.createFloater(ctx, s)
	case "renew-floater":
		return true, errors.Join(w.deletePod(ctx, s.Name), w.createFloater(ctx, s))
	case "rerequest":
		return true, w.changePod(ctx, s.Name, false, func(pod *corev1.Pod) { pod.Annotations = requestOf(s) })
	}
	return false, nil
}

// workloadOf returns an empty workload of a name's kind, and where it has its replicas.
func workloadOf(name string) (workload client.Object, replicas func() **int32) {
	key := podKey(name)
	meta := metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
	selector, template := podsOf(key.Name)
	if strings.HasPrefix(key.Name, "s") {
		s := &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template}}
		return s, func() **int32 { return &s.Spec.Replicas }
	}
	d := &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: selector, Template: template}}
	return d, func() **int32 { return &d.Spec.Replicas }
}

// podsOf returns the selector and the template that a real API server requires of a workload.
func podsOf(workload string) (*metav1.LabelSelector, corev1.PodTemplateSpec) {
	labels := map[string]string{"workload": workload}
	return &metav1.LabelSelector{MatchLabels: labels}, corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none"}}}}
}

// createWorkload creates a workload. A Deployment has a ReplicaSet, which controls its pods.
func (w *world) createWorkload(ctx context.Context, s Step) error {
	workload, replicas := workloadOf(s.Name)
	*replicas() = new(int32(s.N))
	if err := w.api.Create(ctx, workload); err != nil {
		return ignoreExists(err)
	}
	if d, ok := workload.(*appsv1.Deployment); ok {
		rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name + "-rs"}}
		rs.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
		rs.Spec.Selector, rs.Spec.Template = podsOf(d.Name)
		return w.api.Create(ctx, rs)
	}
	return nil
}

// deleteWorkload deletes a workload. Its pods stay until another step deletes them, as they end slowly.
func (w *world) deleteWorkload(ctx context.Context, name string) error {
	workload, _ := workloadOf(name)
	err := client.IgnoreNotFound(w.api.Delete(ctx, workload))
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: workload.GetNamespace(), Name: workload.GetName() + "-rs"}}
	return errors.Join(err, client.IgnoreNotFound(w.api.Delete(ctx, rs)))
}

// createFloater creates a pod that requests floating addresses, if the workload that it belongs to exists.
func (w *world) createFloater(ctx context.Context, s Step) error {
	key := podKey(s.Name)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Annotations: requestOf(s)},
		Spec: corev1.PodSpec{NodeName: s.Node, Containers: []corev1.Container{{Name: "c", Image: "none"}}}}
	name, _, _ := strings.Cut(s.Name, "-")
	if !strings.HasSuffix(name, "/bare") {
		workload, _ := workloadOf(name)
		kind := "StatefulSet"
		if _, ok := workload.(*appsv1.Deployment); ok {
			workload, kind = &appsv1.ReplicaSet{}, "ReplicaSet"
			name += "-rs"
		}
		if err := w.api.Get(ctx, podKey(name), workload); err != nil {
			return client.IgnoreNotFound(err)
		}
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(workload, appsv1.SchemeGroupVersion.WithKind(kind))}
	}
	return ignoreExists(w.api.Create(ctx, pod))
}

// requestOf returns the annotations of a request that aFloatingRequest drew.
func requestOf(s Step) map[string]string {
	parts := append(strings.Split(s.What, ","), "", "")
	found := map[string]string{networkv1alpha1.IPPoolAnnotation: parts[0], networkv1alpha1.ReleasePolicyAnnotation: parts[1]}
	switch name, value, _ := strings.Cut(parts[2], "="); name {
	case "count":
		found[networkv1alpha1.IPCountAnnotation] = value
	case "ttl":
		found[networkv1alpha1.IPTTLAnnotation] = value
	case "ranges":
		found[networkv1alpha1.IPRangesAnnotation] = `[["10.244.0.0/16","192.0.2.64-192.0.2.66","2001:db8::64-2001:db8::66"]]`
	case "wrong":
		found[networkv1alpha1.IPCountAnnotation] = "none"
	}
	return found
}
