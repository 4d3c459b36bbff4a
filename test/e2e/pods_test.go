//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/test/lab"
	"github.com/weft-network/weft/test/poll"
)

// readyTimeout bounds how long a pod may take to be Ready on a busy machine with two cores.
const readyTimeout = 60 * time.Second

const peerPath = "/e2e/peer"

// peerSpec runs the peer program. kubelet's probe of it comes from the host.
func (b *testbed) peerSpec(node string, args ...string) corev1.PodSpec {
	grace, no := int64(1), false
	return corev1.PodSpec{
		NodeName:                      node,
		TerminationGracePeriodSeconds: &grace,
		AutomountServiceAccountToken:  &no,
		EnableServiceLinks:            &no,
		Containers: []corev1.Container{{
			Name: "peer", Image: lab.ProbeRef, Command: append([]string{peerPath, "serve"}, args...),
			VolumeMounts: []corev1.VolumeMount{{Name: "e2e", MountPath: "/e2e", ReadOnly: true}},
			ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
				HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(8080)}}},
		}},
		Volumes: []corev1.Volume{{Name: "e2e",
			VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: b.peerDir}}}},
	}
}

func (b *testbed) peerPod(name, node string, args ...string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: b.peerSpec(node, args...)}
}

func (b *testbed) peerDeployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	d.Spec.Replicas, d.Spec.Selector = &replicas, &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: b.peerSpec("")}
	return d
}

// create creates objects. The test's cleanup removes them and waits until they are gone.
func (b *testbed) create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		must(t, b.api.Create(t.Context(), o))
		t.Cleanup(func() { b.remove(t, o) })
	}
}

// remove deletes an object and waits until it and its pods are gone.
func (b *testbed) remove(t *testing.T, o client.Object) {
	t.Helper()
	ctx := cleanup()
	err := poll.Slowly(ctx, readyTimeout, func() error { // a policy refuses it until the status of a pool counts no address in use
		return client.IgnoreNotFound(b.api.Delete(ctx, o, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	})
	if err != nil {
		t.Error(err)
	}
	err = poll.Slowly(ctx, readyTimeout, func() error {
		if err := b.api.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return client.IgnoreNotFound(err)
		}
		return fmt.Errorf("%T %s still exists", o, o.GetName())
	})
	if err != nil {
		t.Error(err)
	}
}

// removeNow deletes a pod without waiting for its node, which may still try to give it a network.
func (b *testbed) removeNow(t *testing.T, p *corev1.Pod) {
	t.Helper()
	now := int64(0)
	err := b.api.Delete(cleanup(), p, &client.DeleteOptions{GracePeriodSeconds: &now})
	must(t, client.IgnoreNotFound(err))
}

// run creates pods and waits until they are Ready.
func (b *testbed) run(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	for _, p := range pods {
		b.create(t, p)
	}
	for _, p := range pods {
		b.awaitReady(t, p)
	}
}

// awaitReady waits until a pod is Ready and stores its state in p.
func (b *testbed) awaitReady(t *testing.T, p *corev1.Pod) {
	t.Helper()
	eventually(t, readyTimeout, func() error {
		if err := b.api.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		return notReady(p)
	})
}

func notReady(p *corev1.Pod) error {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	waits := ""
	for _, s := range p.Status.ContainerStatuses {
		if s.State.Waiting != nil {
			waits = s.State.Waiting.Reason + " " + s.State.Waiting.Message
		}
	}
	return fmt.Errorf("pod %s/%s on %s is %s and not Ready %s", p.Namespace, p.Name, p.Spec.NodeName, p.Status.Phase, waits)
}

// scale sets a Deployment's replicas.
func (b *testbed) scale(ctx context.Context, name string, replicas int32) error {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	return b.api.Patch(ctx, d, client.RawPatch("application/merge-patch+json", patch))
}

// settled returns nil if a Deployment has the requested number of pods, all Ready, and no terminating pod.
func (b *testbed) settled(ctx context.Context, name string, replicas int) error {
	pods, err := b.pods(ctx, client.InNamespace(namespace), client.MatchingLabels{"app": name})
	if err != nil {
		return err
	}
	var missing error
	for i := range pods {
		missing = errors.Join(missing, notReady(&pods[i]))
	}
	if len(pods) != replicas {
		missing = errors.Join(missing, fmt.Errorf("deployment %s has %d pods, want %d", name, len(pods), replicas))
	}
	return missing
}

func (b *testbed) pods(ctx context.Context, options ...client.ListOption) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := b.api.List(ctx, &list, options...)
	return list.Items, err
}

func addressesOf(p *corev1.Pod) []netip.Addr {
	var addresses []netip.Addr
	for _, ip := range p.Status.PodIPs {
		if a, err := netip.ParseAddr(ip.IP); err == nil {
			addresses = append(addresses, a)
		}
	}
	return addresses
}

func is4(a netip.Addr) bool { return a.Is4() }
func is6(a netip.Addr) bool { return a.Is6() }

// address returns a pod's address of a family.
func address(t *testing.T, p *corev1.Pod, family func(netip.Addr) bool) netip.Addr {
	t.Helper()
	for _, a := range addressesOf(p) {
		if family(a) {
			return a
		}
	}
	t.Fatalf("pod %s has no address of the family: %v", p.Name, p.Status.PodIPs)
	return netip.Addr{}
}

// in runs a program inside a pod, through kubelet and not over the pod network.
func (b *testbed) in(ctx context.Context, p *corev1.Pod, argv ...string) ([]byte, error) {
	return b.Kubectl(ctx, append([]string{"-n", p.Namespace, "exec", p.Name, "--"}, argv...)...)
}

func (b *testbed) mustIn(t *testing.T, p *corev1.Pod, argv ...string) []byte {
	t.Helper()
	out, err := b.in(t.Context(), p, argv...)
	must(t, err)
	return out
}

// getJSON gets a document from a peer, through kubelet.
func getJSON[T any](ctx context.Context, b *testbed, p *corev1.Pod, path string) (document T, err error) {
	out, err := b.in(ctx, p, "wget", "-q", "-O-", "http://127.0.0.1:8080"+path)
	if err != nil {
		return document, err
	}
	return document, json.Unmarshal(out, &document)
}
