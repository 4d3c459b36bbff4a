package ui

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

func podAt(name, ip string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}}
	p.Status.Phase, p.Status.PodIPs = corev1.PodRunning, []corev1.PodIP{{IP: ip}}
	return p
}

// A slow browser gets the last state of each row, and rows that did not change are not sent.
func TestASlowBrowserGetsTheLastState(t *testing.T) {
	h := newHub(time.Now)
	pods := newFeeds(h)[0]
	s, _ := h.subscribe()
	for _, p := range []*corev1.Pod{podAt("a", "10.0.0.1"), podAt("a", "10.0.0.2"), podAt("b", "10.0.0.3")} {
		_ = pods.Add(p)
	}
	_ = pods.Delete(podAt("b", ""))
	events := h.take(s)
	if len(events) != 1 || events[0].name != "change" {
		t.Fatalf("%+v", events)
	}
	change, ok := events[0].data.(changeEvent)
	if !ok || len(change.Put) != 1 || !cmp.Equal(change.Drop, []string{"Pod/demo/b"}) {
		t.Errorf("%+v", change)
	}
	if row, ok := change.Put["Pod/demo/a"].(podRow); !ok || row.Interfaces[0].Addresses[0] != "10.0.0.2" {
		t.Errorf("%+v", change.Put)
	}
	beat := podAt("a", "10.0.0.2")
	beat.Annotations = map[string]string{"heartbeat": "1"}
	_ = pods.Update(beat)
	if events := h.take(s); len(events) != 0 {
		t.Errorf("an equal row is sent: %+v", events)
	}
}

// A list that lacks an object removes its row. A table is ready when all of its feeds have read.
func TestReplace(t *testing.T) {
	h := newHub(time.Now)
	feeds := newFeeds(h)
	_ = feeds[0].Add(podAt("gone", "10.0.0.1"))
	s, _ := h.subscribe()
	_ = feeds[0].Replace([]any{podAt("new", "10.0.0.2")}, "2")
	events := h.take(s)
	if len(events) != 2 || events[1].name != "state" || !events[1].data.(tableEvent).Ready {
		t.Errorf("%+v", events)
	}
	for _, f := range feeds {
		if f.table == "policies" {
			if h.tables["policies"].state().Ready {
				t.Errorf("policies are ready before %s", f.kind)
			}
			_ = f.Replace(nil, "1")
		}
	}
	if !h.tables["policies"].state().Ready {
		t.Error("policies are not ready")
	}
}

// A pod's interfaces come from its record, from its addresses, and from other plugins.
func TestInterfaces(t *testing.T) {
	plain := podAt("web", "10.244.1.3")
	plain.Annotations = map[string]string{"k8s.v1.cni.cncf.io/network-status": `[
		{"name":"weft","interface":"eth0","mac":"02:00:00:00:00:01","ips":["10.244.1.3"]},
		{"name":"demo/macvlan","interface":"net1","mac":"02:00:00:00:00:09","ips":["192.168.1.5"]},
		{"name":"demo/fast","interface":"net2","mac":"0a:58:0a:64:00:07","ips":["10.100.0.7"]}]`}
	networkOf := func(definition string) string { return map[string]string{"demo/fast": "blue"}[definition] }
	recorded := podAt("web", "10.244.1.3")
	recorded.Annotations = map[string]string{networkv1alpha1.PodNetworksAnnotation: `{"version":"v1","networks":[{
		"name":"default","default":true,"interface":"eth0",
		"interfaceID":"demo_web","podUID":"u","macAddress":"0a:58:0a:f4:01:03","addresses":["10.244.1.3/24"],"mtu":1400}]}`}
	onHost := podAt("agent", "172.18.0.2")
	onHost.Spec.HostNetwork = true
	ended := podAt("job", "10.244.1.3")
	ended.Status.Phase = corev1.PodSucceeded
	eth0 := interfaceRow{"default", "eth0", []string{"10.244.1.3"}, "0a:58:0a:f4:01:03", "demo_web"}
	reported := eth0
	reported.MAC = "02:00:00:00:00:01"
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want []interfaceRow
	}{
		"derived":  {podAt("web", "10.244.1.3"), []interfaceRow{eth0}},
		"recorded": {recorded, []interfaceRow{eth0}},
		"reported": {plain, []interfaceRow{reported, {"demo/macvlan", "net1", []string{"192.168.1.5"}, "02:00:00:00:00:09", ""},
			{"blue", "net2", []string{"10.100.0.7"}, "0a:58:0a:64:00:07", "blue_demo_web_net2"}}},
		"on host": {onHost, []interfaceRow{{"the node's", "host", []string{"172.18.0.2"}, "", ""}}},
		"waiting": {&corev1.Pod{}, []interfaceRow{}},
		"ended":   {ended, []interfaceRow{}},
	} {
		if diff := cmp.Diff(test.want, interfacesOf(test.pod, networkOf)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// A condition of Weft that fails is the state of its pod.
func TestPodState(t *testing.T) {
	p := podAt("web", "10.244.1.3")
	p.Status.Conditions = []corev1.PodCondition{{Type: networkv1alpha1.PodHostPortsReady,
		Status: corev1.ConditionFalse, Message: "port 80 is taken"}}
	if row := podRowOf(p, func(string) string { return "" }); row.State != "HostPortsReady is false" || row.Message != "port 80 is taken" {
		t.Errorf("%+v", row)
	}
}
