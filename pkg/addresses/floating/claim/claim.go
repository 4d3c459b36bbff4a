package claim

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating"
)

// Claimer gives addresses to pods. It is safe for concurrent use.
type Claimer struct {
	Client client.Client
	// Pods reads pods from the cache. It is nil in a process that does not watch pods, as the extender.
	Pods client.Reader
	// Live reads past the cache. In a plan it is the plan's client.
	Live      client.Reader
	Book      *floating.Book
	Workloads *Workloads
	Now       func() time.Time

	mu     sync.Mutex
	loaded bool
}

// New returns a Claimer with an empty book.
func New(c client.Client, live client.Reader, now func() time.Time) *Claimer {
	workloads := &Workloads{Cached: c, Live: live}
	if live == nil {
		live, workloads.Live = c, c
	} else {
		workloads.Scale = func(ctx context.Context, object *unstructured.Unstructured) (int64, error) {
			scale := &unstructured.Unstructured{}
			scale.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
			if err := c.SubResource("scale").Get(ctx, object, scale); err != nil {
				return 0, err
			}
			replicas, _, err := unstructured.NestedInt64(scale.Object, "spec", "replicas")
			return replicas, err
		}
	}
	return &Claimer{Client: c, Pods: c, Live: live, Book: floating.NewBook(), Workloads: workloads, Now: now}
}

// Load reads all FloatingIPs from the cache once. It must return before the first address is given.
func (c *Claimer) Load(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loaded {
		return nil
	}
	var all networkv1alpha1.FloatingIPList
	if err := c.Client.List(ctx, &all); err != nil {
		return err
	}
	var pools networkv1alpha1.IPPoolList
	if err := c.Client.List(ctx, &pools); err != nil {
		return err
	}
	for i := range pools.Items {
		c.ObservePool(&pools.Items[i])
	}
	for i := range all.Items {
		c.Book.Observe(&all.Items[i])
		if err := c.recognize(ctx, &all.Items[i]); err != nil {
			return err
		}
	}
	c.loaded = true
	return nil
}

// recognize remembers the workload of a FloatingIP's pod. A ReplicaSet that was deleted says nothing any more, and its pods must have the
// same workload in every process, whichever of them is decided first.
func (c *Claimer) recognize(ctx context.Context, f *networkv1alpha1.FloatingIP) error {
	h := f.Spec.Holder
	if c.Pods == nil || h == nil || h.PodUID == "" {
		return nil
	}
	var pod corev1.Pod
	err := c.Pods.Get(ctx, types.NamespacedName{Namespace: h.Namespace, Name: h.Pod}, &pod)
	if err == nil && pod.UID == h.PodUID {
		c.Workloads.recognize(&pod, []*networkv1alpha1.FloatingIP{f})
	}
	return client.IgnoreNotFound(err)
}

// ObservePool records a pool as its status says whether it is in force. A status of an earlier spec says nothing about
// the ranges. changed reports whether that is new.
func (c *Claimer) ObservePool(pool *networkv1alpha1.IPPool) (changed bool) {
	refused := "it was not checked yet"
	ready := meta.FindStatusCondition(pool.Status.Conditions, networkv1alpha1.ConditionReady)
	if ready != nil && ready.ObservedGeneration == pool.Generation {
		if refused = ready.Message; ready.Status == metav1.ConditionTrue {
			refused = ""
		}
	}
	read, err := floating.ParseEffective(pool)
	if err != nil {
		refused = err.Error()
	}
	return c.Book.SetPool(read, refused)
}

// Request returns the addresses that a pod requests, in Weft's annotations or in Galaxy's format. ok is false for a pod
// without a request, and for a pod on the host's network. The error names the annotation.
func Request(pod *corev1.Pod) (r networkv1alpha1.FloatingRequest, ok bool, err error) {
	if pod.Spec.HostNetwork {
		return r, false, nil
	}
	return networkv1alpha1.FloatingRequestOf(pod)
}

// Requester returns a pod as package floating sees it; ok is false for a pod that requests nothing.
func (c *Claimer) Requester(ctx context.Context, pod *corev1.Pod) (a floating.Requester, ok bool, err error) {
	request, ok, err := Request(pod)
	if err != nil || !ok {
		return a, ok, err
	}
	a = floating.Requester{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Request: request}
	c.Workloads.recognize(pod, c.Book.Of(pod.UID))
	if a.Workload, a.WorkloadUID, err = c.Workloads.Of(ctx, pod); err != nil {
		return a, true, err
	}
	if request.Policy != networkv1alpha1.ReleaseWithPod {
		if a.Limit, a.Limited, err = c.Workloads.Limit(ctx, a.Workload); err != nil {
			return a, true, err
		}
	}
	namespace := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}}
	if err := c.Client.Get(ctx, types.NamespacedName{Name: pod.Namespace}, namespace); client.IgnoreNotFound(err) != nil {
		return a, true, err
	}
	a.NamespaceLabels = namespace.Labels
	return a, true, nil
}

// Claim gives a pod its addresses on a node. It writes the FloatingIPs that differ. has are the addresses at the pod's port.
// The error is a *floating.UnavailableError if no address is free now. Claim releases the addresses that a bound pod had on
// other nodes. A pod that is not bound keeps them, because another process may bind the pod there.
func (c *Claimer) Claim(ctx context.Context, pod *corev1.Pod, node floating.Node, has []netip.Addr) ([]netip.Addr, error) {
	if err := c.Load(ctx); err != nil {
		return nil, err
	}
	requester, ok, err := c.Requester(ctx, pod)
	if err != nil || !ok {
		return nil, err
	}
	requester.Has = has
	if err := c.recall(ctx, pod); err != nil {
		return nil, err
	}
	for {
		choices, err := c.Book.Reserve(requester, node)
		if err != nil {
			return nil, err
		}
		again, err := c.write(ctx, requester, node, choices)
		if err == nil && !again && pod.Spec.NodeName != "" {
			again, err = c.releaseExtra(ctx, requester.UID, choices)
		}
		c.Book.Done(requester.UID, choices)
		if err != nil {
			return nil, fmt.Errorf("IPPool %s: %w", requester.Request.Pool, err)
		}
		if !again {
			return addressesOf(choices), nil
		}
	}
}

func addressesOf(choices []floating.Choice) (addresses []netip.Addr) {
	for _, c := range choices {
		addresses = append(addresses, c.Address)
	}
	return addresses
}

// write writes the choices. again is true if another process wrote first. The book then has the other process's write.
func (c *Claimer) write(ctx context.Context, requester floating.Requester, node floating.Node, choices []floating.Choice) (
	again bool, err error,
) {
	for _, choice := range choices {
		want := floating.Claimed(choice, requester, node.Name, metav1.NewTime(c.Now()))
		c.Book.Place(want)
		if choice.IsHeld(requester.UID) {
			// A FloatingIP of an earlier version lacks the label. It matters for pools of Networks.
			placed := want.Labels[networkv1alpha1.PoolNetworkLabel] == choice.Had.Labels[networkv1alpha1.PoolNetworkLabel]
			if placed && same(choice.Had.Spec.Holder, want.Spec.Holder) {
				continue
			}
			want.Spec.Holder.Since = choice.Had.Spec.Holder.Since
		}
		if choice.Had == nil {
			err = c.Client.Create(ctx, want)
		} else {
			err = c.Client.Update(ctx, want)
		}
		if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return true, c.refresh(ctx, want)
		}
		if err != nil {
			return false, err
		}
		c.Book.Observe(want)
	}
	return false, nil
}

// releaseExtra releases a pod's addresses besides the choices: addresses that another process gave the pod at the same time,
// or that the pod got on another node before it was bound.
func (c *Claimer) releaseExtra(ctx context.Context, pod types.UID, choices []floating.Choice) (again bool, err error) {
	for _, f := range c.Book.Extra(pod, choices) {
		after := floating.Ended(f, floating.Dropped(f), metav1.NewTime(c.Now()))
		err := c.Client.Update(ctx, after)
		switch {
		case apierrors.IsConflict(err), apierrors.IsNotFound(err):
			return true, c.refresh(ctx, f)
		case err != nil:
			return false, err
		}
		c.Book.Observe(after)
	}
	return false, nil
}

// same reports whether a holder is as wanted. The node of a pod may be known later than its address.
func same(have, want *networkv1alpha1.FloatingIPHolder) bool {
	a, b := *have, *want
	a.Since, b.Since = metav1.Time{}, metav1.Time{}
	ttl := func(d *metav1.Duration) time.Duration {
		if d == nil {
			return 0
		}
		return d.Duration
	}
	equal := ttl(a.TTL) == ttl(b.TTL)
	a.TTL, b.TTL = nil, nil
	return equal && a == b
}

// refresh brings what the API server has of a FloatingIP into the book.
func (c *Claimer) refresh(ctx context.Context, of *networkv1alpha1.FloatingIP) error {
	var now networkv1alpha1.FloatingIP
	err := c.Live.Get(ctx, client.ObjectKeyFromObject(of), &now)
	if apierrors.IsNotFound(err) {
		c.Book.Forget(of)
		return nil
	}
	if err == nil {
		c.Book.Observe(&now)
	}
	return err
}

// Held returns the addresses that a pod has, of the pools of a location.
func (c *Claimer) Held(pod types.UID, location networkv1alpha1.IPPoolLocation) (addresses []netip.Addr) {
	for _, f := range c.Book.Of(pod) {
		pool, _, ok := c.Book.Pool(f.Spec.Pool)
		if address, err := netip.ParseAddr(string(f.Spec.Address)); err == nil && ok && pool.Location == location {
			addresses = append(addresses, address)
		}
	}
	return slices.Clip(addresses)
}
