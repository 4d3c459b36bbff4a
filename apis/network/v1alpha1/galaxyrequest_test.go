package v1alpha1

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// podWith returns a pod with annotations, which requests Galaxy's resource if a quantity is given.
func podWith(annotations map[string]string, quantity string) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Annotations = annotations
	pod.Spec.Containers = []corev1.Container{{Name: "sidecar"}, {Name: "c"}}
	if quantity != "" {
		pod.Spec.Containers[1].Resources.Requests = corev1.ResourceList{GalaxyResource: resource.MustParse(quantity)}
	}
	return pod
}

func requestText(r FloatingRequest, ok bool, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case ok:
		return fmt.Sprint(r.Pool, " ", r.Count, " ", r.Ranges, " ", r.Policy, " ", r.TTL)
	}
	return "none"
}

func TestRequestsInTheFormatOfGalaxy(t *testing.T) {
	const pool, policy, args = GalaxyPoolAnnotation, GalaxyPolicyAnnotation, GalaxyArgsAnnotation
	const written = `{"request_ip_range":[["192.0.2.10~192.0.2.19","192.0.2.30"],["192.0.2.40"]],` +
		`"common":{"ipinfos":[{"ip":"192.0.2.12/24","vlan":2,"gateway":"192.0.2.1"},{"ip":"192.0.2.40/24","vlan":2,"gateway":"192.0.2.1"}]}}`
	for _, c := range []struct {
		quantity    string
		annotations map[string]string
		want        string
	}{
		{"1", nil, "galaxy 1 [] Pod 0s"},
		{"0", nil, "none"},
		{"", map[string]string{pool: "web"}, "web 1 [] Pod 0s"},
		{"1", map[string]string{pool: " web "}, "web 1 [] Pod 0s"},
		{"1", map[string]string{pool: ""}, "galaxy 1 [] Pod 0s"},
		{"", map[string]string{pool: ""}, "none"},
		{"1", map[string]string{policy: ""}, "galaxy 1 [] Pod 0s"},
		{"1", map[string]string{policy: "immutable"}, "galaxy 1 [] Immutable 0s"},
		{"1", map[string]string{policy: "never", pool: "web"}, "web 1 [] Never 0s"},
		{"", map[string]string{policy: "never"}, "none"},
		{"1", map[string]string{args: written}, "galaxy 2 [[192.0.2.10-192.0.2.19 192.0.2.30] [192.0.2.40]] Pod 0s"},
		{"", map[string]string{args: written}, "galaxy 2 [["},
		{"", map[string]string{args: `{"common":{"ipinfos":[{"ip":"192.168.0.68/26","vlan":2,"gateway":"192.168.0.65"}]}}`},
			"galaxy 1 [[192.168.0.68]] Pod 0s"},
		{"", map[string]string{args: `{"common":{"ipinfos":[{"ip":"2001:db8::5"}]}}`}, "galaxy 1 [[2001:db8::5]] Pod 0s"},
		{"", map[string]string{args: `{"common":{}}`}, "none"},
		{"1", map[string]string{args: `{"request_ip_range":[]}`}, "galaxy 1 [] Pod 0s"},
		{"", map[string]string{args: ""}, "none"},
		{"1", map[string]string{args: `{"common":{"portmapping":[1]},"galaxy-k8s-vlan":{"x":"y"}}`}, "galaxy 1 [] Pod 0s"},

		{"", map[string]string{args: `{"request_ip_range":`}, "annotation k8s.v1.cni.galaxy.io/args: not a JSON object"},
		{"", map[string]string{args: `[["192.0.2.1"]]`}, "annotation k8s.v1.cni.galaxy.io/args: not a JSON object"},
		{"", map[string]string{args: `{"request_ip_range":["192.0.2.1"]}`}, "annotation k8s.v1.cni.galaxy.io/args: not a JSON object"},
		{"", map[string]string{args: `{"request_ip_range":[["192.0.2.9~192.0.2.1"]]}`}, "args: request_ip_range[0]: range"},
		{"", map[string]string{args: `{"request_ip_range":[[],["x"]]}`}, `args: request_ip_range[1]: ParseAddr("x")`},
		{"", map[string]string{args: `{"common":{"ipinfos":[{"ip":"192.0.2.1/24"},{}]}}`}, `args: common.ipinfos[1].ip: "" is not an address`},
		{"", map[string]string{args: `{"common":{"ipinfos":[{"ip":"127.0.0.1/8"}]}}`}, "args: common.ipinfos[0].ip: 127.0.0.1 is not a unicast"},
		{"", map[string]string{args: `{"request_ip_range":[` + strings.Repeat("[],", 16) + `[]]}`}, "17 addresses; 1 to 16 are possible"},
		{"1", map[string]string{policy: "always"}, `annotation k8s.v1.cni.galaxy.io/release-policy: "always" is not a release policy`},
	} {
		if got := requestText(FloatingRequestOf(podWith(c.annotations, c.quantity))); !strings.Contains(got, c.want) {
			t.Errorf("resource %q, %v: %s, want %s", c.quantity, c.annotations, got, c.want)
		}
	}
}

// Both formats together are one request. Where they differ, the error names both annotations.
func TestBothFormatsTogether(t *testing.T) {
	const ranges = `[["192.0.2.10-192.0.2.19"]]`
	const args = `{"request_ip_range":[["192.0.2.10~192.0.2.19"]]}`
	for _, c := range []struct {
		annotations map[string]string
		want        string
	}{
		{map[string]string{IPPoolAnnotation: "web", GalaxyPolicyAnnotation: "never"}, "web 1 [] Never 0s"},
		{map[string]string{IPPoolAnnotation: "web", GalaxyPoolAnnotation: "web"}, "web 1 [] Pod 0s"},
		{map[string]string{IPCountAnnotation: "2", GalaxyPoolAnnotation: "web"}, "web 2 [] Pod 0s"},
		{map[string]string{IPTTLAnnotation: "1h", GalaxyArgsAnnotation: args}, "galaxy 1 [[192.0.2.10-192.0.2.19]] Pod 1h0m0s"},
		{map[string]string{IPPoolAnnotation: "web", IPRangesAnnotation: ranges, GalaxyArgsAnnotation: args, IPCountAnnotation: "1"},
			"web 1 [[192.0.2.10-192.0.2.19]] Pod 0s"},
		{map[string]string{IPPoolAnnotation: "web", ReleasePolicyAnnotation: "Never", GalaxyPolicyAnnotation: "never"}, "web 1 [] Never 0s"},
		{map[string]string{IPPoolAnnotation: "web"}, "web 1 [] Pod 0s"},
		{map[string]string{"example.com/other": "x"}, "none"},

		{map[string]string{IPPoolAnnotation: "web", GalaxyPoolAnnotation: "db"},
			`annotation network.weft.dev/ip-pool is "web", but annotation tke.cloud.tencent.com/eni-ip-pool is "db": remove one`},
		{map[string]string{IPPoolAnnotation: "web", ReleasePolicyAnnotation: "Pod", GalaxyPolicyAnnotation: "never"},
			`annotation network.weft.dev/ip-release-policy is "Pod", but annotation k8s.v1.cni.galaxy.io/release-policy is "never": remove one`},
		{map[string]string{IPPoolAnnotation: "web", IPRangesAnnotation: `[["192.0.2.10"]]`, GalaxyArgsAnnotation: args},
			`annotation network.weft.dev/ip-ranges is "[[\"192.0.2.10\"]]", but annotation k8s.v1.cni.galaxy.io/args is`},
		{map[string]string{IPPoolAnnotation: "web", IPCountAnnotation: "2", GalaxyArgsAnnotation: args},
			`annotation network.weft.dev/ip-count is "2", but annotation k8s.v1.cni.galaxy.io/args is`},
		{map[string]string{IPPoolAnnotation: "", GalaxyPoolAnnotation: "db"}, `annotation network.weft.dev/ip-pool is "", but`},
		{map[string]string{IPCountAnnotation: "2", GalaxyPolicyAnnotation: "never"}, "annotation network.weft.dev/ip-count: it needs"},
	} {
		if got := requestText(FloatingRequestOf(podWith(c.annotations, ""))); !strings.HasPrefix(got, c.want) {
			t.Errorf("%v: %s, want %s", c.annotations, got, c.want)
		}
	}
}

// FuzzGalaxyRequest checks that any text of Galaxy's annotations is a request within its limits, or an error that names
// an annotation.
func FuzzGalaxyRequest(f *testing.F) {
	f.Add("web", "never", `{"request_ip_range":[["192.0.2.10~192.0.2.19"]],"common":{"ipinfos":[{"ip":"192.0.2.12/24"}]}}`, "")
	f.Add("", "immutable", `{"common":{"ipinfos":[{"ip":"192.0.2.12/24","vlan":2,"gateway":"192.0.2.1"}]}}`, `[["192.0.2.12"]]`)
	f.Add(" ", "", `{"common":null,"request_ip_range":null}`, "")
	f.Add("x", "Never", `{"request_ip_range":[null,[""]]}`, "[]")
	f.Add("x", "", `{"common":{"ipinfos":"[]"}}`, "")
	f.Add("x", "", `null`, "")
	f.Fuzz(func(t *testing.T, pool, policy, args, ranges string) {
		annotations := map[string]string{GalaxyPoolAnnotation: pool, GalaxyPolicyAnnotation: policy, GalaxyArgsAnnotation: args}
		if ranges != "" {
			annotations[IPRangesAnnotation] = ranges
		}
		r, ok, err := FloatingRequestOf(podWith(annotations, "1"))
		switch {
		case err != nil && !strings.HasPrefix(err.Error(), "annotation "):
			t.Fatalf("%v: error %v", annotations, err)
		case err == nil && !ok:
			t.Fatalf("%v: a pod that requests the resource requests no address", annotations)
		case err == nil:
			if len(r.Ranges) == 0 { // any address of the pool
				r.Ranges = make([][]AddressRange, r.Count)
			}
			checkRequest(t, r)
		}
	})
}
