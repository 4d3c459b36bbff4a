package histories

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
)

// scenario is a sequence of steps that random steps rarely form. It starts and ends with a quiet point, so that
// earlier faults do not disturb it and later steps do not hide what it broke. Its objects have names that no random
// step uses.
type scenario func(r *rand.Rand) []Step

const (
	tightShape = 1 // the index in shapes of the network with four addresses per node
	moreThan   = 6 // pods for one node of the tight shape
)

// scenarios are possible in every shape.
var scenarios = []scenario{movedSlice, lateStart, lostEpoch}

// withScenarios inserts one scenario into a quarter of the plans, and into half of the plans with the tight shape.
func withScenarios(p Plan) Plan {
	r := rand.New(rand.NewPCG(p.Seed, 8))
	possible, share := scenarios, 4
	if p.Shape == tightShape {
		possible, share = append(slices.Clone(scenarios), fullNode, fullNode), 2
	}
	if r.IntN(share) > 0 {
		return p
	}
	steps := possible[r.IntN(len(possible))](r)
	steps = slices.Concat([]Step{{Do: "quiet"}}, steps, []Step{{Do: "quiet"}})
	p.Steps = slices.Insert(p.Steps, r.IntN(len(p.Steps)+1), steps...)
	return p
}

// movedSlice moves an EndpointSlice from one service to another, or to a service that does not exist. Only the
// slice's label changes, and no other event concerns the first service before the quiet point.
func movedSlice(r *rand.Rand) []Step {
	return []Step{
		{Do: "service", Name: "a/t0", N: 201}, {Do: "service", Name: "a/t1", N: 202},
		{Do: "slice", Name: "a/t0-0", N: 1 + r.IntN(3)}, {Do: "wait", N: 40},
		{Do: "move-slice", Name: "a/t0-0", What: oneOf(r, "t1", "t2")},
	}
}

// fullNode binds more pods to a node than the node has addresses. When some pods have ports and others wait, one
// with a port is deleted or ends.
func fullNode(r *rand.Rand) []Step {
	return filled(r, aNode(r), "b/q", "")
}

// filled are the steps of fullNode for a node whose rows a zone's database has.
func filled(r *rand.Rand, node, pods string, zone kind.Zone) []Step {
	steps := []Step{{Do: "node", Name: node}, {Do: "wait", N: 20}, {Do: "agent", Name: node, N: r.IntN(3)}}
	for i := range moreThan {
		steps = append(steps, Step{Do: "pod", Name: fmt.Sprintf("%s%d", pods, i), Node: node})
	}
	return append(steps, Step{Do: "wait", N: 40}, Step{Do: "make-room", Node: node, What: oneOf(r, "", "Succeeded", "Failed"), Zone: zone})
}

// lateStart creates a pod and replaces the process by one whose cache of pods lags behind the pod's creation.
func lateStart(r *rand.Rand) []Step {
	return []Step{
		{Do: "node", Name: "n0"}, {Do: "wait", N: 20}, {Do: "agent", Name: "n0", N: r.IntN(3)}, {Do: "wait", N: 40},
		{Do: "late-start", Name: "a/q9", Node: "n0", What: oneOf(r, "", "running")},
	}
}

// lostEpoch cuts the connection, and cuts it again when the same process has taken its next epoch but not the reply.
func lostEpoch(r *rand.Rand) []Step {
	return []Step{
		{Do: "node", Name: "n0"}, {Do: "wait", N: 20}, {Do: "agent", Name: "n0", N: r.IntN(3)}, {Do: "wait", N: 40},
		{Do: "wire", What: string(cutAfter)}, {Do: "disconnect"}, {Do: "pod", Name: "b/q8", Node: "n0"}, {Do: "wait", N: 40},
	}
}

// doScenario executes the steps that only scenarios have.
func (w *world) doScenario(ctx context.Context, s Step) (handled bool, err error) {
	switch s.Do {
	case "make-room":
		return true, w.makeRoom(ctx, s)
	case "late-start":
		return true, w.lateStart(ctx, s)
	}
	return false, nil
}

// makeRoom deletes or ends a pod with a port on a node where another pod waits for an address. Without a waiting pod it does nothing.
func (w *world) makeRoom(ctx context.Context, s Step) error {
	var pods corev1.PodList
	if err := w.api.List(ctx, &pods); err != nil {
		return err
	}
	rows, _ := w.mirror.snapshot()
	var attached string
	waiting := false
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Spec.NodeName != s.Node || !hasOwnInterface(pod) {
			continue
		}
		if _, ok := findPort(rows, pod); ok {
			attached = pod.Namespace + "/" + pod.Name
		} else {
			waiting = true
		}
	}
	switch {
	case attached == "" || !waiting:
		return nil
	case s.What == "":
		w.note("pod %s on the full node %s is deleted", attached, s.Node)
		return w.deletePod(ctx, attached)
	}
	w.note("pod %s on the full node %s ends", attached, s.Node)
	return w.changePod(ctx, attached, true, func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodPhase(s.What) })
}

const (
	// soon is how long lateStart waits for what a pod needs. On a node without a network it never comes.
	soon = 3 * time.Second
	// sweeping is how long a connected process has for its first sweep. A process that takes longer is not judged.
	sweeping = 500 * time.Millisecond
)

// lateStart creates a pod, and replaces the leader when the pod has its port. The next process's cache of pods stays as it was before the
// pod was created. The port must stay: the pod may be in use already, and only a stale cache lacks it.
func (w *world) lateStart(ctx context.Context, s Step) error {
	before, err := w.revision(ctx)
	if err != nil {
		return err
	}
	if err := w.createPod(ctx, Step{Name: s.Name, Node: s.Node}); err != nil {
		return err
	}
	var pod corev1.Pod
	if err := w.api.Get(ctx, podKey(s.Name), &pod); err != nil {
		return err
	}
	attached := func(context.Context) error {
		if rows, _ := w.mirror.snapshot(); !rows.hasPort(&pod) {
			return fmt.Errorf("pod %s has no port", s.Name)
		}
		return nil
	}
	if until(w.news, soon, attached) != nil {
		return nil
	}
	if s.What == "running" {
		if err := w.reportPod(ctx, s.Name); err != nil {
			return err
		}
	}
	w.lead.kill()
	now, err := w.revision(ctx)
	if err != nil {
		return err
	}
	w.lag = map[string]int64{"pods": now - before}
	if err := w.start(); err != nil {
		return err
	}
	defer w.deliver()
	connected := func(context.Context) error {
		if !w.lead.engine.Connected() {
			return errors.New("the database is not connected")
		}
		return nil
	}
	if until(w.news, soon, connected) != nil {
		return nil
	}
	lost := func(context.Context) error {
		if rows, up := w.mirror.snapshot(); !up || rows.hasPort(&pod) {
			return errors.New("the port still exists")
		}
		return nil
	}
	if until(w.news, sweeping, lost) != nil {
		return nil
	}
	var nn networkv1alpha1.NodeNetwork
	if err := w.api.Get(ctx, types.NamespacedName{Name: s.Node}, &nn); client.IgnoreNotFound(err) != nil {
		return err
	}
	if kind.Zone(nn.Spec.Zone) != w.cluster.zone { // the node was about to enter another zone, whose database gets the port
		return nil
	}
	return fmt.Errorf("a new process removed the port of pod %s, which its cache does not have yet", s.Name)
}

// revision returns the present revision of the API server.
func (w *world) revision(ctx context.Context) (revision int64, err error) {
	var pods corev1.PodList
	if err := w.api.List(ctx, &pods); err != nil {
		return 0, err
	}
	_, err = fmt.Sscan(pods.ResourceVersion, &revision)
	return revision, err
}

func (d database) hasPort(pod *corev1.Pod) bool {
	_, ok := findPort(d, pod)
	return ok
}
