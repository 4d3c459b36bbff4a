package bundle

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// install is the content of dist/install.yaml.
type install struct{ objects []unstructured.Unstructured }

func readInstall(text []byte) (install, error) {
	var in install
	for documents := yamlutil.NewYAMLOrJSONDecoder(bytes.NewReader(text), len(text)); ; {
		var object unstructured.Unstructured
		if err := documents.Decode(&object.Object); errors.Is(err, io.EOF) {
			return in, nil
		} else if err != nil {
			return in, err
		}
		in.objects = append(in.objects, object)
	}
}

// of returns the objects of a kind.
func (in install) of(kind string) (found []unstructured.Unstructured) {
	for _, object := range in.objects {
		if object.GetKind() == kind {
			found = append(found, object)
		}
	}
	return found
}

// asTheyAre are the objects in the bundle next to its ClusterServiceVersion: CRDs, and roles for people, which no
// ServiceAccount has. The others are ServiceAccounts and their rights, which OLM creates from the
// ClusterServiceVersion; the namespace, which OLM's user creates; and admission policies, which a bundle must not
// contain.
func (in install) asTheyAre() []unstructured.Unstructured {
	found := in.of("CustomResourceDefinition")
	bound := map[string]bool{}
	for _, kind := range []string{"ClusterRole", "Role"} {
		for _, b := range in.of(kind + "Binding") {
			name, _, _ := unstructured.NestedString(b.Object, "roleRef", "name")
			bound[kind+"/"+name] = true
		}
		for _, role := range in.of(kind) {
			if !bound[kind+"/"+role.GetName()] {
				role := *role.DeepCopy()
				role.SetNamespace("") // OLM applies it in the operator's namespace
				found = append(found, role)
			}
		}
	}
	return found
}

// deployment returns the single Deployment.
func (in install) deployment() (*appsv1.Deployment, error) {
	all := in.of("Deployment")
	if len(all) != 1 {
		return nil, fmt.Errorf("%d Deployments, want 1", len(all))
	}
	return typed[appsv1.Deployment](all[0])
}

// rights returns the rules that bindings of a kind give to each ServiceAccount.
func (in install) rights(roleKind string) (map[string][]rbacv1.PolicyRule, error) {
	rules := map[string][]rbacv1.PolicyRule{} // role -> its rules
	for _, object := range in.of(roleKind) {
		role, err := typed[rbacv1.ClusterRole](object) // a Role has the same rules
		if err != nil {
			return nil, err
		}
		rules[role.Name] = role.Rules
	}
	rights := map[string][]rbacv1.PolicyRule{}
	for _, object := range in.of(roleKind + "Binding") {
		binding, err := typed[rbacv1.ClusterRoleBinding](object)
		if err != nil {
			return nil, err
		}
		for _, subject := range binding.Subjects {
			if subject.Kind != rbacv1.ServiceAccountKind || len(rules[binding.RoleRef.Name]) == 0 {
				return nil, fmt.Errorf("%s %s: only rules for ServiceAccounts can be in a bundle", roleKind+"Binding", binding.Name)
			}
			rights[subject.Name] = append(rights[subject.Name], rules[binding.RoleRef.Name]...)
		}
	}
	return rights, nil
}

func typed[T any](object unstructured.Unstructured) (*T, error) {
	into := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into); err != nil {
		return nil, fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return into, nil
}

// marshal writes YAML without the fields that only a server sets.
func marshal(object any) ([]byte, error) {
	text, err := yaml.Marshal(object)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := yaml.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	delete(fields, "status")
	text, err = yaml.Marshal(fields)
	return append([]byte("# Made by make generate.\n"), text...), err
}
