package bundle

import (
	"slices"
	"strings"
	"testing"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/validation"
	validator "github.com/operator-framework/api/pkg/validation/interfaces"
)

// validators are all validators of operator-framework/api except three: one inspects images in a registry (multiple
// architectures), one checks an obsolete format (package manifests), and one has been replaced (operatorhub).
var validators = validator.Validators{
	validation.ClusterServiceVersionValidator,
	validation.CustomResourceDefinitionValidator,
	validation.BundleValidator,
	validation.OperatorHubV2Validator,
	validation.StandardCategoriesValidator,
	validation.StandardCapabilitiesValidator,
	validation.ObjectValidator,
	validation.OperatorGroupValidator,
	validation.CommunityOperatorValidator,
	validation.AlphaDeprecatedAPIsValidator,
	validation.GoodPracticesValidator,
}

// complaints returns the errors and warnings of all validators.
func complaints(b *manifests.Bundle) (found []string) {
	objects := []any{b, b.CSV}
	for _, crd := range b.V1CRDs {
		objects = append(objects, crd)
	}
	for _, object := range b.Objects {
		objects = append(objects, object)
	}
	for _, result := range validators.Validate(objects...) {
		for _, e := range append(result.Errors, result.Warnings...) {
			found = append(found, e.Error())
		}
	}
	return found
}

// accepted are the warnings that do not apply. Weft creates the definitions of the Network Plumbing Working Group where
// no other program has brought them, and a bundle cannot own them, because it would conflict with that program's.
var accepted = []string{"CSV contains permissions to create CRD."}

func TestValidatorsFindNothing(t *testing.T) {
	unseen := slices.Clone(accepted)
	for _, complaint := range complaints(loaded(t)) {
		i := slices.IndexFunc(unseen, func(text string) bool { return strings.Contains(complaint, text) })
		if i < 0 {
			t.Error(complaint)
			continue
		}
		unseen = slices.Delete(unseen, i, i+1)
	}
	for _, text := range unseen {
		t.Errorf("the validators no longer complain: %s", text)
	}
}

// TestValidatorsFindFaults checks that the validators really examine the bundle: each of these faults must be
// reported.
func TestValidatorsFindFaults(t *testing.T) {
	for name, breaks := range map[string]func(*manifests.Bundle){
		"no icon":              func(b *manifests.Bundle) { b.CSV.Spec.Icon = nil },
		"no example":           func(b *manifests.Bundle) { b.CSV.Annotations["alm-examples"] = "[]" },
		"no Kubernetes":        func(b *manifests.Bundle) { b.CSV.Spec.MinKubeVersion = "" },
		"a channel of our own": func(b *manifests.Bundle) { b.Channels = []string{"alpha"} },
		"a CRD is missing":     func(b *manifests.Bundle) { b.V1CRDs = b.V1CRDs[1:] },
		"a CRD too many":       func(b *manifests.Bundle) { b.CSV.Spec.CustomResourceDefinitions.Owned = nil },
		"no such capability":   func(b *manifests.Bundle) { b.CSV.Annotations["capabilities"] = "Everything" },
		"no such category":     func(b *manifests.Bundle) { b.CSV.Annotations["categories"] = "Weaving" },
		"no install mode":      func(b *manifests.Bundle) { b.CSV.Spec.InstallModes = nil },
		"no requests": func(b *manifests.Bundle) {
			b.CSV.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec.Containers[0].Resources.Requests = nil
		},
	} {
		b := loaded(t)
		breaks(b)
		if len(complaints(b)) == 0 {
			t.Errorf("%s: no validator complains", name)
		}
	}
}
