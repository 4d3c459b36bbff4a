package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// foreign reads the objects of another network that the tests of pkg/kubectl/migrate have.
func foreign(t *testing.T, network string) (objects []*unstructured.Unstructured) {
	t.Helper()
	text, err := os.ReadFile("../../pkg/kubectl/migrate/testdata/" + network + "/objects.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for documents := yamlutil.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		o := &unstructured.Unstructured{}
		if err := documents.Decode(&o.Object); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, o)
	}
}

// builtIn are the groups that the API server has itself.
var builtIn = []string{"", "apps", "networking.k8s.io"}

// definitions makes CustomResourceDefinitions of the objects' kinds, with any fields.
func definitions(objects []*unstructured.Unstructured) (crds []*apiextensionsv1.CustomResourceDefinition) {
	seen := map[schema.GroupKind]bool{}
	any := true
	for _, o := range objects {
		k := o.GroupVersionKind()
		if slices.Contains(builtIn, k.Group) || seen[k.GroupKind()] {
			continue
		}
		seen[k.GroupKind()] = true
		plural := strings.ToLower(k.Kind) + "s"
		if stem, isY := strings.CutSuffix(strings.ToLower(k.Kind), "cy"); isY {
			plural = stem + "cies"
		}
		scope := apiextensionsv1.ClusterScoped
		if o.GetNamespace() != "" {
			scope = apiextensionsv1.NamespaceScoped
		}
		crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: plural + "." + k.Group,
			Annotations: map[string]string{"api-approved.kubernetes.io": "unapproved"}}}
		crd.Spec = apiextensionsv1.CustomResourceDefinitionSpec{Group: k.Group, Scope: scope,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: k.Kind, ListKind: k.Kind + "List", Plural: plural,
				Singular: strings.ToLower(k.Kind)},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: k.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object",
					XPreserveUnknownFields: &any}}}}}
		crds = append(crds, crd)
	}
	return crds
}

// plant creates the CustomResourceDefinitions and the objects of another network. The test's cleanup removes both.
func plant(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	installed, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{CRDs: definitions(objects)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := envtest.UninstallCRDs(config, envtest.CRDInstallOptions{CRDs: installed}); err != nil {
			t.Error(err)
		}
	})
	for _, o := range objects {
		if o.GetNamespace() != "" {
			namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
			namespace.SetName(o.GetNamespace())
			_ = api.Create(t.Context(), namespace) // it may exist; it stays, because no namespace controller runs here
		}
	}
	for _, o := range objects {
		o := complete(o.DeepCopy())
		if err := api.Create(t.Context(), o); err != nil && o.GetKind() != "Namespace" && o.GetName() != "kubernetes" {
			t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
		if o.GetKind() == "Namespace" || o.GetKind() == "ServiceCIDR" {
			continue
		}
		t.Cleanup(func() {
			if err := api.Delete(context.Background(), o, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
				t.Error(err)
			}
		})
	}
}

// complete adds what the API server demands of its own kinds.
func complete(o *unstructured.Unstructured) *unstructured.Unstructured {
	container := []any{map[string]any{"name": "c", "image": "c"}}
	switch o.GetKind() {
	case "Pod":
		if o.GroupVersionKind().Group == "" && o.Object["spec"] == nil {
			o.Object["spec"] = map[string]any{"containers": container}
		}
	case "Service":
		o.Object["spec"] = map[string]any{"ports": []any{map[string]any{"port": int64(80)}}}
	}
	return o
}

// TestMigrateInspect reads a cluster of each network from a real API server. The report must be that of the files.
func TestMigrateInspect(t *testing.T) {
	weft(t, failed, []string{"migrate", "inspect"}, "error: found no network of ovn-kubernetes, kube-ovn, Calico, Cilium or flannel")
	for _, network := range []string{"ovn-kubernetes", "kube-ovn", "calico", "cilium", "flannel"} {
		t.Run(network, func(t *testing.T) {
			objects := foreign(t, network)
			plant(t, objects)
			folder := filepath.Join(t.TempDir(), "out")
			weft(t, different, []string{"migrate", "inspect", "--output-dir", folder}, "Network   ", "Translated", "without a counterpart")
			weftReads(t, "", different, []string{"migrate", "inspect", "-o", "json"})
			text := weftReads(t, "", different, []string{"migrate", "inspect", "-o", "yaml"}, "kind: ClusterNetwork")
			fromFile := weftReads(t, "", different, []string{"migrate", "inspect", "-o", "yaml", "-f",
				"../../pkg/kubectl/migrate/testdata/" + network + "/objects.yaml"})
			compareManifests(t, network, fromFile, text)
			if _, err := os.Stat(filepath.Join(folder, "20-clusternetwork.yaml")); err != nil {
				t.Error(err)
			}
			weft(t, failed, []string{"migrate", "inspect", "--output-dir", folder}, "exists: choose another folder")
			if network == "kube-ovn" {
				missingRights(t)
			}
		})
	}
	weft(t, failed, []string{"migrate", "inspect", "-o", "xml"}, `invalid output "xml": want text, yaml or json`)
}

// compareManifests compares what was made of files and of the API server, whose own network of Services and
// namespaces differ. They decide which nodes keep a subnet, and which namespaces get NetworkPolicies.
func compareManifests(t *testing.T, network, files, server string) {
	t.Helper()
	names := func(text string) (found []string) {
		for _, part := range strings.Split(text, "---\n") {
			var kind, name string
			for line := range strings.Lines(part) {
				if value, ok := strings.CutPrefix(line, "kind: "); ok {
					kind = strings.TrimSpace(value)
				}
				if value, ok := strings.CutPrefix(line, "  name: "); ok {
					name = strings.TrimSpace(value)
				}
			}
			if kind != "" && kind != "NetworkPolicy" && kind != "NodeNetwork" {
				found = append(found, kind+" "+name)
			}
		}
		return found
	}
	if a, b := names(files), names(server); !slices.Equal(a, b) {
		t.Errorf("%s: files give %v, the API server %v", network, a, b)
	}
}

// missingRights runs the command as a user who may read workloads, but none of kube-ovn's objects, and then as a user who may
// read all and write nothing.
func missingRights(t *testing.T) {
	kubectl(t, "create", "clusterrole", "some-reader", "--verb=get,list",
		"--resource=daemonsets.apps,deployments.apps,nodes,namespaces,services,pods,configmaps,subnets.kubeovn.io")
	kubectl(t, "create", "clusterrolebinding", "some-reader", "--clusterrole=some-reader", "--user=some")
	kubectl(t, "create", "clusterrole", "all-reader", "--verb=get,list", "--resource=*.*")
	kubectl(t, "create", "clusterrolebinding", "all-reader", "--clusterrole=all-reader", "--user=all")
	t.Cleanup(func() { forgetRights(t) })
	weft(t, different, []string{"migrate", "inspect", "--as=some"}, "Not read", `vpcs.kubeovn.io is forbidden`,
		"grant the right to read: kubectl create clusterrole weft-migrate --verb=get,list --resource=",
		"Subnet.kubeovn.io ovn-default -> ClusterNetwork")
	whole := weftReads(t, "", different, []string{"migrate", "inspect", "-o", "yaml"})
	reader := weftReads(t, "", different, []string{"migrate", "inspect", "-o", "yaml", "--as=all"})
	if whole != reader {
		t.Errorf("a reader gets other manifests than the administrator:\n%s", reader)
	}
	weft(t, failed, []string{"migrate", "inspect", "--as=nobody"}, "error: found no network", "grant the right to read")
}

// forgetRights deletes what missingRights created.
func forgetRights(t *testing.T) {
	t.Helper()
	for _, name := range []string{"some-reader", "all-reader"} {
		for _, kind := range []string{"ClusterRole", "ClusterRoleBinding"} {
			o := &unstructured.Unstructured{}
			o.SetGroupVersionKind(schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: kind})
			o.SetName(name)
			if err := api.Delete(context.Background(), o); err != nil {
				t.Error(err)
			}
		}
	}
}
