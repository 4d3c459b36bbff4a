package networks_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"pgregory.net/rapid"

	"github.com/weft-network/weft/pkg/networks"
)

func parse(text string) ([]networks.Request, error) {
	return networks.Parse(map[string]string{networks.Annotation: text}, "demo")
}

func TestBothFormsOfTheAnnotation(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{" ", ""},
		{"blue", "demo/blue@net1"},
		{"blue, other/green@data , red", "demo/blue@net1 other/green@data demo/red@net3"},
		{`[{"name":"blue"},{"name":"green","namespace":"other","interface":"data"}]`, "demo/blue@net1 other/green@data"},
		{`[{"name":"blue","ips":["10.1.0.5","fd00::5/64"],"mac":"02:00:00:00:00:05","default-route":["10.1.0.1"]}]`,
			"demo/blue@net1 10.1.0.5/32,fd00::5/64 02:00:00:00:00:05 10.1.0.1"},
		{`[]`, ""},
		{"galaxy-flannel", ""},
		{"galaxy-k8s-vlan,galaxy-k8s-sriov", ""},
		{"galaxy-flannel@eth0, blue,tke-route-eni", "demo/blue@net1"},
		{`[{"name":"galaxy-k8s-vlan"},{"name":"blue"}]`, "demo/blue@net1"},
		{"demo/galaxy-k8s-vlan, galaxy-own", "demo/galaxy-k8s-vlan@net1 demo/galaxy-own@net2"},
	} {
		requests, err := parse(c.text)
		var got []string
		for _, r := range requests {
			text := r.String()
			if len(r.Addresses) > 0 {
				text = fmt.Sprintf("%s %s,%s %s %s", text, r.Addresses[0], r.Addresses[1], r.MAC, r.DefaultRoute[0])
			}
			got = append(got, text)
		}
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, %v, want %q", c.text, got, err, c.want)
		}
	}
}

func TestBadElementsAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		`[{"name":"blue","mac":"02:00"}]`:                                    `element 0 "demo/blue": mac "02:00"`,
		`[{"name":"blue","mac":"01:00:00:00:00:05"}]`:                        `mac "01:00:00:00:00:05"`,
		`[{"name":"blue"},{"name":"green","ips":["10.1.0.500"]}]`:            `element 1 "demo/green": ips: "10.1.0.500"`,
		`[{"name":"blue","ips":["fe80::1%eth0"]}]`:                           `"fe80::1%eth0"`,
		`[{"name":"blue","interface":"eth0"}]`:                               "interface eth0 is already of the cluster network",
		`[{"name":"blue","interface":"a"},{"name":"green","interface":"a"}]`: "interface a is already of demo/blue",
		`[{"name":"blue","interface":"net2"},{"name":"green"}]`:              "interface net2 is already of demo/blue",
		`[{"name":"blue","interface":"a/b"}]`:                                `interface "a/b" is not a name of a link`,
		`[{"name":"blue","interface":"all"}]`:                                `interface "all" is a name that the kernel reserves`,
		`[{"name":"blue"},{"name":"green","interface":"default"}]`:           `interface "default" is a name that the kernel reserves`,
		`[{"name":"blue","interface":"bonding_masters"}]`:                    `interface "bonding_masters" is a name that the kernel reserves`,
		`[{"name":"blue","interface":"eth1:0"}]`:                             `interface "eth1:0" is not a name of a link`,
		`[{"name":"blue","interface":"net%d"}]`:                              `interface "net%d" is not a name of a link`,
		`[{"name":"blue","interface":" "}]`:                                  `interface " " is not a name of a link`,
		`[{"name":"blue","interface":"größe"}]`:                              "is not a name of a link",
		`[{"name":"blue","interface":"a\u007f"}]`:                            "is not a name of a link",
		`[{"name":"blue","interface":"a\u0001"}]`:                            "is not a name of a link",
		"blue@all": `interface "all" is a name that the kernel reserves`,
		`[{"name":"blue","interface":"sixteencharacter"}]`: "longer than 15",
		`[{"name":"Blue"}]`:                   `name "Blue"`,
		`[{"name":""}]`:                       `name ""`,
		`[{"name":"blue","namespace":"a_b"}]`: `namespace "a_b"`,
		`[null]`:                              "element 0 is null",
		`{"name":"blue"}`:                     "annotation k8s.v1.cni.cncf.io/networks",
		`[{"name":"blue"`:                     "annotation k8s.v1.cni.cncf.io/networks",
		`[{"name":"blue","default-route":["10.1.0.1"]},{"name":"green","default-route":["10.2.0.1"]}]`: "default-route 10.2.0.1",
		`[{"name":"blue","portMappings":[{"hostPort":70000,"containerPort":80}]}]`:                     "portMappings",
		`[{"name":"blue","bandwidth":{"ingressRate":-1}}]`:                                             "negative limit",
	} {
		if requests, err := parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v, want an error with %q", text, requests, err, want)
		}
	}
}

// A request's hash changes with every field, and with nothing else.
func TestHash(t *testing.T) {
	const base = `{"name":"blue","interface":"net1"}`
	hashOf := func(element string) string {
		requests, err := parse("[" + element + "]")
		if err != nil {
			t.Fatal(err)
		}
		return requests[0].Hash()
	}
	if hashOf(base) != hashOf(`{"namespace":"demo","name":"blue"}`) {
		t.Error("the default interface name and namespace make another hash")
	}
	seen := map[string]string{hashOf(base): base}
	for _, field := range []string{`"ips":["10.1.0.5"]`, `"mac":"02:00:00:00:00:05"`, `"interface":"net2"`,
		`"namespace":"other"`, `"bandwidth":{"ingressRate":1000}`,
		`"cni-args":{"a":"b"}`, `"default-route":["10.1.0.1"]`, `"ipam-claim-reference":"c"`,
		`"portMappings":[{"hostPort":1,"containerPort":2}]`} {
		var object map[string]any
		if err := json.Unmarshal([]byte(`{"name":"blue",`+field+`}`), &object); err != nil {
			t.Fatal(err)
		}
		element, _ := json.Marshal(object)
		hash := hashOf(string(element))
		if other, same := seen[hash]; same {
			t.Errorf("%s has the hash of %s", field, other)
		}
		seen[hash] = field
	}
}

func TestDefinitions(t *testing.T) {
	for text, want := range map[string]string{
		networks.ConfigOf("blue"): "blue <nil>",
		`{"name":"x","plugins":[{"type":"weft-cni","network":"blue"}]}`: "blue <nil>",
		`{"name":"x","type":"macvlan"}`:                                 " <nil>",
		``:                                                              " <nil>",
		`{"name":"x","type":"weft-cni"}`:                                "cluster <nil>",
		`{"name":"x","plugins":[{"type":"bridge"},{"type":"weft-cni","network":"blue"}]}`: "comes first",
		`{"name":"x","plugins":[{"type":"weft-cni","network":"blue"},{"type":"tuning"}]}`: "chained",
		`{"name":"x"}`: "has no type",
		`{`:            "NetworkAttachmentDefinition demo/x: spec.config",
	} {
		nad := &nadv1.NetworkAttachmentDefinition{Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: text}}
		nad.Namespace, nad.Name = "demo", "x"
		d, err := networks.ParseDefinition(nad)
		if d.Cluster {
			d.Network = "cluster"
		}
		if got := fmt.Sprint(d.Network, " ", err); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// A definition that cannot be requested beside the cluster network says why.
func TestDefinitionsForOtherInterfaces(t *testing.T) {
	for config, want := range map[string]string{
		`{"name":"x","type":"weft-cni"}`: "of the cluster network",
		networks.ConfigOf("blue"):        "Network blue has no devices",
		`{"name":"x","type":"macvlan"}`:  "",
	} {
		nad := &nadv1.NetworkAttachmentDefinition{Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: config}}
		nad.Annotations = map[string]string{networks.ResourceAnnotation: "example.com/vf"}
		d, err := networks.ParseDefinition(nad)
		if err == nil {
			err = d.Secondary()
		}
		if got := fmt.Sprint(err); d.Resource != "example.com/vf" || !strings.Contains(got, want) || (want == "") != (err == nil) {
			t.Errorf("%s: %s, want %q", config, got, want)
		}
	}
}

// Whatever an annotation holds, either it is refused or each request has a unique interface that the kernel takes.
func TestAnyAnnotation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z/@, ]{0,30}`),
			rapid.StringMatching(`\[(\{"name":"[a-z]{0,3}","interface":"[a-z0-9/.]{0,17}","ips":\["[0-9.:a-f/]{0,9}"\]\},?){0,3}\]`),
		).Draw(t, "annotation")
		requests, err := parse(text)
		seen := map[string]bool{"eth0": true, "lo": true}
		for _, r := range requests {
			if err == nil && (seen[r.Interface] || r.Interface == "" || len(r.Interface) > 15 || r.Element.Namespace == "") {
				t.Fatalf("%q gives %v", text, r)
			}
			seen[r.Interface] = true
		}
	})
}
