package bundle

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// resource is a kind as written in PROJECT, a CRD and the ClusterServiceVersion.
type resource struct{ group, version, kind, plural string }

func ofCRD(crd *apiextensionsv1.CustomResourceDefinition) resource {
	return resource{crd.Spec.Group, crd.Spec.Versions[0].Name, crd.Spec.Names.Kind, crd.Spec.Names.Plural}
}

func ofProject(t *testing.T) map[resource]bool {
	t.Helper()
	var project struct {
		Resources []struct {
			API                         struct{ Namespaced bool }
			Domain, Group, Kind, Plural string
			Version                     string
		}
	}
	text, err := os.ReadFile(filepath.Join(root, "PROJECT"))
	if err == nil {
		err = yaml.Unmarshal(text, &project)
	}
	if err != nil {
		t.Fatal(err)
	}
	namespaced := map[resource]bool{}
	for _, r := range project.Resources {
		if r.Plural == "" {
			r.Plural = strings.ToLower(r.Kind) + "s" // kubebuilder writes only an irregular plural
		}
		namespaced[resource{r.Group + "." + r.Domain, r.Version, r.Kind, r.Plural}] = r.API.Namespaced
	}
	return namespaced
}

// TestKindsAgree checks that PROJECT, config/crd/bases, the bundle's CRDs and the ClusterServiceVersion's owned CRDs
// list the same kinds.
func TestKindsAgree(t *testing.T) {
	project, b := ofProject(t), loaded(t)
	kinds := map[string]map[resource]bool{"PROJECT": {}, "config/crd/bases": {}, "the bundle's CRDs": {},
		"the ClusterServiceVersion's owned CRDs": {}}
	for r := range project {
		kinds["PROJECT"][r] = true
	}
	paths, err := filepath.Glob(filepath.Join(root, "config/crd/bases/*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no CRDs: %v", err)
	}
	for _, path := range paths {
		var crd apiextensionsv1.CustomResourceDefinition
		if text, err := os.ReadFile(path); err != nil || yaml.Unmarshal(text, &crd) != nil {
			t.Fatalf("%s: %v", path, err)
		}
		kinds["config/crd/bases"][ofCRD(&crd)] = true
	}
	for _, crd := range b.V1CRDs {
		kinds["the bundle's CRDs"][ofCRD(crd)] = true
		if want, listed := project[ofCRD(crd)]; listed && want != (crd.Spec.Scope == apiextensionsv1.NamespaceScoped) {
			t.Errorf("%s: PROJECT and CRD differ in scope", crd.Name)
		}
	}
	for _, owned := range b.CSV.Spec.CustomResourceDefinitions.Owned {
		plural, group, _ := strings.Cut(owned.Name, ".")
		kinds["the ClusterServiceVersion's owned CRDs"][resource{group, owned.Version, owned.Kind, plural}] = true
	}
	for where, found := range kinds {
		if !maps.Equal(found, kinds["config/crd/bases"]) {
			t.Errorf("%s: %v\nconfig/crd/bases: %v", where, found, kinds["config/crd/bases"])
		}
	}
}

// grants lists single rights, one per line.
func grants(account, where string, rules []rbacv1.PolicyRule) (lines []string) {
	for _, r := range rules {
		for _, group := range r.APIGroups {
			for _, of := range r.Resources {
				for _, verb := range r.Verbs {
					lines = append(lines, fmt.Sprintf("%s %s: %s %s/%s %v %v", account, where, verb, group, of,
						r.ResourceNames, r.NonResourceURLs))
				}
			}
		}
	}
	return lines
}

// TestRightsAgree checks that OLM gives ServiceAccounts exactly the rights in dist/install.yaml.
func TestRightsAgree(t *testing.T) {
	in, strategy := installed(t), loaded(t).CSV.Spec.InstallStrategy.StrategySpec
	var want, have []string
	for _, kind := range []string{"ClusterRole", "Role"} {
		for _, binding := range in.of(kind + "Binding") {
			b, err := typed[rbacv1.ClusterRoleBinding](binding)
			if err != nil {
				t.Fatal(err)
			}
			for _, object := range in.of(kind) {
				role, err := typed[rbacv1.ClusterRole](object)
				if err != nil {
					t.Fatal(err)
				}
				for _, subject := range b.Subjects {
					if role.Name == b.RoleRef.Name {
						want = append(want, grants(subject.Name, kind, role.Rules)...)
					}
				}
			}
		}
	}
	for kind, list := range map[string][]v1alpha1.StrategyDeploymentPermissions{
		"ClusterRole": strategy.ClusterPermissions, "Role": strategy.Permissions} {
		for _, p := range list {
			have = append(have, grants(p.ServiceAccountName, kind, p.Rules)...)
		}
	}
	slices.Sort(want)
	slices.Sort(have)
	if len(want) == 0 || !slices.Equal(want, have) {
		t.Errorf("dist/install.yaml:\n%s\nbundle:\n%s", strings.Join(want, "\n"), strings.Join(have, "\n"))
	}
}

// TestDeploymentAgrees checks that OLM's Deployment equals dist/install.yaml's, so that OLM adopts an existing
// Deployment. A different selector could not be changed, and another name would give a second Deployment on the same
// host ports.
func TestDeploymentAgrees(t *testing.T) {
	want, err := installed(t).deployment()
	if err != nil {
		t.Fatal(err)
	}
	csv := loaded(t).CSV
	list := csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs
	if len(list) != 1 {
		t.Fatalf("%d Deployments", len(list))
	}
	if have := list[0]; have.Name != want.Name || !maps.Equal(have.Label, want.Labels) || !reflect.DeepEqual(have.Spec, want.Spec) {
		t.Errorf("Deployment %s:\n%+v\nwant %s:\n%+v", have.Name, have.Spec, want.Name, want.Spec)
	}
	if csv.Annotations["operatorframework.io/suggested-namespace"] != want.Namespace {
		t.Errorf("the suggested namespace is %s, want %s", csv.Annotations["operatorframework.io/suggested-namespace"], want.Namespace)
	}
	related := map[string]bool{}
	for _, image := range csv.Spec.RelatedImages {
		related[image.Image] = true
	}
	for _, container := range want.Spec.Template.Spec.Containers {
		if !related[container.Image] {
			t.Errorf("image %s is not in the related images", container.Image)
		}
	}
}
