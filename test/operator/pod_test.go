package operator

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// names returns "prefix-0", "prefix-1" and so on.
func names(prefix string, n int) []string {
	made := make([]string, n)
	for i := range made {
		made[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	return made
}

// patch changes an object with a merge patch.
func patch[T client.Object](w *world, object T, change func(T)) {
	w.Helper()
	before := client.MergeFrom(object.DeepCopyObject().(T))
	change(object)
	w.must(api.Patch(w.Context(), object, before))
}

func TestPodsOfAFullNode(t *testing.T) {
	w := newWorld(t)
	o := w.start()
	w.network(dualStack()...)
	w.join("n1")
	subnets := w.nodeNetwork("n1").Spec.PodSubnets
	pods := w.create("n1", names("p", 60)...)
	seen := map[netip.Addr]string{}
	onSwitch := []string{}
	for _, pod := range pods {
		port := w.port(pod)
		onSwitch = append(onSwitch, port.UUID)
		addresses := w.addresses(port)
		for i, address := range addresses {
			if other, taken := seen[address]; taken {
				t.Errorf("pods %s and %s both have %s", other, pod.Name, address)
			}
			seen[address] = pod.Name
			if !netip.MustParsePrefix(string(subnets[i])).Contains(address) {
				t.Errorf("pod %s has %s, which is not in %s", pod.Name, address, subnets[i])
			}
		}
	}
	if len(seen) != 2*60 {
		t.Errorf("%d addresses, want 60 of each family", len(seen))
	}
	have := w.onSwitch("n1")
	for _, uuid := range onSwitch {
		if !slices.Contains(have, uuid) {
			t.Errorf("port %s is not on the switch", uuid)
		}
	}

	late := w.create("n1", "late")[0]
	w.says(w.event("late", "FailedAddressAllocation"), string(subnets[0]), "60")
	o.settle()
	if _, err := w.findPort(late); !errors.Is(err, errAbsent) {
		t.Errorf("pod late: %v, want no port", err)
	}
	w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
		if len(s.Addresses) != 2 || s.Addresses[0].Used != 60 || s.Addresses[0].Free != 1024*60-60 {
			return fmt.Errorf("addresses are %+v", s.Addresses)
		}
		return nil
	})

	freed := w.addresses(w.port(pods[7]))[0]
	w.delete(pods[7])
	if got := w.addresses(w.port(late))[0]; got != freed {
		t.Errorf("pod late has %s, want %s that was freed", got, freed)
	}
	writes := slices.DeleteFunc(o.writes("/pods"), func(write string) bool { // its condition, while it waits, and the end of it
		return strings.Contains(write, "/late/status ") && strings.Contains(write, string(networkv1alpha1.PodRequestsGranted))
	})
	if len(writes) != 0 {
		t.Errorf("ordinary pods cost API writes: %v", writes)
	}
	for _, pod := range pods[:5] {
		var now corev1.Pod
		w.must(api.Get(t.Context(), keyOf(pod), &now))
		if now.ResourceVersion != pod.ResourceVersion {
			t.Errorf("pod %s was written", pod.Name)
		}
	}
}

func TestPodsWithoutAPort(t *testing.T) {
	w := newWorld(t)
	o := w.start()
	w.network(dualStack()...)
	w.join("n1")
	host := pod("host", "n1")
	host.Spec.HostNetwork = true
	unscheduled := pod("unscheduled", "")
	elsewhere := pod("elsewhere", "n2") // its Node does not exist
	w.run(host, unscheduled, elsewhere)
	ordinary := w.create("n1", "ordinary")[0]
	w.port(ordinary) // created last
	o.settle()
	if ports := w.podPorts(); len(ports) != 1 {
		t.Errorf("%d ports of pods, want only the ordinary pod's", len(ports))
	}

	w.must(api.SubResource("binding").Create(t.Context(), unscheduled,
		&corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "n1"}}))
	w.port(unscheduled)
	w.join("n2")
	w.port(elsewhere)
}

func TestEndedPodGivesItsAddressBack(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.network(dualStack()...)
	w.join("n1")
	pods := w.create("n1", names("p", 60)...)
	for _, pod := range pods {
		w.port(pod)
	}
	waiting := w.create("n1", "waiting-0", "waiting-1")
	w.event("waiting-0", "FailedAddressAllocation")
	w.event("waiting-1", "FailedAddressAllocation")
	for i, phase := range []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed} {
		w.phase(pods[i], phase)
		w.noPort(pods[i])
	}
	for _, pod := range waiting {
		w.port(pod)
	}
}

func TestPodRecreatedUnderItsName(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.network(dualStack()...)
	w.join("n1", "n2")
	for _, move := range []struct{ from, to string }{{"n1", "n1"}, {"n1", "n2"}} {
		name := "from-" + move.from + "-to-" + move.to
		first := w.create(move.from, name)[0]
		before := w.port(first)
		w.delete(first)
		second := w.create(move.to, name)[0]
		after := w.port(second)
		if after.UUID == before.UUID {
			t.Errorf("%s: the new pod has the old port %s", name, after.UUID)
		}
		if old := w.addresses(before)[0]; slices.Contains(w.addresses(after), old) {
			t.Errorf("%s: the new pod immediately has the old address %s", name, old)
		}
		w.until(func() error {
			if on := w.onSwitch(move.to); !slices.Contains(on, after.UUID) || slices.Contains(on, before.UUID) {
				return fmt.Errorf("switch %s has %v", move.to, on)
			}
			return nil
		})
		if ports := w.nb.Ctl("--bare", "--columns=_uuid", "find", "Logical_Switch_Port", "name=default_"+name); ports != after.UUID+"\n" {
			t.Errorf("%s: ports are %q, want %s", name, ports, after.UUID)
		}
		w.delete(second)
		w.noPort(second)
	}
}

func TestMirrorPodHasTheUIDOfItsFile(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.network(dualStack()...)
	w.join("n1")
	mirror := pod("static-n1", "n1")
	mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x", "kubernetes.io/config.hash": "5f2e",
		"kubernetes.io/config.source": "file"}
	plain := pod("plain", "n1")
	plain.Annotations = map[string]string{"kubernetes.io/config.hash": "5f2e"} // any user can set that
	w.run(mirror, plain)
	w.port(plain)
	file := mirror.DeepCopy()
	file.UID = "5f2e"
	w.port(file)
}

func TestPodRecord(t *testing.T) {
	w := newWorld(t)
	o := w.start()
	cn := w.network(dualStack()...)
	w.join("n1")
	w.until(func() error {
		if w.nodeNetwork("n1").Spec.MTU == 0 {
			return errors.New("no MTU yet")
		}
		return nil
	})
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "record-"}}
	w.must(api.Create(t.Context(), namespace))

	recorded := pod("recorded", "n1")
	recorded.Annotations = map[string]string{networkv1alpha1.PodRecordAnnotation: "true"}
	silent, inside := pod("silent", "n1"), pod("inside", "n1")
	inside.Namespace = namespace.Name
	w.run(silent, inside, recorded)
	t.Cleanup(func() { _ = api.Delete(context.Background(), inside, client.GracePeriodSeconds(0)) })

	w.record(recorded)
	w.port(silent)
	w.port(inside)
	o.settle()
	if writes := o.writes("/pods"); len(writes) != 1 {
		t.Errorf("API writes to pods: %v, want one to the pod with the annotation", writes)
	}
	// An annotation added later takes effect on existing pods.
	patch(w, namespace, func(n *corev1.Namespace) {
		n.Annotations = map[string]string{networkv1alpha1.PodRecordAnnotation: "true"}
	})
	w.record(inside)
	if writes := o.writes("/pods"); len(writes) != 2 {
		t.Errorf("API writes to pods: %v, want two", writes)
	}
	w.must(api.Get(t.Context(), keyOf(cn), cn))
	patch(w, cn, func(cn *networkv1alpha1.ClusterNetwork) { cn.Spec.PodRecord = networkv1alpha1.PodRecordAlways })
	w.record(silent)
	if writes := o.writes("/pods"); len(writes) != 3 {
		t.Errorf("API writes to pods: %v, want three", writes)
	}
	if text := w.recordText(silent); strings.Contains(text, "dns") {
		t.Errorf("the record has name servers that were not configured: %s", text)
	}
	patch(w, cn, func(cn *networkv1alpha1.ClusterNetwork) {
		cn.Spec.DNS = networkv1alpha1.DNS{Nameservers: []networkv1alpha1.IP{"10.96.0.10"}, Domain: "cluster.local"}
	})
	w.until(func() error {
		if text := w.recordText(silent); !strings.Contains(text,
			`"dns":{"nameservers":["10.96.0.10"],`+
				`"searches":["default.svc.cluster.local","svc.cluster.local","cluster.local"],"options":["ndots:5"]}`) {
			return fmt.Errorf("the record is %s", text)
		}
		return nil
	})
}

// recordText returns a Pod's present record.
func (w *world) recordText(pod *corev1.Pod) string {
	w.Helper()
	var now corev1.Pod
	w.must(client.IgnoreNotFound(view.Get(context.Background(), keyOf(pod), &now))) // the cache may lag behind
	return now.Annotations[networkv1alpha1.PodNetworksAnnotation]
}

// record waits for a Pod's record and compares it with its port.
func (w *world) record(pod *corev1.Pod) {
	w.Helper()
	port := w.port(pod)
	var text string
	w.until(func() error {
		if text = w.recordText(pod); text == "" {
			return fmt.Errorf("pod %s has no record", pod.Name)
		}
		return nil
	})
	networks, err := networkv1alpha1.ParsePodNetworks(text)
	w.must(err)
	got := networks[0]
	var addresses []netip.Addr
	for _, address := range got.Addresses {
		addresses = append(addresses, address.Addr())
	}
	gateways := w.nodeNetwork(pod.Spec.NodeName).Spec.Gateways
	if len(networks) != 1 || got.PodUID != pod.UID || got.InterfaceID != port.Name || got.MTU != 1500-58 ||
		!slices.Equal(addresses, w.addresses(port)) ||
		len(got.Gateways) != 2 || got.Gateways[0].String() != string(gateways[0]) || got.Gateways[1].String() != string(gateways[1]) {
		w.Errorf("record of pod %s is %s, its port %+v", pod.Name, text, port)
	}
	w.says(port.Addresses[0], got.MACAddress)
}
