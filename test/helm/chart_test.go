package helm

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"sigs.k8s.io/yaml"
)

const root = "../.."

// render renders the chart by Helm's own code, without a cluster, and returns the objects by kind, namespace and name.
func render(t *testing.T, values map[string]any) map[string]map[string]any {
	t.Helper()
	chart, err := loader.LoadDir(filepath.Join(root, Folder))
	if err != nil {
		t.Fatal(err)
	}
	install := action.NewInstall(&action.Configuration{})
	install.DryRun, install.ClientOnly, install.IncludeCRDs = true, true, true
	install.ReleaseName, install.Namespace = "weft", "kube-system"
	install.KubeVersion = &chartutil.KubeVersion{Version: "v1.33.0", Major: "1", Minor: "33"}
	release, err := install.Run(chart, values)
	if err != nil {
		t.Fatal(err)
	}
	return objects(t, []byte(release.Manifest))
}

// objects reads a stream of objects. Two objects of one name are an error.
func objects(t *testing.T, text []byte) map[string]map[string]any {
	t.Helper()
	found := map[string]map[string]any{}
	for _, document := range bytes.Split(append([]byte("\n"), text...), []byte("\n---\n")) {
		var tree map[string]any
		if err := yaml.Unmarshal(document, &tree); err != nil {
			t.Fatalf("%v:\n%s", err, document)
		}
		if len(tree) == 0 {
			continue
		}
		metadata, _ := tree["metadata"].(map[string]any)
		namespace, _ := metadata["namespace"].(string)
		name, _ := metadata["name"].(string)
		kind, _ := tree["kind"].(string)
		key := kind + " " + namespace + "/" + name
		if found[key] != nil {
			t.Errorf("%s is there twice", key)
		}
		found[key] = tree
	}
	return found
}

func installed(t *testing.T) map[string]map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "dist", "install.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return objects(t, text)
}

// TestDefaultsAreTheInstallation compares the chart without values with dist/install.yaml, object by object.
func TestDefaultsAreTheInstallation(t *testing.T) {
	want, have := installed(t), render(t, nil)
	if a, b := slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(have)); !slices.Equal(a, b) {
		t.Errorf("dist/install.yaml has %v, the chart %v", a, b)
	}
	for key := range want {
		if !reflect.DeepEqual(want[key], have[key]) {
			t.Errorf("%s differs", key)
		}
	}
}

// TestValues renders the chart with every value changed. All else must be as in dist/install.yaml.
func TestValues(t *testing.T) {
	spec := map[string]any{"clusterNetwork": []any{map[string]any{"cidr": "10.244.0.0/16"}}, "serviceNetwork": []any{"10.96.0.0/12"}}
	have := render(t, map[string]any{"image": "registry.example.com/weft:1", "imagePullPolicy": "Always",
		"namespace": map[string]any{"name": "net", "create": false}, "apiServer": map[string]any{"host": "2001:db8::1", "port": 8443},
		"clusterNetwork": spec})
	text, err := os.ReadFile(filepath.Join(root, "dist", "install.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.NewReplacer("weft-system", "net", "image: weft:dev", "image: registry.example.com/weft:1",
		"imagePullPolicy: IfNotPresent", "imagePullPolicy: Always").Replace(string(text))
	want := objects(t, []byte(changed))
	delete(want, "Namespace /net")
	want["ConfigMap net/weft-apiserver"] = map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "weft-apiserver", "namespace": "net"}, "data": map[string]any{"host": "2001:db8::1", "port": "8443"}}
	want["ClusterNetwork /default"] = map[string]any{"apiVersion": "network.weft.dev/v1alpha1", "kind": "ClusterNetwork",
		"metadata": map[string]any{"name": "default", "annotations": map[string]any{"helm.sh/resource-policy": "keep"}}, "spec": spec}
	if a, b := slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(have)); !slices.Equal(a, b) {
		t.Errorf("want %v, the chart has %v", a, b)
	}
	for key := range want {
		if !reflect.DeepEqual(want[key], have[key]) {
			t.Errorf("%s is\n%v\nwant\n%v", key, have[key], want[key])
		}
	}
}

// TestWrongValuesAreRefused renders the chart with values that it does not know.
func TestWrongValuesAreRefused(t *testing.T) {
	chart, err := loader.LoadDir(filepath.Join(root, Folder))
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []map[string]any{{"images": "x"}, {"namespace": map[string]any{"nam": "x"}},
		{"apiServer": map[string]any{"port": 0}},
		{"image": ""}, {"imagePullPolicy": "Sometimes"}} {
		values, err := chartutil.CoalesceValues(chart, wrong)
		if err != nil {
			t.Fatal(err)
		}
		if chartutil.ValidateAgainstSchema(chart, values) == nil {
			t.Errorf("%v is accepted", wrong)
		}
	}
}

// TestLint runs helm lint.
func TestLint(t *testing.T) {
	result := lint.All(filepath.Join(root, Folder), nil, "kube-system", true)
	for _, message := range result.Messages {
		if message.Severity > support.InfoSev {
			t.Error(message)
		}
	}
}

// TestChartIsFresh compares the chart with what make generate writes.
func TestChartIsFresh(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "dist", "install.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := Files(text)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		have, err := os.ReadFile(filepath.Join(root, Folder, name))
		if err != nil || !bytes.Equal(have, want) {
			t.Errorf("%s is stale: run make generate (%v)", name, err)
		}
	}
}
