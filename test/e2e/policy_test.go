//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// kube-controller-manager checks the expressions of policies against the types of the kinds that they match.
func TestPoliciesHaveNoTypeErrors(t *testing.T) {
	eventually(t, convergence, func() error {
		var policies admissionv1.ValidatingAdmissionPolicyList
		if err := bed.api.List(t.Context(), &policies); err != nil {
			return err
		}
		ours := 0
		for _, p := range policies.Items {
			if !strings.HasPrefix(p.Name, "weft-") {
				continue
			}
			ours++
			if p.Status.ObservedGeneration != p.Generation {
				return fmt.Errorf("policy %s has not been type-checked yet", p.Name)
			}
			if checked := p.Status.TypeChecking; checked != nil && len(checked.ExpressionWarnings) > 0 {
				return fmt.Errorf("policy %s: %+v", p.Name, checked.ExpressionWarnings)
			}
		}
		if ours == 0 {
			return errors.New("the cluster has no policy of Weft")
		}
		return nil
	})
}

// The token is the token that kubelet gave to the agent's pod.
func TestAgentsTokenIsForItsOwnNode(t *testing.T) {
	agent, err := bed.pod(t.Context(), agent, "n1")
	must(t, err)
	api := clientWith(t, tokenOf(t, agent))
	patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"encapType":"Geneve"}}`)) // the present value
	own, other := nodeNetwork("n1"), nodeNetwork("n2")
	if err := api.Status().Patch(t.Context(), own, patch); err != nil {
		t.Errorf("its own status: %v", err)
	}
	if err := api.Status().Patch(t.Context(), other, patch); !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), "NodeNetwork n2") {
		t.Errorf("another node's status: %v", err)
	}
	if err := api.Patch(t.Context(), nodeNetwork("n1"), client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"a":"b"}}}`))); !apierrors.IsForbidden(err) {
		t.Errorf("its own labels: %v", err)
	}
}

func nodeNetwork(name string) *networkv1alpha1.NodeNetwork {
	nn := &networkv1alpha1.NodeNetwork{}
	nn.Name = name
	return nn
}

// tokenOf reads the token that is mounted in a pod of the product.
func tokenOf(t *testing.T, p *corev1.Pod) string {
	t.Helper()
	for _, volume := range p.Spec.Volumes {
		if strings.HasPrefix(volume.Name, "kube-api-access-") {
			return bed.mustExec(t, p.Spec.NodeName, "cat",
				fmt.Sprintf("/var/lib/kubelet/pods/%s/volumes/kubernetes.io~projected/%s/token", p.UID, volume.Name))
		}
	}
	t.Fatalf("pod %s has no token", p.Name)
	return ""
}

func clientWith(t *testing.T, token string) client.Client {
	t.Helper()
	config := adminConfig(t)
	anonymous := rest.AnonymousClientConfig(config)
	anonymous.BearerToken, anonymous.Dial = token, config.Dial
	return clientOf(t, anonymous)
}

// asAgent returns a client with the rights of an agent, for a node where no agent runs.
func asAgent(t *testing.T, node string) client.Client {
	t.Helper()
	config := adminConfig(t)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + product + ":weft-agent",
		Extra: map[string][]string{"authentication.kubernetes.io/node-name": {node}}}
	return clientOf(t, config)
}

func adminConfig(t *testing.T) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", bed.KubeConfig())
	must(t, err)
	config.Dial = bed.DialContext
	return config
}

func clientOf(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	api, err := client.New(config, client.Options{Scheme: bed.api.Scheme()})
	must(t, err)
	return api
}
