package pod

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/kindtest"
)

const (
	asks   = networkv1alpha1.RandomHostPortsAnnotation
	chosen = networkv1alpha1.HostPortsAnnotation
	// at20000 is the record of a pod whose port TCP 80 has the host port 20000.
	at20000 = `[{"protocol":"TCP","containerPort":80,"hostPort":20000}]`
)

// with80 is a change to a pod: a container with the port TCP 80, and annotations (key, value, ...).
func with80(annotations ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		withHostPort(corev1.ContainerPort{ContainerPort: 80})(p)
		annotated(annotations...)(p)
	}
}

// another is the pod demo/other on a node.
func another(node string, change ...func(*corev1.Pod)) *corev1.Pod {
	return aPod(append(change, func(p *corev1.Pod) { p.Name, p.UID, p.Spec.NodeName = "other", "uid-other", node })...)
}

// mapped is the pod's port with the host port 20000, and its balancer.
func mapped() []string {
	return portWith("weft.dev/host-ports:tcp/:20000/80 weft.dev/random-host-ports:tcp/:0/80", v4,
		"LoadBalancer Pod_demo/web_TCP_hostport_template_IPv4 "+
			"external_ids=map[k8s.ovn.org/kind:Pod k8s.ovn.org/owner:demo/web] options=map[address-family:ipv4 "+
			"event:false hairpin_snat_ip:169.254.169.5 fd69::5 neighbor_responder:none reject:true skip_snat:true "+
			"template:true] protocol=tcp vips=map[^NODEIP_IPv4_0:20000:10.244.0.3:80]",
		"Load_Balancer_Group node/n1: load_balancer += Pod_demo/web_TCP_hostport_template_IPv4")
}

func TestReconcileRandomHostPorts(t *testing.T) {
	requested := portWith("weft.dev/random-host-ports:tcp/:0/80", v4)
	refused := func(message string, lines []string) kindtest.Outcome {
		return kindtest.Outcome{Units: applied(lines), Enqueued: counts, Writes: []string{"patch status Pod demo/web"},
			Events: []string{"Warning ReservedHostPort Pod demo/web: " + message}}
	}
	older := func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(kindtest.Start) }
	younger := func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(kindtest.Start.Add(1e9)) }
	for name, c := range map[string]struct {
		objects []client.Object
		want    kindtest.Outcome
	}{
		"a request": {on4(with80(asks, "true")), kindtest.Outcome{Units: applied(requested), Enqueued: counts}},
		"Galaxy's request": {on4(with80(networkv1alpha1.GalaxyPortMappingAnnotation, "")),
			kindtest.Outcome{Units: applied(requested), Enqueued: counts}},
		"no request": {on4(with80(asks, "false")), kindtest.Outcome{Units: applied(port(v4)), Enqueued: counts}},
		"a port": {on4(with80(asks, "true", chosen, at20000)),
			kindtest.Outcome{Units: applied(mapped()), Enqueued: counts}},
		"a port without a request": {on4(with80(chosen, at20000)), kindtest.Outcome{Units: applied(port(v4)), Enqueued: counts}},
		"a request that cannot be read": {on4(with80(asks, `["https"]`)), kindtest.Outcome{Units: applied(nil), Events: []string{
			`Warning InvalidHostPort Pod demo/web: invalid random host ports: annotation network.weft.dev/random-host-ports: ` +
				`element "https": no container of the pod has this port in its ports`}, Writes: []string{"patch status Pod demo/web"}}},
		"a port of a service": {
			append(on4(with80(asks, "true", chosen, at20000)), &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "front"}, Spec: corev1.ServiceSpec{
					ClusterIPs: []string{"10.96.0.10"}, Ports: []corev1.ServicePort{{Port: 80, NodePort: 20000}}}}),
			refused("host port TCP/20000 is the node port of service demo/front", requested)},
		"a reserved port": {
			on4(with80(asks, "true", chosen, `[{"protocol":"TCP","containerPort":80,"hostPort":10250}]`)),
			refused("host port TCP/10250 is reserved for kubelet", requested)},
		"an older pod's port": {
			append(on4(with80(asks, "true", chosen, at20000), younger), another("n1", with80(asks, "true", chosen, at20000), older)),
			refused("host port TCP/20000 is the random host port of pod demo/other", requested)},
		"a younger pod's port": {
			append(on4(with80(asks, "true", chosen, at20000), older), another("n1", with80(asks, "true", chosen, at20000), younger)),
			kindtest.Outcome{Units: applied(mapped()), Enqueued: counts}},
		"a port on another node": {
			append(on4(with80(asks, "true", chosen, at20000), younger), another("n2", with80(asks, "true", chosen, at20000), older)),
			kindtest.Outcome{Units: applied(mapped()), Enqueued: counts}},
		"a port of a pod that has ended": {
			append(on4(with80(asks, "true", chosen, at20000), younger), another("n1", with80(asks, "true", chosen, at20000), older,
				func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })),
			kindtest.Outcome{Units: applied(mapped()), Enqueued: counts}},
		"a port that a pod names": {
			append(on4(withHostPort(corev1.ContainerPort{ContainerPort: 80, HostPort: 20000}), older),
				another("n1", with80(asks, "true", chosen, at20000), younger)),
			refused("host port TCP/20000 is the random host port of pod demo/other", port(v4))},
		"a port that a pod names at the loopback address": {
			append(on4(withHostPort(corev1.ContainerPort{ContainerPort: 80, HostPort: 20000, HostIP: "127.0.0.1"}), older),
				another("n1", with80(asks, "true", chosen, at20000), younger)),
			refused("host port TCP/20000 is the random host port of pod demo/other", port(v4))},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, c.objects...)
			kindtest.Expect(t, c.want, b.Reconcile("demo", "web"))
		})
	}
}

// A pod that keeps its address keeps its port even if its request becomes unreadable, but not its host ports.
func TestARequestThatBecomesUnreadable(t *testing.T) {
	b := newBed(t, on4(with80(asks, "true", chosen, at20000))...)
	b.Reconcile("demo", "web")
	pod := kindtest.Get(b, aPod())
	pod.Annotations[asks] = "yes"
	b.Update(pod)
	have := b.Reconcile("demo", "web")
	if len(have.Events) != 1 || !slices.Equal(have.Units[web], port(v4)) {
		t.Errorf("events %q, unit %q", have.Events, have.Units[web])
	}
}

// Pods that name a port are reconciled when another pod of their node gets or loses it.
func TestAHostPortWakesThePodsThatNameIt(t *testing.T) {
	named := withHostPort(corev1.ContainerPort{ContainerPort: 80, HostPort: 20000})
	b := newBed(t, onNode("10.244.0.0/24"), aPod(named), another("n2", named))
	r, ok := b.Kinds[0].Reconciler.(*Reconciler)
	if !ok {
		t.Fatalf("the reconciler is a %T", b.Kinds[0].Reconciler)
	}
	holder := func(change ...func(*corev1.Pod)) *corev1.Pod {
		return aPod(append(change, func(p *corev1.Pod) { p.Name, p.UID = "holder", "uid-holder" })...)
	}
	started := func(p *corev1.Pod) { p.Status.StartTime = new(metav1.Now()) }
	asked, has := holder(with80(asks, "true")), holder(with80(asks, "true", chosen, at20000))
	ended := holder(with80(asks, "true", chosen, at20000), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
	for name, c := range map[string]struct {
		send func(handler.EventHandler, workqueue.TypedRateLimitingInterface[reconcile.Request])
		want bool
	}{
		"it gets the port": {func(h handler.EventHandler, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			h.Update(t.Context(), event.UpdateEvent{ObjectOld: asked, ObjectNew: has}, q)
		}, true},
		"it ends": {func(h handler.EventHandler, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			h.Update(t.Context(), event.UpdateEvent{ObjectOld: has, ObjectNew: ended}, q)
		}, true},
		"it is deleted": {func(h handler.EventHandler, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			h.Delete(t.Context(), event.DeleteEvent{Object: has}, q)
		}, true},
		"nothing changes": {func(h handler.EventHandler, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			h.Update(t.Context(), event.UpdateEvent{ObjectOld: has, ObjectNew: has}, q)
		}, false},
		"a pod that names it is deleted": {func(h handler.EventHandler, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			h.Delete(t.Context(), event.DeleteEvent{Object: holder(named)}, q)
		}, true},
		"kubelet starts a pod that names it": {func(h handler.EventHandler, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			h.Update(t.Context(), event.UpdateEvent{ObjectOld: holder(named), ObjectNew: holder(named, started)}, q)
		}, true},
		"a pod that names it comes": {func(h handler.EventHandler, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			h.Create(t.Context(), event.CreateEvent{Object: holder(named)}, q)
		}, true},
		"a pod without ports is deleted": {func(h handler.EventHandler, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			h.Delete(t.Context(), event.DeleteEvent{Object: holder()}, q)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer queue.ShutDown()
			c.send(r.yielding(), queue)
			if !c.want {
				if queue.Len() != 0 {
					t.Errorf("%d requests", queue.Len())
				}
				return
			}
			if queue.Len() != 1 {
				t.Fatalf("%d requests, want 1", queue.Len())
			}
			if got, _ := queue.Get(); got.String() != "demo/web" {
				t.Errorf("request %s", got)
			}
		})
	}
}
