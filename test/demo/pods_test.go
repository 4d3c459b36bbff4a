package demo

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

func object(name, node string, ready corev1.ConditionStatus, ips ...string) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: node}}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	for _, ip := range ips {
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: ip})
	}
	return p
}

func TestPodsAreTheReadyOnesByNode(t *testing.T) {
	leaving := object("web-old", "n1", corev1.ConditionTrue, "10.0.0.9")
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	text, err := json.Marshal(corev1.PodList{Items: []corev1.Pod{
		object("web-b", "n1", corev1.ConditionTrue, "10.0.1.4", "fd00::1:4"), leaving,
		object("web-a", "n2", corev1.ConditionTrue, "10.0.2.3", "fd00::2:3"),
		object("web-new", "n1", corev1.ConditionFalse),
		object("client-a", "n1", corev1.ConditionTrue, "fd00::1:3", "10.0.1.3"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := parsePods(text)
	if err != nil {
		t.Fatal(err)
	}
	want := []Pod{pod("client-a", "n1", "fd00::1:3", "10.0.1.3"), pod("web-b", "n1", "10.0.1.4", "fd00::1:4"),
		pod("web-a", "n2", "10.0.2.3", "fd00::2:3")}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(want[0].Addresses[0])); diff != "" {
		t.Error(diff)
	}
	if a := got[0].address(IPv4).String(); a != "10.0.1.3" {
		t.Errorf("IPv4 address %s", a)
	}
}

func TestManifestPutsThreePodsOnEachNode(t *testing.T) {
	text, err := manifest(3)
	if err != nil {
		t.Fatal(err)
	}
	replicas := map[string]int32{}
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		var d appsv1.Deployment
		if err := decoder.Decode(&d); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		switch d.Kind {
		case "Namespace":
			if d.Name != Namespace || d.Annotations[networkv1alpha1.PodRecordAnnotation] != "true" {
				t.Errorf("namespace %s with %v", d.Name, d.Annotations)
			}
		case "Deployment":
			replicas[d.Name] = *d.Spec.Replicas
			if d.Namespace != Namespace || d.Spec.Selector.MatchLabels["app"] != d.Spec.Template.Labels["app"] ||
				len(d.Spec.Template.Spec.TopologySpreadConstraints) != 1 {
				t.Errorf("%+v", d)
			}
		}
	}
	if diff := cmp.Diff(map[string]int32{"web": 6, "client": 3}, replicas); diff != "" {
		t.Error(diff)
	}
}

func TestRecordHasThePodsAddresses(t *testing.T) {
	record := func(addresses string) string {
		return `{"version":"v1","networks":[{"name":"default","default":true,"interface":"eth0",` +
			`"interfaceID":"demo_web-a","podUID":"u","macAddress":"0a:58:0a:f4:01:03","addresses":[` + addresses +
			`],"mtu":1442}]}`
	}
	web := three()[0]
	if err := checkRecord(record(`"fd00::1:3/64","10.244.1.3/24"`), web); err != nil {
		t.Error(err)
	}
	for name, text := range map[string]string{
		"one lacks":   record(`"10.244.1.3/24"`),
		"another":     record(`"10.244.1.4/24","fd00::1:3/64"`),
		"no record":   "",
		"not a VIF":   "{}",
		"no address":  record(``),
		"unparseable": record(`"10.244.1.3"`),
	} {
		if err := checkRecord(text, web); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
