//go:build e2e

package cni

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/test/poll"
	"github.com/weft-network/weft/test/sandbox"
)

const (
	plugNetwork = "bench-plug"
	// plugged is the address of the pod that answers on the Network.
	plugged = "10.102.0.200"
	// plugPods is the number of pods that are plugged in turn.
	plugPods = 4
	// appears bounds the time until an object or a status appears on a busy machine.
	appears = 90 * time.Second
)

// TestHotPlug measures from the change of a running pod's annotation until another pod answers through the new interface, and until
// network-status names it. An ordinary pod's ADD is measured between two changes.
func TestHotPlug(t *testing.T) {
	b := open(t)
	b.createNetwork()
	b.attach("plug-peer", `[{"name":"`+plugNetwork+`","ips":["`+plugged+`"]}]`)
	var running []*runningPod
	for i := range plugPods {
		running = append(running, b.attach(fmt.Sprint("plug-", i), ""))
	}
	ordinary := b.park("ordinary", 1)[0]
	whole, created := series{name: "ADD"}, series{name: "creation until the end of ADD"}
	answers, status, gone := series{name: "the interface answers"}, series{name: "network-status has it"}, series{name: "unplugged again"}
	for i := range min(*adds, 100) {
		add, del := b.call(weft(), ordinary)
		whole.took = append(whole.took, b.run(add)...)
		b.run(del)
		b.end(add)
		created.took = append(created.took, b.created(fmt.Sprint("plug-created-", i)))
		p := running[i%len(running)]
		answered, published := p.plug(b)
		answers.took, status.took = append(answers.took, answered), append(status.took, published)
		gone.took = append(gone.took, p.unplug(b))
	}
	fmt.Printf("\nload average %s\n", loadAverage())
	printTable("ordinary pod", whole, created)
	printTable("from annotation", answers, status, gone)
}

// createNetwork creates the Network that pods are plugged into, and waits for its definition.
func (b *bench) createNetwork() {
	b.t.Helper()
	n := &networkv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Name: plugNetwork}, Spec: networkv1alpha1.NetworkSpec{
		Topology: networkv1alpha1.TopologyLayer2, Subnets: []networkv1alpha1.NetworkSubnet{{CIDR: "10.102.0.0/24"}},
		Namespaces: &metav1.LabelSelector{}}}
	must(b.t, b.API.Create(b.t.Context(), n))
	b.t.Cleanup(func() { // refused while the status still counts the pods that were just removed
		ctx := context.Background()
		must(b.t, poll.Slowly(ctx, appears, func() error { return client.IgnoreNotFound(b.API.Delete(ctx, n)) }))
	})
	must(b.t, poll.Slowly(b.t.Context(), appears, func() error {
		return b.API.Get(b.t.Context(), client.ObjectKey{Namespace: b.Namespace, Name: plugNetwork}, &nadv1.NetworkAttachmentDefinition{})
	}))
}

// runningPod is a pod with a sandbox, which has its interfaces.
type runningPod struct {
	pod   *corev1.Pod
	netNS string
}

// attach creates a pod with an annotation and its sandbox, and runs its ADD.
func (b *bench) attach(name, annotation string) *runningPod {
	b.t.Helper()
	pod := b.Parked(name, node)
	if annotation != "" {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, networks.Annotation, annotation)
	}
	b.t.Cleanup(func() { must(b.t, b.Remove(context.Background(), pod)) })
	must(b.t, b.Park(b.t.Context(), pod))
	add, del := b.call(weft(), pod)
	b.run(add)
	b.t.Cleanup(func() {
		_, err := b.sandboxes.Call(context.Background(), del)
		must(b.t, err)
		must(b.t, b.sandboxes.Destroy(context.Background(), add.ContainerID))
	})
	return &runningPod{pod: pod, netNS: add.NetNS}
}

// plug requests the Network, and returns the times until its interface answers and until network-status has it.
func (p *runningPod) plug(b *bench) (answered, published time.Duration) {
	b.t.Helper()
	const ifName = "net1"
	var at time.Time
	reached := make(chan error, 1)
	go func() {
		err := b.sandboxes.Reach(b.t.Context(), sandbox.Reach{NetNS: p.netNS, IfName: ifName, To: plugged})
		at = time.Now()
		reached <- err
	}()
	start, published := p.change(b, plugNetwork, func(status []nadv1.NetworkStatus) bool {
		return len(status) == 2 && status[1].Interface == ifName && len(status[1].IPs) == 1
	})
	must(b.t, <-reached)
	return at.Sub(start), published
}

// unplug requests nothing, and returns the time until network-status has the default network alone.
func (p *runningPod) unplug(b *bench) time.Duration {
	b.t.Helper()
	_, took := p.change(b, "", func(status []nadv1.NetworkStatus) bool { return len(status) < 2 })
	return took
}

// change writes a pod's annotation, and returns when it began to and the time until network-status is done.
func (p *runningPod) change(b *bench, annotation string, done func([]nadv1.NetworkStatus) bool) (start time.Time, took time.Duration) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), appears)
	defer cancel()
	must(b.t, b.API.Get(ctx, client.ObjectKeyFromObject(p.pod), p.pod))
	events, err := b.API.Watch(ctx, &corev1.PodList{}, &client.ListOptions{Namespace: p.pod.Namespace,
		FieldSelector: fields.OneTermEqualSelector("metadata.name", p.pod.Name),
		Raw:           &metav1.ListOptions{ResourceVersion: p.pod.ResourceVersion}})
	must(b.t, err)
	defer events.Stop()
	before := p.pod.DeepCopy()
	metav1.SetMetaDataAnnotation(&p.pod.ObjectMeta, networks.Annotation, annotation)
	start = time.Now()
	must(b.t, b.API.Patch(ctx, p.pod, client.MergeFrom(before)))
	for event := range events.ResultChan() {
		pod, ok := event.Object.(*corev1.Pod)
		if !ok || pod.Annotations[networks.Annotation] != annotation {
			continue
		}
		var status []nadv1.NetworkStatus
		text := pod.Annotations[nadv1.NetworkStatusAnnot]
		if text != "" && json.Unmarshal([]byte(text), &status) == nil && done(status) {
			return start, time.Since(start)
		}
	}
	b.t.Fatalf("network-status of pod %s does not follow annotation %q", p.pod.Name, annotation)
	return start, 0
}
