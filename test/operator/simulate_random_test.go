package operator

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// foreseen is a cluster in which each change is planned before it is made.
type foreseen struct {
	*world
	operator *operator
	random   *rand.Rand
	nodes    []string
	pods     []*corev1.Pod
	made     int
}

// steps are the possible changes, each with its plan.
func (f *foreseen) steps() []func() {
	steps := []func(){f.createPod, f.createPod, f.createPod}
	if len(f.pods) > 0 {
		steps = append(steps, f.deletePod, f.endPod)
	}
	if len(f.nodes) < 3 {
		steps = append(steps, f.addNode)
	}
	if len(f.nodes) > 1 {
		steps = append(steps, f.removeNode)
	}
	return steps
}

func (f *foreseen) name(kind string) string {
	f.made++
	return fmt.Sprintf("%s%d", kind, f.made)
}

// takePod removes a random pod from the running pods.
func (f *foreseen) takePod() *corev1.Pod {
	i := f.random.IntN(len(f.pods))
	taken := f.pods[i]
	f.pods = slices.Delete(f.pods, i, i+1)
	return taken
}

func (f *foreseen) createPod() {
	name, node := f.name("p"), f.nodes[f.random.IntN(len(f.nodes))]
	f.comesTrue(f.operator.plan([]string{"plan"}, f.dryRun(pod(name, node))), func() string {
		made := f.create(node, name)[0]
		f.pods = append(f.pods, made)
		return string(made.UID)
	})
}

func (f *foreseen) deletePod() {
	gone := f.takePod()
	f.comesTrue(f.operator.plan([]string{"plan", "--delete"}, gone), func() string {
		f.delete(gone)
		return ""
	})
}

// endPod makes a pod fail; it stays in the API server.
func (f *foreseen) endPod() {
	ended := f.takePod()
	wanted := ended.DeepCopy()
	wanted.Status.Phase = corev1.PodFailed
	f.comesTrue(f.operator.plan([]string{"plan"}, wanted), func() string {
		f.phase(ended, corev1.PodFailed)
		return ""
	})
}

func (f *foreseen) addNode() {
	name := f.name("n")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	f.comesTrue(f.operator.plan([]string{"plan"}, f.dryRun(node)), func() string {
		f.register(name)
		return ""
	})
	f.report(name)
	f.nodes = append(f.nodes, name)
}

// removeNode deletes a node; its pods stay in the API server and lose their ports.
func (f *foreseen) removeNode() {
	i := f.random.IntN(len(f.nodes))
	name := f.nodes[i]
	f.nodes = slices.Delete(f.nodes, i, i+1)
	f.comesTrue(f.operator.plan([]string{"plan", "--delete"}, f.node(name)), func() string {
		f.delete(f.node(name))
		return ""
	})
	f.pods = slices.DeleteFunc(f.pods, func(p *corev1.Pod) bool { return p.Spec.NodeName == name })
}

// atRest returns when the operator has nothing left to write to the API server, so that only planned changes follow.
func (f *foreseen) atRest() {
	f.Helper()
	f.ready(f.nodes...)
	f.counted(len(f.pods))
	for _, p := range f.pods {
		f.port(p)
		f.must(api.Get(f.Context(), client.ObjectKeyFromObject(p), p))
	}
}

// TestPlansOfRandomChangesComeTrue checks that in any state a plan equals the next write.
func TestPlansOfRandomChangesComeTrue(t *testing.T) {
	const seed = 5
	f := &foreseen{world: newWorld(t), random: rand.New(rand.NewPCG(seed, seed)), nodes: []string{"a"}}
	f.operator, _ = f.settled(f.nodes, 0)
	for range 25 {
		steps := f.steps()
		steps[f.random.IntN(len(steps))]()
		f.atRest()
	}
}
