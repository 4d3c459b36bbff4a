package floatinggate

import (
	"context"
	"errors"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/addresses/floating"
	"github.com/weft-network/weft/pkg/addresses/floating/claim"
	"github.com/weft-network/weft/pkg/addresses/floating/placement"
	"github.com/weft-network/weft/pkg/health"
	"github.com/weft-network/weft/pkg/podcondition"
	"github.com/weft-network/weft/pkg/process/trigger"
)

// Reconciler gives a gated pod its addresses, confines it to the nodes that carry them, and removes its gate.
type Reconciler struct {
	Client   client.Client
	Floating *claim.Claimer
	Events   events.EventRecorder
	Triggers *trigger.Set

	waiting waiting
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if err := r.Floating.Load(ctx); err != nil {
		return ctrl.Result{}, err
	}
	r.waiting.remove(req.NamespacedName)
	var pod corev1.Pod
	if err := r.Client.Get(ctx, req.NamespacedName, &pod); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	switch {
	case pod.DeletionTimestamp != nil:
		return ctrl.Result{}, nil
	case !placement.IsGated(&pod) && isExplained(&pod):
		return ctrl.Result{}, r.placed(ctx, &pod)
	case !placement.IsGated(&pod):
		return ctrl.Result{}, nil
	}
	request, wanted, err := claim.Request(&pod)
	switch {
	case err != nil:
		return ctrl.Result{}, r.explain(ctx, &pod, err.Error())
	case !wanted:
		return ctrl.Result{}, r.ungate(ctx, &pod, nil)
	}
	why, err := r.place(ctx, &pod)
	if err == nil && why != "" {
		r.waiting.add(req.NamespacedName, request.Pool)
		// An address that was freed before the pod was recorded as waiting enqueued no pod.
		why, err = r.place(ctx, &pod)
	}
	if err == nil && why != "" {
		err = r.explain(ctx, &pod, why)
	}
	return ctrl.Result{}, err
}

// place gives a pod its addresses and removes its gate. why says what the pod lacks; then it stays as it is.
func (r *Reconciler) place(ctx context.Context, pod *corev1.Pod) (why string, err error) {
	requester, _, err := r.Floating.Requester(ctx, pod)
	if err != nil {
		return "", err
	}
	var all corev1.NodeList
	if err := r.Client.List(ctx, &all); err != nil {
		return "", err
	}
	nodes := placement.Nodes(pod, all.Items)
	answers := r.Floating.Book.Survey(requester, nodes)
	best := placement.Best(pod.UID, answers)
	if best < 0 {
		return placement.Explain(len(all.Items), answers), nil
	}
	on := floating.Node{Labels: nodes[best].Labels} // kube-scheduler chooses the node
	if len(nodes) == 1 {
		on = nodes[best]
	}
	addresses, err := r.Floating.Claim(ctx, pod, on, nil)
	if unavailable := (*floating.UnavailableError)(nil); errors.As(err, &unavailable) {
		return unavailable.Error(), nil // another pod was faster
	}
	if err != nil {
		return "", err
	}
	return "", r.ungate(ctx, pod, addresses)
}

// ungate confines a pod to the nodes that carry its addresses, and removes its gate.
func (r *Reconciler) ungate(ctx context.Context, pod *corev1.Pod, addresses []netip.Addr) error {
	placed := pod.DeepCopy()
	if err := placement.Confine(placed, r.selectorsOf(addresses)); err != nil {
		return err
	}
	placement.Ungate(placed)
	if len(addresses) > 0 {
		metav1.SetMetaDataAnnotation(&placed.ObjectMeta, networkv1alpha1.FloatingIPsAnnotation, claim.Annotation(addresses))
	}
	return ignoreOutdated(kind.Write(ctx, r.Client, pod, placed))
}

// ignoreOutdated returns nil if the pod was changed or deleted meanwhile. The event of that enqueues it again.
func ignoreOutdated(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return client.IgnoreNotFound(err)
}

// selectorsOf returns the selectors of the nodes that carry addresses.
func (r *Reconciler) selectorsOf(addresses []netip.Addr) (selectors []labels.Selector) {
	for _, address := range addresses {
		f := r.Floating.Book.Get(address)
		if f == nil {
			continue // a person deleted it meanwhile; the pod gets another one once it is bound
		}
		pool, _, _ := r.Floating.Book.Pool(f.Spec.Pool)
		if segment, inside := pool.SegmentOf(address); inside {
			selectors = append(selectors, segment.Nodes)
		}
	}
	return slices.Clip(selectors)
}

// explain writes into the condition FloatingIP why the pod keeps its gate, and records an event, unless the condition
// says so already. The event alone does not suffice, because a series of events has the text of the first.
func (r *Reconciler) explain(ctx context.Context, pod *corev1.Pod, why string) error {
	want := corev1.PodCondition{Type: networkv1alpha1.PodFloatingIP, Status: corev1.ConditionFalse,
		Reason: networkv1alpha1.ReasonAddressUnavailable, Message: health.Cut(why)}
	if !podcondition.Differs(podcondition.Find(pod, want.Type), &want) {
		return nil
	}
	r.Events.Eventf(pod, nil, corev1.EventTypeWarning, "FailedAddressAllocation", "AllocateAddress", "%s", want.Message)
	return r.report(ctx, pod, want)
}

// placed sets the condition FloatingIP to True if it was False.
func (r *Reconciler) placed(ctx context.Context, pod *corev1.Pod) error {
	want := corev1.PodCondition{Type: networkv1alpha1.PodFloatingIP, Status: corev1.ConditionTrue, Reason: networkv1alpha1.ReasonAsExpected}
	podcondition.Differs(podcondition.Find(pod, want.Type), &want)
	return r.report(ctx, pod, want)
}

func (r *Reconciler) report(ctx context.Context, pod *corev1.Pod, want corev1.PodCondition) error {
	patched := pod.DeepCopy()
	podcondition.Set(&patched.Status, want)
	return ignoreOutdated(kind.WritePodStatus(ctx, r.Client, pod, patched))
}

// isExplained reports whether a pod's condition says what the pod lacks.
func isExplained(pod *corev1.Pod) bool {
	have := podcondition.Find(pod, networkv1alpha1.PodFloatingIP)
	return have != nil && have.Status != corev1.ConditionTrue && have.Reason == networkv1alpha1.ReasonAddressUnavailable
}
