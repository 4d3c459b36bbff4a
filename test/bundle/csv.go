package bundle

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// clusterServiceVersion completes the base with the installed objects.
func clusterServiceVersion(source fs.FS, in install) (*v1alpha1.ClusterServiceVersion, error) {
	csv, err := parse(source, baseFile, func(text []byte) (*v1alpha1.ClusterServiceVersion, error) {
		base := &v1alpha1.ClusterServiceVersion{}
		return base, yaml.UnmarshalStrict(text, base)
	})
	if err != nil {
		return nil, err
	}
	for _, fill := range []func(*v1alpha1.ClusterServiceVersion, fs.FS, install) error{addIcon, addExamples,
		addNamespace, addOwned, addDeployment, addRights} {
		if err := fill(csv, source, in); err != nil {
			return nil, err
		}
	}
	return csv, nil
}

func addIcon(csv *v1alpha1.ClusterServiceVersion, source fs.FS, _ install) error {
	image, err := fs.ReadFile(source, iconFile)
	csv.Spec.Icon = []v1alpha1.Icon{{Data: base64.StdEncoding.EncodeToString(image), MediaType: "image/svg+xml"}}
	return err
}

// addExamples adds the samples of the API's own kinds.
func addExamples(csv *v1alpha1.ClusterServiceVersion, source fs.FS, in install) error {
	paths, err := fs.Glob(source, samplesDir+"/*.yaml")
	if err != nil {
		return err
	}
	own := map[string]bool{}
	for _, crd := range in.of("CustomResourceDefinition") {
		group, _ := crd.Object["spec"].(map[string]any)["group"].(string)
		own[group+"/v1alpha1"] = true
	}
	var examples []map[string]any
	for _, path := range paths {
		sample, err := parse(source, path, readInstall)
		if err != nil {
			return err
		}
		for _, object := range sample.objects {
			if own[object.GetAPIVersion()] {
				examples = append(examples, object.Object)
			}
		}
	}
	text, err := json.MarshalIndent(examples, "", "  ")
	csv.Annotations["alm-examples"] = string(text)
	return err
}

// addNamespace suggests the namespace of the other installation, with its labels.
func addNamespace(csv *v1alpha1.ClusterServiceVersion, _ fs.FS, in install) error {
	all := in.of("Namespace")
	if len(all) != 1 {
		return fmt.Errorf("%d Namespaces, want 1", len(all))
	}
	text, err := json.Marshal(all[0].Object)
	csv.Annotations["operatorframework.io/suggested-namespace"] = all[0].GetName()
	csv.Annotations["operatorframework.io/suggested-namespace-template"] = string(text)
	return err
}

// addOwned describes the CRDs. The base provides what CRDs lack: a display name, and related resources to show.
func addOwned(csv *v1alpha1.ClusterServiceVersion, _ fs.FS, in install) error {
	base := map[string]v1alpha1.CRDDescription{} // CRD -> its description in the base
	for _, d := range csv.Spec.CustomResourceDefinitions.Owned {
		base[d.Name] = d
	}
	csv.Spec.CustomResourceDefinitions.Owned = nil
	for _, object := range in.of("CustomResourceDefinition") {
		crd, err := typed[apiextensionsv1.CustomResourceDefinition](object)
		if err != nil {
			return err
		}
		description, ok := base[crd.Name]
		if !ok {
			return fmt.Errorf("%s lacks CRD %s", baseFile, crd.Name)
		}
		delete(base, crd.Name)
		if err := describe(&description, crd); err != nil {
			return fmt.Errorf("CRD %s: %w", crd.Name, err)
		}
		csv.Spec.CustomResourceDefinitions.Owned = append(csv.Spec.CustomResourceDefinitions.Owned, description)
	}
	for name := range base {
		return fmt.Errorf("%s has CRD %s, which is not installed", baseFile, name)
	}
	return nil
}

// addDeployment adds the Deployment with its own name and selector, so that OLM adopts an existing Deployment.
func addDeployment(csv *v1alpha1.ClusterServiceVersion, _ fs.FS, in install) error {
	d, err := in.deployment()
	if err != nil {
		return err
	}
	csv.Spec.InstallStrategy.StrategyName = v1alpha1.InstallStrategyNameDeployment
	csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = []v1alpha1.StrategyDeploymentSpec{{Name: d.Name,
		Label: d.Labels, Spec: d.Spec}}
	for _, container := range d.Spec.Template.Spec.Containers {
		csv.Annotations["containerImage"] = container.Image
		csv.Spec.RelatedImages = append(csv.Spec.RelatedImages, v1alpha1.RelatedImage{Name: container.Name, Image: container.Image})
	}
	return nil
}

func addRights(csv *v1alpha1.ClusterServiceVersion, _ fs.FS, in install) error {
	everywhere, err := in.rights("ClusterRole")
	if err != nil {
		return err
	}
	own, err := in.rights("Role")
	if err != nil {
		return err
	}
	csv.Spec.InstallStrategy.StrategySpec.ClusterPermissions = permissions(everywhere)
	csv.Spec.InstallStrategy.StrategySpec.Permissions = permissions(own)
	return nil
}

func permissions(rights map[string][]rbacv1.PolicyRule) []v1alpha1.StrategyDeploymentPermissions {
	var list []v1alpha1.StrategyDeploymentPermissions
	for _, account := range slices.SortedFunc(maps.Keys(rights), cmp.Compare[string]) {
		list = append(list, v1alpha1.StrategyDeploymentPermissions{ServiceAccountName: account, Rules: rights[account]})
	}
	return list
}
