package ui

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cniv1beta1 "github.com/weft-network/weft/apis/cni/v1beta1"
	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// groups are the API groups of apis/: folder -> group.
var groups = map[string]struct {
	version schema.GroupVersion
	add     func(*runtime.Scheme) error
}{
	"network/v1alpha1": {networkv1alpha1.GroupVersion, networkv1alpha1.AddToScheme},
	"cni/v1beta1":      {cniv1beta1.GroupVersion, cniv1beta1.AddToScheme},
}

// Every kind of apis/ is a row of a table, and the browser shows every table.
func TestEveryKindIsShown(t *testing.T) {
	folders, err := filepath.Glob("../../../apis/*/*")
	if err != nil || len(folders) != len(groups) {
		t.Errorf("apis has %v, error %v; this test knows %d groups", folders, err, len(groups))
	}
	kinds, err := os.ReadFile("web/kinds.js")
	if err != nil {
		t.Fatal(err)
	}
	feeds := newFeeds(newHub(time.Now))
	shown := map[string]*feed{}
	for _, f := range feeds {
		for _, name := range f.tables() {
			if name != "" && !regexp.MustCompile(`(?m)^  `+name+`: \{$`).Match(kinds) {
				t.Errorf("web/kinds.js has no table %s", name)
			}
		}
		if f.table != "" && f.row != nil {
			shown[f.kind] = f
		}
	}
	for folder, group := range groups {
		scheme := runtime.NewScheme()
		if err := group.add(scheme); err != nil {
			t.Fatal(err)
		}
		for kind, is := range scheme.KnownTypes(group.version) {
			if _, ok := reflect.New(is).Interface().(client.Object); !ok {
				continue // a list, or options of requests
			}
			f := shown[kind]
			if f == nil {
				t.Errorf("apis/%s: no view shows the kind %s", folder, kind)
				continue
			}
			if row := reflect.TypeOf(f.row(f.one)); row == nil || row.Kind() != reflect.Struct {
				t.Errorf("the row of kind %s is %v", kind, row)
			}
		}
	}
}

// The zones of a ClusterNetwork are rows of their own, which are removed with the zone.
func TestZonesAreRows(t *testing.T) {
	h := newHub(atNoon)
	f := feedOf(t, newFeeds(h), "ClusterNetwork")
	c := &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	c.Spec.Zones = []networkv1alpha1.Zone{{Name: "east", NodeSelector: map[string]string{"zone": "east"}}, {Name: "west"}}
	c.Status.Zones = []networkv1alpha1.ZoneStatus{{Name: "east", Node: "n1", Ready: true}, {Name: "west", Message: "its node is lost"}}
	_ = f.Replace([]any{c}, "1")
	rows := h.tables["zones"].rows
	want := map[string]any{
		"Zone/east": zoneRow{Name: "east", State: "Ready", Selector: "zone=east", Node: "n1", Addresses: []string{}},
		"Zone/west": zoneRow{Name: "west", State: "Not ready", Message: "its node is lost", Selector: "<none>", Addresses: []string{}},
	}
	if diff := cmp.Diff(want, rows); diff != "" || !h.tables["zones"].state().Ready {
		t.Error(diff)
	}
	one := c.DeepCopy()
	one.Spec.Zones = one.Spec.Zones[:1]
	_ = f.Update(one)
	if len(rows) != 1 {
		t.Errorf("rows %v", rows)
	}
}

// A pod's interface has its Network and logical port as soon as the definition is read, also after the pod.
func TestDefinitionsExplainInterfaces(t *testing.T) {
	h := newHub(atNoon)
	feeds := newFeeds(h)
	p := podAt("web", "10.244.1.3")
	p.Annotations = map[string]string{nadv1.NetworkStatusAnnot: `[{"name":"demo/fast","interface":"net1","mac":"0a:58:0a:64:00:07",
		"ips":["10.100.0.7"]}]`}
	_ = feedOf(t, feeds, "Pod").Replace([]any{p}, "1")
	nad := &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "fast"},
		Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: `{"type":"weft-cni","network":"blue"}`}}
	_ = feedOf(t, feeds, "NetworkAttachmentDefinition").Replace([]any{nad}, "1")
	row, ok := h.tables["pods"].rows["Pod/demo/web"].(podRow)
	if want := (interfaceRow{"blue", "net1", []string{"10.100.0.7"}, "0a:58:0a:64:00:07", "blue_demo_web_net1"}); !ok ||
		!cmp.Equal(row.Interfaces[1], want) {
		t.Errorf("interfaces %+v", row.Interfaces)
	}
	if len(h.log) != 0 {
		t.Errorf("the log has %v", h.texts())
	}
}

// Around a pod is what selects it, and around a service or a policy is what it selects.
func TestAround(t *testing.T) {
	s := newTested(Cluster{})
	web, other, onHost := podAt("web", "10.0.0.1"), podAt("other", "10.0.0.2"), podAt("host", "172.18.0.2")
	for _, p := range []*corev1.Pod{web, onHost} {
		p.Labels = map[string]string{"app": "web"}
	}
	onHost.Spec.HostNetwork = true
	app := metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	in, selected := metav1.ObjectMeta{Namespace: "demo", Name: "web"}, []string{"EgressIP/team", "NetworkPolicy/demo/web", "Service/demo/web"}
	egress := &networkv1alpha1.EgressIP{ObjectMeta: metav1.ObjectMeta{Name: "team"}}
	egress.Spec.NamespaceSelector.MatchLabels = map[string]string{"team": "a"}
	for kind, objects := range map[string][]any{
		"Namespace": {&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo", Labels: map[string]string{"team": "a"}}}},
		"Pod":       {web, other, onHost},
		"Service": {&corev1.Service{ObjectMeta: in, Spec: corev1.ServiceSpec{Selector: app.MatchLabels}},
			&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "bare"}}},
		"NetworkPolicy":  {&networkingv1.NetworkPolicy{ObjectMeta: in, Spec: networkingv1.NetworkPolicySpec{PodSelector: app}}},
		"EgressIP":       {egress},
		"EgressFirewall": {&networkv1alpha1.EgressFirewall{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "default"}}},
	} {
		_ = feedOf(t, s.feeds, kind).Replace(objects, "1")
	}
	for id, want := range map[string]aroundAnswer{
		"Pod/demo/web":           {Pods: []string{"Pod/demo/web"}, Selectors: selected},
		"Pod/demo/host":          {Pods: []string{"Pod/demo/host"}, Selectors: []string{"Service/demo/web"}},
		"Service/demo/web":       {Pods: []string{"Pod/demo/host", "Pod/demo/web"}, Selectors: []string{"Service/demo/web"}},
		"NetworkPolicy/demo/web": {Pods: []string{"Pod/demo/web"}, Selectors: []string{"NetworkPolicy/demo/web"}},
		"EgressIP/team":          {Pods: []string{"Pod/demo/other", "Pod/demo/web"}, Selectors: []string{"EgressIP/team"}},
	} {
		if got, ok := s.aroundOf(id); !ok || !cmp.Equal(got, want) {
			t.Errorf("%s: %+v", id, got)
		}
	}
	if got, ok := s.aroundOf("Service/demo/bare"); ok || !slices.Equal(got.Pods, []string{}) {
		t.Errorf("a service without a selector has %+v", got)
	}
	key, _ := s.enter(s.Link(address))
	if w := s.get("/api/around?object=Pod/demo/nope", key); w.Code != 404 {
		t.Errorf("a pod that does not exist has code %d", w.Code)
	}
}
