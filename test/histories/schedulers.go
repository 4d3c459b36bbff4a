package histories

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating"
	"github.com/weft-network/weft/pkg/servers/extender"
)

// extenderWatched are the resources that an extender caches.
var extenderWatched = []string{floatingIPs, floatingIPs, ippools, "nodes", "deployments"}

// anExtender names an extender.
func anExtender(r *rand.Rand) string { return oneOf(r, "0", "1") }

// schedulerChoices are the steps of two kube-schedulers and their extenders, drawn separately from the others.
var schedulerChoices = []choice{
	{16, func(r *rand.Rand) Step { return Step{Do: "floater", Name: aFloater(r), What: aFloatingRequest(r)} }},
	{4, func(r *rand.Rand) Step {
		return Step{Do: "renew-floater", Name: aFloater(r), What: aFloatingRequest(r)}
	}},
	{18, func(r *rand.Rand) Step {
		return Step{Do: "place", Name: anExtender(r), Node: aCarrier(r), N: r.IntN(100),
			What: oneOf(r, "", "", "both", "both", "twice", "blind")}
	}},
	{7, func(r *rand.Rand) Step {
		return Step{Do: "extender-api", Name: anExtender(r), What: oneOf(r, apiFaults...), N: r.IntN(3)}
	}},
	{4, func(r *rand.Rand) Step {
		return Step{Do: "extender-delay", Name: anExtender(r), What: oneOf(r, extenderWatched...)}
	}},
	{2, func(r *rand.Rand) Step { return Step{Do: "extender-deliver", Name: anExtender(r)} }},
	{2, func(r *rand.Rand) Step {
		return Step{Do: "extender-lose", Name: anExtender(r), What: oneOf(r, extenderWatched...)}
	}},
	{2, func(r *rand.Rand) Step { return Step{Do: "extender-crash", Name: anExtender(r), N: r.IntN(12)} }},
	{3, func(r *rand.Rand) Step { return Step{Do: "delete-pod", Name: aFloater(r)} }},
	{3, func(r *rand.Rand) Step { return Step{Do: "release-ip", N: r.IntN(100)} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "api", What: oneOf(r, apiFaults...), N: r.IntN(3)} }},
	{2, func(*rand.Rand) Step { return Step{Do: "crash"} }},
	{3, func(r *rand.Rand) Step { return Step{Do: "wait", N: 1 + r.IntN(6)} }},
}

// withSchedulers inserts steps of schedulers into half of the histories with an IPPool, after its creation.
func withSchedulers(p Plan) Plan {
	r := rand.New(rand.NewPCG(p.Seed, 16))
	at := slices.IndexFunc(p.Steps, func(s Step) bool { return s.Do == "ippool" }) + 1
	if at == 0 || r.IntN(2) == 0 {
		return p
	}
	for range 15 + r.IntN(25) {
		p.Steps = slices.Insert(p.Steps, at+r.IntN(len(p.Steps)-at+1), draw(r, schedulerChoices))
	}
	return p
}

// doScheduler executes steps of schedulers and the faults of their extenders. A fault of an extender that never ran has no
// effect. An extender that crashed is started again for it.
func (w *world) doScheduler(ctx context.Context, s Step) (handled bool, err error) {
	e := w.schedulers[s.Name]
	switch s.Do {
	case "place":
		return true, w.place(ctx, s)
	case "extender-api", "extender-delay", "extender-deliver", "extender-lose", "extender-crash":
	default:
		return false, nil
	}
	if e == nil {
		return true, nil
	}
	if e, err = w.extender(s.Name); err != nil {
		return true, err
	}
	switch s.Do {
	case "extender-api":
		e.link.faults.arm(s.N, fault(s.What))
	case "extender-delay":
		e.link.gate(s.What).set(true)
	case "extender-deliver":
		e.deliver()
	case "extender-lose":
		e.link.lose(s.What)
	case "extender-crash":
		e.kill()
		e.crashed.Store(true)
		w.staleExtender = int64(s.N)
	}
	return true, nil
}

// deliver releases the events held back from an extender.
func (e *extenderProcess) deliver() {
	for _, resource := range all {
		e.link.gate(resource).set(false)
	}
}

// extender returns a running extender. It starts the extender if it does not run.
func (w *world) extender(name string) (*extenderProcess, error) {
	if e := w.schedulers[name]; e != nil && !e.crashed.Load() {
		return e, nil
	}
	if e := w.schedulers[name]; e != nil {
		e.kill()
	}
	w.note("extender %s starts", name)
	e, err := startExtender(w.cluster, fmt.Sprintf("ex%d", len(w.extenders)), w.staleExtender, w.news.Notify)
	w.staleExtender = 0
	if err != nil {
		return nil, err
	}
	w.schedulers[name], w.extenders = e, append(w.extenders, e)
	return e, nil
}

// waitingPods lists the pods that request floating addresses and have no node, by name.
func waitingPods(pods []corev1.Pod) (found []*corev1.Pod) {
	for i := range pods {
		pod := &pods[i]
		if pod.Annotations[networkv1alpha1.IPPoolAnnotation] != "" && pod.Spec.NodeName == "" && pod.Status.Phase != corev1.PodSucceeded &&
			pod.Status.Phase != corev1.PodFailed {
			found = append(found, pod)
		}
	}
	slices.SortFunc(found, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return found
}

// place lets a scheduler place a pod that waits: with the step's extender; with both at once, each for a node of its own
// choice; twice, as after a lost reply; or blind, without filter. What fails is tried again by a later step.
func (w *world) place(ctx context.Context, s Step) error {
	var pods corev1.PodList
	if err := w.api.List(ctx, &pods); err != nil {
		return err
	}
	waiting := waitingPods(pods.Items)
	if len(waiting) == 0 {
		return nil
	}
	pod := waiting[s.N%len(waiting)]
	e, err := w.extender(s.Name)
	if err != nil {
		return err
	}
	w.note("pod %s/%s is placed: %s", pod.Namespace, pod.Name, s.What)
	switch s.What {
	case "blind":
		err = bind(ctx, e, pod, s.Node)
	case "twice":
		err = errors.Join(w.schedulePod(ctx, e, pod), bind(ctx, e, pod, s.Node))
	case "both":
		other, failed := w.extender(map[string]string{"0": "1", "1": "0"}[s.Name])
		if failed != nil {
			return failed
		}
		var second error
		var both sync.WaitGroup
		both.Go(func() { err = w.schedulePod(ctx, e, pod) })
		both.Go(func() { second = bind(ctx, other, pod, s.Node) })
		both.Wait()
		err = errors.Join(err, second)
	default:
		err = w.schedulePod(ctx, e, pod)
	}
	if err != nil {
		w.note("placing failed: %v", err)
	}
	return nil
}

// schedulePod does what kube-scheduler does for a pod: filter, prioritize and bind. A pod that fits no node stays.
func (w *world) schedulePod(ctx context.Context, e *extenderProcess, pod *corev1.Pod) error {
	var nodes corev1.NodeList
	if err := w.api.List(ctx, &nodes); err != nil {
		return err
	}
	names := []string{}
	for i := range nodes.Items {
		names = append(names, nodes.Items[i].Name)
	}
	var fit extenderv1.ExtenderFilterResult
	err := e.post(ctx, extender.PathFilter, &extenderv1.ExtenderArgs{Pod: pod, NodeNames: &names}, &fit)
	switch {
	case err != nil:
		return err
	case fit.Error != "":
		return errors.New(fit.Error)
	case fit.NodeNames == nil || len(*fit.NodeNames) == 0:
		return nil
	}
	var scores extenderv1.HostPriorityList
	if err := e.post(ctx, extender.PathPrioritize, &extenderv1.ExtenderArgs{Pod: pod, NodeNames: fit.NodeNames}, &scores); err != nil {
		return err
	}
	best := slices.MaxFunc(scores, func(a, b extenderv1.HostPriority) int { return cmp.Compare(a.Score, b.Score) })
	return bind(ctx, e, pod, best.Host)
}

// bind binds a pod to a node by an extender.
func bind(ctx context.Context, e *extenderProcess, pod *corev1.Pod, node string) error {
	var result extenderv1.ExtenderBindingResult
	args := &extenderv1.ExtenderBindingArgs{PodNamespace: pod.Namespace, PodName: pod.Name, PodUID: pod.UID, Node: node}
	if err := e.post(ctx, extender.PathBind, args, &result); err != nil {
		return err
	}
	if result.Error != "" {
		return errors.New(result.Error)
	}
	return nil
}

// placeAll lets the first scheduler place all pods that wait. What fails is tried again, until placed accepts the result.
func (w *world) placeAll(ctx context.Context) error {
	var pods corev1.PodList
	if err := w.api.List(ctx, &pods); err != nil {
		return err
	}
	for _, pod := range waitingPods(pods.Items) {
		e, err := w.extender("0")
		if err != nil {
			return err
		}
		if err := w.schedulePod(ctx, e, pod); err != nil {
			w.note("placing %s/%s failed: %v", pod.Namespace, pod.Name, err)
		}
	}
	return nil
}

// checkPlaced checks that no pod waits for a scheduler while a node carries an address for it.
func (o *oracle) checkPlaced() {
	for _, pod := range waitingPods(o.pods) {
		requester, ok, err := o.truth.Requester(context.Background(), pod)
		if err != nil || !ok {
			continue
		}
		for name, node := range o.nodes {
			if _, err := o.truth.Book.Choose(requester, floating.Node{Name: name, Labels: node.Labels}); err == nil {
				o.complain("pod %s/%s waits, although node %s carries an address for it", pod.Namespace, pod.Name, name)
			}
		}
	}
}

// restartedExtenders replaces the extenders that run, in a correct state. They must write nothing.
func (w *world) restartedExtenders(ctx context.Context) error {
	for i := range extenders {
		name := fmt.Sprint(i)
		e := w.schedulers[name]
		if e == nil {
			continue
		}
		e.kill()
		e.crashed.Store(true)
		if _, err := w.extender(name); err != nil {
			return err
		}
	}
	if len(w.schedulers) == 0 {
		return nil
	}
	if err := w.converge(ctx, w.wrong); err != nil {
		return err
	}
	w.still()
	for name, e := range w.schedulers {
		if writes := e.link.written(); len(writes) > 0 {
			return fmt.Errorf("extender %s wrote: %q", name, writes)
		}
	}
	return nil
}
