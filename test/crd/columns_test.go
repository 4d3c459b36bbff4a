package crd

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/weft-network/weft/apis/network/v1alpha1"
)

// columns returns the single row that kubectl get would print, by column; a wide column has a "*" after its name.
func columns(ctx context.Context, plural string) (map[string]string, error) {
	table, err := getTable(ctx, plural)
	if err != nil {
		return nil, err
	}
	if len(table.Rows) != 1 {
		return nil, fmt.Errorf("%d rows of %s, want 1", len(table.Rows), plural)
	}
	cells := map[string]string{} // column -> cell
	for i, column := range table.ColumnDefinitions {
		name := column.Name
		if column.Priority > 0 {
			name += "*"
		}
		cells[name] = fmt.Sprint(table.Rows[0].Cells[i])
	}
	return cells, nil
}

func getTable(ctx context.Context, plural string) (*metav1.Table, error) {
	config := rest.CopyConfig(restConfig)
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, err
	}
	text, err := client.Get().AbsPath("/apis", v1alpha1.GroupVersion.String(), plural).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	table := &metav1.Table{}
	return table, json.Unmarshal(text, table)
}

func wantColumns(t *testing.T, plural string, want map[string]string) {
	t.Helper()
	got, err := columns(t.Context(), plural)
	if err != nil {
		t.Fatal(err)
	}
	// The age depends on the test's speed, but it must exist.
	if _, there := got["Age"]; !there {
		t.Error("no column Age")
	}
	delete(got, "Age")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestClusterNetworkColumns(t *testing.T) {
	network := minimalClusterNetwork()
	create(t, network)
	network.Status = fullClusterNetworkStatus()
	if err := api.Status().Update(t.Context(), network); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"Name": "default", "Ready": "True", "Removing": "<nil>", "Nodes": "2/2", "Free-IPs": "10.244.0.0/16: 65000", "MTU": "1400",
		"Message*": "2 nodes are ready",
	}
	wantColumns(t, "clusternetworks", want)
	network.Status.Conditions = append(network.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionRemoving,
		Status: metav1.ConditionTrue,
		Reason: v1alpha1.ReasonPodsRemain, LastTransitionTime: metav1.Now()})
	if err := api.Status().Update(t.Context(), network); err != nil {
		t.Fatal(err)
	}
	want["Removing"] = v1alpha1.ReasonPodsRemain
	wantColumns(t, "clusternetworks", want)
}

func TestNodeNetworkColumns(t *testing.T) {
	node := &v1alpha1.NodeNetwork{
		ObjectMeta: metav1.ObjectMeta{Name: "worker"},
		Spec: v1alpha1.NodeNetworkSpec{NodeID: 7, PodSubnets: []v1alpha1.CIDR{"10.244.7.0/24", "fd00:10:244:7::/64"},
			Zone: "east"},
	}
	create(t, node)
	node.Status = fullNodeNetworkStatus()
	if err := api.Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	wantColumns(t, "nodenetworks", map[string]string{
		"Name": "worker", "Ready": "True", "ID": "7", "Subnets": `["10.244.7.0/24","fd00:10:244:7::/64"]`, "Free": "250",
		"Zone*": "east", "Chassis*": "0d9c2d0e-1bd4-4a29-9cf4-6d1c1c26d0f7", "Message*": "the node's network works",
	})
}

// A column shows the whole list: the API server prints only the first value that a path with [*] selects.
func TestNoColumnShowsTheFirstOfAList(t *testing.T) {
	paths, err := filepath.Glob("../../config/crd/bases/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(text, &crd); err != nil {
			t.Fatal(err)
		}
		for _, version := range crd.Spec.Versions {
			for _, column := range version.AdditionalPrinterColumns {
				if strings.Contains(column.JSONPath, "[*]") {
					t.Errorf("%s: column %s has the path %s", crd.Name, column.Name, column.JSONPath)
				}
			}
		}
	}
}
