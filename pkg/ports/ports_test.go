package ports_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/weft-network/weft/pkg/ports"
)

// probed maps workloads to the port that their probes must call.
var probed = map[string]int{"weft-operator": ports.OperatorHealth, "weft-agent": ports.AgentHealth, "weft-operands": ports.OperandsHealth,
	"weft-extender": ports.ExtenderHealth, "weft-api": ports.APIHealth}

// manifests returns the manifests that are applied: the sources and the generated files.
func manifests(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, pattern := range []string{"config/*/*.yaml", "dist/*.yaml"} {
		matched, err := filepath.Glob("../../" + pattern)
		if err != nil || len(matched) == 0 {
			t.Fatalf("%s: %d files: %v", pattern, len(matched), err)
		}
		files = append(files, matched...)
	}
	return files
}

// The kubelet probes each program at the port where it listens.
func TestManifestsProbeTheProgramsPorts(t *testing.T) {
	found := map[string]bool{}
	for _, file := range manifests(t) {
		for _, object := range read(t, file) {
			for _, port := range probePorts(object.Object) {
				name := object.GetName()
				found[name] = true
				if port != probed[name] {
					t.Errorf("%s: %s %s is probed at port %d, its program listens at %d", file, object.GetKind(), name, port, probed[name])
				}
			}
		}
	}
	for name := range probed {
		if !found[name] {
			t.Errorf("no manifest probes %s", name)
		}
	}
}

func read(t *testing.T, file string) (objects []unstructured.Unstructured) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		var object unstructured.Unstructured
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		objects = append(objects, object)
	}
}

// probePorts returns the ports of all probes below a value.
func probePorts(value any) (found []int) {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			if key != "httpGet" && key != "tcpSocket" {
				found = append(found, probePorts(inner)...)
			} else if action, ok := inner.(map[string]any); ok {
				port, _ := action["port"].(float64) // from JSON; a named port is not a number
				found = append(found, int(port))
			}
		}
	case []any:
		for _, inner := range value {
			found = append(found, probePorts(inner)...)
		}
	}
	return found
}

var remote = regexp.MustCompile(`^ssl:.*:(\d+)$`)

// The ConfigMap for databases outside Weft uses Weft's own ports.
func TestSampleHasTheDatabasesPorts(t *testing.T) {
	want := map[string]int{"nb": ports.Northbound, "sb": ports.SouthboundReader, "ovnRemote": ports.Southbound}
	objects := read(t, "../../config/samples/weft-ovn.yaml")
	data, _, err := unstructured.NestedStringMap(objects[0].Object, "data")
	if err != nil || objects[0].GetKind() != "ConfigMap" {
		t.Fatalf("%v: %v", objects[0].GetKind(), err)
	}
	for key, value := range data {
		if port := remote.FindStringSubmatch(value); port != nil && port[1] != strconv.Itoa(want[key]) {
			t.Errorf("%s is %s, want port %d", key, value, want[key])
		}
	}
}
