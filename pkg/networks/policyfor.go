package networks

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	cniv1beta1 "github.com/weft-network/weft/apis/cni/v1beta1"
)

// PolicyFor returns the NetworkAttachmentDefinitions that the annotation of a MultiNetworkPolicy lists, each once. A
// name without a namespace is in namespace, the policy's own. The error names the elements that are not names; the
// others are returned.
func PolicyFor(annotations map[string]string, namespace string) (definitions []types.NamespacedName, err error) {
	text := annotations[cniv1beta1.PolicyForAnnotation]
	if strings.TrimSpace(text) == "" {
		return nil, fmt.Errorf("annotation %s: no NetworkAttachmentDefinition is listed", cniv1beta1.PolicyForAnnotation)
	}
	var wrong []error
	for i, element := range strings.Split(text, ",") {
		name := types.NamespacedName{Namespace: namespace, Name: strings.TrimSpace(element)}
		if before, after, ok := strings.Cut(name.Name, "/"); ok {
			name = types.NamespacedName{Namespace: before, Name: after}
		}
		for _, part := range []string{name.Namespace, name.Name} {
			if problems := validation.IsDNS1123Subdomain(part); len(problems) > 0 {
				wrong = append(wrong, fmt.Errorf("annotation %s: element %d %q: %q: %s", cniv1beta1.PolicyForAnnotation, i,
					strings.TrimSpace(element), part, problems[0]))
				name = types.NamespacedName{}
				break
			}
		}
		if name.Name != "" && !slices.Contains(definitions, name) {
			definitions = append(definitions, name)
		}
	}
	return definitions, errors.Join(wrong...)
}
