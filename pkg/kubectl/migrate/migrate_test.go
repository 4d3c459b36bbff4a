package migrate

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/weft-network/weft/pkg/manifest"
)

var update = flag.Bool("update", false, "write the golden files")

// read reads the objects of a golden folder.
func read(t *testing.T, folder string) (c Cluster) {
	t.Helper()
	file, err := os.Open(filepath.Join(folder, "objects.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	documents, err := manifest.Read("objects.yaml", file)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range documents {
		c.Objects = append(c.Objects, d.Object)
	}
	return c
}

// TestGolden inspects the objects of each network. testdata/<network> has the objects, the report and the manifests.
func TestGolden(t *testing.T) {
	folders, err := filepath.Glob("testdata/*")
	if err != nil || len(folders) < 5 {
		t.Fatalf("%d folders: %v", len(folders), err)
	}
	for _, folder := range folders {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			in := read(t, folder)
			report := Inspect(in)
			if !strings.EqualFold(report.Source.Network, filepath.Base(folder)) {
				t.Errorf("the network is %q", report.Source.Network)
			}
			everyObjectHasOneOutcome(t, in, report)
			var manifests bytes.Buffer
			for _, m := range report.Manifests {
				text, err := yaml.Marshal(m.Object)
				if err != nil {
					t.Fatal(err)
				}
				manifests.WriteString("---\n# " + m.File + ", from " + strings.Join(m.From, ", ") + "\n" + string(text))
			}
			report.Manifests = nil
			var text bytes.Buffer
			encoder := json.NewEncoder(&text)
			encoder.SetEscapeHTML(false)
			encoder.SetIndent("", "  ")
			if err := encoder.Encode(report); err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join(folder, "report.json"), text.Bytes())
			golden(t, filepath.Join(folder, "manifests.yaml"), manifests.Bytes())
		})
	}
}

func golden(t *testing.T, name string, have []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, have, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if difference := cmp.Diff(string(want), string(have)); difference != "" {
		t.Errorf("%s: -want +have (-update writes it)\n%s", name, difference)
	}
}

// everyObjectHasOneOutcome checks that each object of a network's own kinds is in exactly one entry.
func everyObjectHasOneOutcome(t *testing.T, in Cluster, r Report) {
	t.Helper()
	entries, counted := map[string]int{}, map[string]int64{}
	for _, e := range r.Objects {
		entries[e.Object]++
		counted[strings.TrimSuffix(e.Object, " *")] = e.Count
		if outcomeIsUnknown(e.Outcome) {
			t.Errorf("%s has outcome %q", e.Object, e.Outcome)
		}
		if (e.Outcome == Translated) != (len(e.To) > 0) && !strings.HasPrefix(e.Object, "Pods of ") {
			t.Errorf("%s is %s, and became %v", e.Object, e.Outcome, e.To)
		}
		if e.Outcome == Cannot && e.Next == "" && !strings.Contains(e.Reason, "annotations") {
			t.Errorf("%s cannot be translated, and no next step is named", e.Object)
		}
	}
	states := map[string]int64{}
	for _, o := range in.Objects {
		k := o.GroupVersionKind().GroupKind()
		if _, is := stateKinds[k]; is {
			states[kindName(k)]++
		} else if !isShared(k) && entries[nameOf(o)] != 1 {
			t.Errorf("%s has %d entries", nameOf(o), entries[nameOf(o)])
		}
	}
	for kind, n := range states {
		if counted[kind] != n {
			t.Errorf("%d of %d %s are counted", counted[kind], n, kind)
		}
	}
}

func outcomeIsUnknown(o Outcome) bool {
	for _, known := range Outcomes {
		if o == known {
			return false
		}
	}
	return true
}

// TestUnknownFieldsAreNamed adds a field to the spec of each object of a golden folder. It must be named, or the object must
// not be translated at all.
func TestUnknownFieldsAreNamed(t *testing.T) {
	folders, _ := filepath.Glob("testdata/*")
	for _, folder := range folders {
		in := read(t, folder)
		for _, o := range in.Objects {
			if k := o.GroupVersionKind().GroupKind(); isShared(k) || k == nadKind {
				continue
			}
			changed := Cluster{}
			for _, other := range in.Objects {
				if other == o {
					other = o.DeepCopy()
					if err := unstructured.SetNestedField(other.Object, "x", "spec", "weftTestUnknown"); err != nil {
						continue
					}
				}
				changed.Objects = append(changed.Objects, other)
			}
			for _, e := range Inspect(changed).Objects {
				if e.Object != nameOf(o) || e.Outcome != Translated {
					continue
				}
				text, _ := json.Marshal(e.Fields)
				if !strings.Contains(string(text), "weftTestUnknown") && !strings.Contains(e.Object, "Vlan") {
					t.Errorf("%s: %s is translated, and its unknown field is not named: %s", folder, e.Object, text)
				}
			}
		}
	}
}

// TestCalicoSelectors parses the forms of Calico's selectors.
func TestCalicoSelectors(t *testing.T) {
	for text, want := range map[string]string{
		"":                       `{}`,
		"all()":                  `{}`,
		"a == 'b'":               `{"matchLabels":{"a":"b"}}`,
		`(a == "b") && (has(c))`: `{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"c","operator":"Exists"}]}`,
		"a != 'b'":               `{"matchExpressions":[{"key":"a","operator":"NotIn","values":["b"]}]}`,
		"a in {'x', 'y'} && !has(z)": `{"matchExpressions":[{"key":"a","operator":"In","values":["x","y"]},` +
			`{"key":"z","operator":"DoesNotExist"}]}`,
		"a not in { 'x' }":                      `{"matchExpressions":[{"key":"a","operator":"NotIn","values":["x"]}]}`,
		"a == '&&)('":                           `{"matchLabels":{"a":"\u0026\u0026)("}}`,
		"projectcalico.org/orchestrator == 'k'": `{}`,
	} {
		s, err := parseCalico(text)
		have, _ := json.Marshal(s.pods)
		if err != nil || string(have) != want {
			t.Errorf("%s: %s, %v; want %s", text, have, err, want)
		}
	}
	for _, text := range []string{"a == 'b' || c == 'd'", "a contains 'b'", "a starts with 'b'", "!(a == 'b')", "pcsa.x == 'y'", "a in {b}",
		"a == 'b' && a == 'c'", "x y z", "a =="} {
		if s, err := parseCalico(text); err == nil {
			t.Errorf("%s is read as %v", text, s.pods)
		}
	}
}

// TestNoNetwork inspects a cluster without a known network.
func TestNoNetwork(t *testing.T) {
	r := Inspect(Cluster{Objects: []*unstructured.Unstructured{{Object: map[string]any{"apiVersion": "v1", "kind": "Node",
		"metadata": map[string]any{"name": "n1"}}}}})
	if r.Source.Network != "" || len(r.Manifests) != 0 {
		t.Errorf("report is %+v", r)
	}
}
