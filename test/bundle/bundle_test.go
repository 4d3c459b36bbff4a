package bundle

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/operator-framework/api/pkg/manifests"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const root = "../.."

// loaded returns the bundle as OLM's own library reads it.
func loaded(t *testing.T) *manifests.Bundle {
	t.Helper()
	b, err := manifests.GetBundleFromDir(filepath.Join(root, "bundle"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func installed(t *testing.T) install {
	t.Helper()
	in, err := parse(os.DirFS(root), installFile, readInstall)
	if err != nil || len(in.objects) == 0 {
		t.Fatalf("%s: %v", installFile, err)
	}
	return in
}

// TestFilesAreFresh checks that the tree contains the generated files, and that bundle/manifests contains nothing
// else.
func TestFilesAreFresh(t *testing.T) {
	files, err := Files(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range files {
		if have, err := os.ReadFile(filepath.Join(root, path)); err != nil || !bytes.Equal(have, want) {
			t.Errorf("%s is stale: run make generate (%v)", path, err)
		}
	}
	present, err := filepath.Glob(filepath.Join(root, ManifestsDir, "*"))
	if err != nil || len(present) == 0 {
		t.Fatalf("%s: %v", ManifestsDir, err)
	}
	for _, path := range present {
		if _, made := files[ManifestsDir+"/"+filepath.Base(path)]; !made {
			t.Errorf("%s is not a generated file", path)
		}
	}
}

// supportedKinds are the kinds that OLM applies from a bundle (operator-registry, pkg/lib/bundle) and that Weft
// could have.
var supportedKinds = map[string]bool{"ClusterServiceVersion": true, "CustomResourceDefinition": true,
	"ClusterRole": true, "ClusterRoleBinding": true, "Role": true,
	"RoleBinding": true, "ServiceAccount": true, "Service": true, "ConfigMap": true, "Secret": true,
	"PrometheusRule": true, "ServiceMonitor": true,
	"PodDisruptionBudget": true, "PriorityClass": true}

// TestNothingIsForgotten checks each object of the other installation: it is in the bundle unchanged, or OLM creates
// it from the ClusterServiceVersion, or OLM cannot carry it and docs/user/install.md describes how to apply it.
func TestNothingIsForgotten(t *testing.T) {
	fromVersion := map[string]bool{"Deployment": true, "Namespace": true, "ServiceAccount": true, "ClusterRole": true,
		"ClusterRoleBinding": true, "Role": true, "RoleBinding": true}
	besides := map[string]bool{"FlowSchema": true, "ValidatingAdmissionPolicy": true, "ValidatingAdmissionPolicyBinding": true}
	carried := map[string]bool{}
	for _, object := range loaded(t).Objects {
		if !supportedKinds[object.GetKind()] {
			t.Errorf("OLM does not apply a %s", object.GetKind())
		}
		carried[object.GetKind()+"/"+object.GetName()] = true
	}
	policies, err := parse(os.DirFS(root), "dist/policies.yaml", readInstall)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range installed(t).objects {
		switch kind := object.GetKind(); {
		case carried[kind+"/"+object.GetName()], fromVersion[kind]:
		case besides[kind]:
			if !has(policies.objects, object) {
				t.Errorf("dist/policies.yaml lacks %s %s", kind, object.GetName())
			}
		default:
			t.Errorf("%s %s is not installed", kind, object.GetName())
		}
	}
}

func has(objects []unstructured.Unstructured, one unstructured.Unstructured) bool {
	for _, object := range objects {
		if object.GetKind() == one.GetKind() && object.GetName() == one.GetName() {
			return true
		}
	}
	return false
}
