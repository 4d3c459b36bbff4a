package networks_test

import (
	"strings"
	"testing"

	"github.com/weft-network/weft/pkg/networks"
)

func TestTheDefinitionOfEth0(t *testing.T) {
	for text, want := range map[string]string{
		"":                  "/",
		"weft":              "kube-system/weft",
		"demo/weft":         "demo/weft",
		`[{"name":"weft"}]`: "kube-system/weft",
		`[{"name":"weft","interface":"eth0","namespace":"demo"}]`: "demo/weft",
	} {
		name, ok, err := networks.DefaultDefinition(map[string]string{networks.DefaultAnnotation: text})
		if err != nil || name.String() != want || ok != (text != "") {
			t.Errorf("%s: %s, %t, %v, want %s", text, name, ok, err, want)
		}
	}
	for text, want := range map[string]string{
		"a, b":                                 "2 definitions",
		`[{"name":"weft","ips":["10.0.0.5"]}]`: "network.weft.dev/",
		`[{"name":"weft","mac":"02:00:00:00:00:01"}]`:     "network.weft.dev/",
		`[{"name":"weft","interface":"net1"}]`:            `interface "net1"`,
		`[{"name":"weft","bandwidth":{"ingressRate":1}}]`: "no request besides",
		"[null]": "element 0 is null",
		"A":      "mismatch @ 'A'",
	} {
		_, ok, err := networks.DefaultDefinition(map[string]string{networks.DefaultAnnotation: text})
		if !ok || err == nil || !strings.Contains(err.Error(), "annotation v1.multus-cni.io/default-network: ") ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %t, %v, want %q", text, ok, err, want)
		}
	}
}

// The node notices each change of what a pod requests.
func TestGenerations(t *testing.T) {
	seen := map[string]bool{}
	for _, annotations := range []map[string]string{nil, {networks.Annotation: "a"}, {networks.DefaultAnnotation: "a"},
		{networks.Annotation: "a", networks.DefaultAnnotation: "a"}, {networks.Annotation: "a", networks.DefaultAnnotation: "b"}} {
		generation := networks.Generation(annotations)
		if seen[generation] || (generation == "") != (annotations == nil) {
			t.Errorf("%v has the generation %q", annotations, generation)
		}
		seen[generation] = true
	}
}
