package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// jobOf returns a Job, which a CronJob may own.
func jobOf(name string, owner *batchv1.CronJob) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: batchv1.JobSpec{Template: onceTemplate()}}
	if owner != nil {
		j.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, batchv1.SchemeGroupVersion.WithKind("CronJob"))}
	}
	return j
}

func onceTemplate() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever,
		Containers: []corev1.Container{{Name: "c", Image: "none"}}}}
}

// made creates an object, and deletes it after the test.
func (w *world) made(o client.Object) {
	w.Helper()
	w.must(api.Create(w.Context(), o))
	w.Cleanup(func() {
		_ = api.Delete(context.Background(), o, client.PropagationPolicy(metav1.DeletePropagationBackground))
	})
}

// gone deletes an object without the controllers that would delete what it owns.
func (w *world) gone(o client.Object) {
	w.Helper()
	w.must(api.Delete(w.Context(), o, client.PropagationPolicy(metav1.DeletePropagationBackground)))
}

// An address that is kept without a pod becomes free when its workload ends, although no pod ends then.
func TestKeptAddressesOfWorkloadsThatEnd(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.network(dualStack()...)
	w.join("n1")
	w.pool("web", networkv1alpha1.LocationOverlay, "10.244.200.1-10.244.200.8")
	kept := func(t *testing.T, owner client.Object, by string) *corev1.Pod {
		p := w.inPool("once", "n1", "web", networkv1alpha1.ReleaseImmutable, owner)
		w.port(p)
		w.phase(p, corev1.PodSucceeded)
		w.holders(map[string]string{"10.244.200.1": by})
		return p
	}
	t.Run("a pod", func(t *testing.T) {
		w.delete(kept(t, nil, "(Pod once)"))
		w.holders(map[string]string{})
	})
	for name, condition := range map[string]batchv1.JobConditionType{
		"a job that completes": batchv1.JobComplete, "a job that fails": batchv1.JobFailed,
	} {
		t.Run(name, func(t *testing.T) {
			job := jobOf("run", nil)
			w.made(job)
			p := kept(t, job, "(Job run)")
			w.ends(job, condition)
			w.holders(map[string]string{})
			w.delete(p)
			w.gone(job)
		})
	}
	t.Run("a cron job", func(t *testing.T) {
		cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "nightly"},
			Spec: batchv1.CronJobSpec{Schedule: "0 0 * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: onceTemplate()}}}}
		w.made(cron)
		job := jobOf("nightly-1", cron)
		w.made(job)
		p := kept(t, job, "(CronJob nightly)")
		w.gone(cron)
		w.holders(map[string]string{})
		w.delete(p)
		w.gone(job)
	})
}

// ends writes that a Job has ended, as its controller does.
func (w *world) ends(job *batchv1.Job, as batchv1.JobConditionType) {
	w.Helper()
	before := job.DeepCopy()
	now := metav1.Now()
	job.Status.StartTime = &now
	job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue})
	if as == batchv1.JobComplete {
		job.Status.Conditions[0].Type, job.Status.CompletionTime = batchv1.JobSuccessCriteriaMet, &now
	}
	job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: as, Status: corev1.ConditionTrue})
	w.must(api.Status().Patch(w.Context(), job, client.MergeFrom(before)))
}

// A person who takes an address from a running pod does not end its use, so the pod gets the lock again.
func TestPersonTakesAnAddressInUse(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.network(dualStack()...)
	w.join("n1")
	w.podNetwork("blue", networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLayer2, Subnets: subnets("10.100.0.0/29")})
	w.poolOn("blue", "segment", networkv1alpha1.LocationUnderlay, "10.100.0.1-10.100.0.2")
	w.pool("web", networkv1alpha1.LocationOverlay, "10.244.200.1-10.244.200.2")
	p := pod("one", "n1")
	p.Annotations = map[string]string{networkv1alpha1.IPPoolAnnotation: "segment", "k8s.v1.cni.cncf.io/networks": "blue"}
	w.run(p)
	w.inPool("two", "n1", "web", "", nil)
	held := map[string]string{"10.100.0.1": "one", "10.244.200.1": "two"}
	w.holders(held)
	w.wantPorts(map[string]string{"blue_default_one_net1": "10.100.0.1"})
	for address := range held {
		f := &networkv1alpha1.FloatingIP{}
		w.must(api.Get(w.Context(), client.ObjectKey{Name: address}, f))
		patch(w, f, func(f *networkv1alpha1.FloatingIP) { f.Spec.Holder = nil })
	}
	w.holders(held)
	w.wantPorts(map[string]string{"blue_default_one_net1": "10.100.0.1"})
}

// A NAT pool must not have an address of a node or of a router outside: the pods' traffic would take it away.
func TestPoolsWithAddressesOfNodes(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.network(dualStack()...)
	w.pool("node", networkv1alpha1.LocationNAT, "192.0.2.11")
	w.pool("router", networkv1alpha1.LocationNAT, "192.0.2.1-192.0.2.3")
	w.pool("all", networkv1alpha1.LocationNAT, "192.0.2.255")
	w.pool("internal", networkv1alpha1.LocationNAT, "198.51.100.0/29")
	w.pool("good", networkv1alpha1.LocationNAT, "192.0.2.64/30")
	w.registerAt("outside", "198.51.100.7")
	w.joinShared("n1")
	for name, words := range map[string][]string{
		"node":     {"range 192.0.2.11", "overlaps 192.0.2.11", "node n1"},
		"router":   {"192.0.2.1-192.0.2.3", "a router that node n1 sends to"},
		"all":      {"192.0.2.255", "all hosts", "node n1"},
		"internal": {"198.51.100.7", "node outside"},
	} {
		w.until(func() error {
			var p networkv1alpha1.IPPool
			if err := view.Get(w.Context(), client.ObjectKey{Name: name}, &p); err != nil {
				return err
			}
			for _, ready := range p.Status.Conditions {
				lacks := func(s string) bool { return !strings.Contains(ready.Message, s) }
				if ready.Status == metav1.ConditionFalse && !slices.ContainsFunc(words, lacks) {
					return nil
				}
			}
			return fmt.Errorf("IPPool %s has the conditions %+v, want %v", name, p.Status.Conditions, words)
		})
	}
	w.inPool("one", "n1", "good", "", nil)
	w.holders(map[string]string{"192.0.2.64": "one"})
}
