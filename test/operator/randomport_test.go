package operator

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/topology"
)

// mapping returns a pod with the port TCP 80 that requests random host ports.
func mapping(name, node string) *corev1.Pod {
	p := pod(name, node)
	p.Annotations = map[string]string{networkv1alpha1.RandomHostPortsAnnotation: "true"}
	p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80}}
	return p
}

// gives writes a pod's host port as the agent of its node does.
func (w *world) gives(p *corev1.Pod, port uint16) {
	w.Helper()
	text, err := networkv1alpha1.MarshalHostPorts([]networkv1alpha1.HostPort{{Protocol: "TCP", ContainerPort: 80, HostPort: port}})
	w.must(err)
	patch(w, p, func(p *corev1.Pod) { p.Annotations[networkv1alpha1.HostPortsAnnotation] = text })
}

// hasPorts waits until a pod's port has these host ports and requests, and the pod has that many balancers.
func (w *world) hasPorts(p *corev1.Pod, host, random string, balancers int) {
	w.Helper()
	w.until(func() error {
		port, err := w.findPort(p)
		if err != nil {
			return err
		}
		have := 0
		for _, row := range w.selectRows()[nbdb.LoadBalancerTable] {
			if slices.Contains(row["external_ids"], "weft.dev/unit=pod/default/"+p.Name) {
				have++
			}
		}
		ids := port.ExternalIDs
		if ids[ovnexpr.HostPortsKey] != host || ids[ovnexpr.RandomHostPortsKey] != random || have != balancers {
			return fmt.Errorf("pod %s: %v and %d balancers, want host ports %q, requests %q and %d balancers", p.Name, ids, have, host,
				random, balancers)
		}
		return nil
	})
}

// A pod's random host ports follow the agent's record, are the same after a restart, which writes nothing, and go with
// the pod. A pod that names such a port waits for it.
func TestRandomHostPorts(t *testing.T) {
	const request, at20000 = "tcp/:0/80", "tcp/:20000/80"
	w := newWorld(t)
	o := w.start()
	cn := w.network(entry("10.244.0.0/16", 24), entry("fd00:10:244::/48", 64))
	w.join("n1", "n2")
	if got := w.nodeNetwork("n1").Spec.HostPorts.Range; got != networkv1alpha1.DefaultHostPortRange {
		t.Errorf("the default range is %q", got)
	}
	w.change(cn, func(spec *networkv1alpha1.ClusterNetworkSpec) { spec.HostPorts.Range = "20000-20009" })
	w.until(func() error {
		if got := w.nodeNetwork("n1").Spec.HostPorts.Range; got != "20000-20009" {
			return fmt.Errorf("the range is %q", got)
		}
		return nil
	})
	web, elsewhere := mapping("web", "n1"), mapping("elsewhere", "n2")
	w.run(web, elsewhere)
	w.hasPorts(web, "", request, 0)
	w.gives(web, 20000)
	w.gives(elsewhere, 20000)
	w.hasPorts(web, at20000, request, 2)
	w.hasPorts(elsewhere, at20000, request, 2)

	named := pod("named", "n1")
	named.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 20000}}
	w.run(named)
	w.says(w.event("named", "ReservedHostPort"), "host port TCP/20000 is the random host port of pod default/web")
	w.hasPorts(named, "", "", 0)

	bad := mapping("bad", "n1")
	bad.Annotations[networkv1alpha1.RandomHostPortsAnnotation] = `["https"]`
	w.run(bad)
	w.says(w.event("bad", "InvalidHostPort"), "annotation network.weft.dev/random-host-ports", `element "https"`, "no container")
	w.noPort(bad)
	w.delete(bad)

	o.settle()
	o.stop()
	before := w.dump()
	o = w.start()
	extra := w.port(w.create("n1", "extra")[0]) // shows that the operator works
	for _, p := range []*corev1.Pod{web, elsewhere, named} {
		w.until(func() error {
			if !o.engine.Wanted(topology.PodKey(p.Namespace, p.Name)) {
				return fmt.Errorf("pod %s was not compared", p.Name)
			}
			return nil
		})
	}
	o.settle()
	if got := o.transactions(); got != 1 {
		t.Errorf("the restart made %d transactions besides the new pod's", got-1)
	}
	if after := without(w.dump(), extra); !slices.Equal(before, after) {
		t.Errorf("rows differ:\n%s", difference(before, after))
	}
	if writes := o.writes("/pods/"); len(writes) > 0 {
		t.Errorf("the restart wrote %v", writes)
	}

	w.gives(web, 20001) // its sandbox was replaced while a process of the node had the former port
	w.hasPorts(web, "tcp/:20001/80", request, 2)
	w.hasPorts(named, at20000, "", 2)
	w.delete(named)
	w.gives(web, 20000)
	w.hasPorts(web, at20000, request, 2)
	again := pod("again", "n1")
	again.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 20000}}
	w.run(again)
	w.hasPorts(again, "", "", 0)
	w.delete(web)
	w.hasPorts(again, at20000, "", 2)
}

// A pod takes no host port from another pod of its node that kubelet started before, whatever it names as hostIP, and gets the port when
// the other has ended. An init container, whose ports Kubernetes does not reserve, gets no host port.
func TestAHostPortIsOnePods(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.network(entry("10.244.0.0/16", 24), entry("fd00:10:244::/48", 64))
	w.join("n1")
	naming := func(name, ip string) *corev1.Pod {
		p := pod(name, "n1")
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080, HostIP: ip}}
		return p
	}
	const mapped = "tcp/:8080/80"
	init := pod("init", "n1")
	init.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "none", Ports: naming("", "").Spec.Containers[0].Ports}}
	w.run(init)
	w.hasPorts(init, "", "", 0)
	web := naming("web", "0.0.0.0")
	w.run(web)
	w.hasPorts(web, mapped, "", 2)
	patch := client.MergeFrom(web.DeepCopy())
	web.Status.StartTime = new(metav1.Now())
	w.must(api.Status().Patch(w.Context(), web, patch)) // as kubelet does
	other := naming("a", "::")                          // an earlier name than the other's
	w.run(other)
	w.says(w.event("a", "ReservedHostPort"), "host port TCP/8080 is the host port of pod default/web")
	w.hasPorts(other, "", "", 0)
	w.hasPorts(web, mapped, "", 2)
	w.delete(web)
	w.hasPorts(other, mapped, "", 2)
}
