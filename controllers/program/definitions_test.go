package program

import (
	"testing"

	ipamclaimsv1alpha1 "github.com/k8snetworkplumbingwg/ipamclaims/pkg/crd/ipamclaims/v1alpha1"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/controllers"
	"github.com/weft-network/weft/test/kubeapiserver"
)

// The API server serves others' kinds once the operator has ensured them, and a second time changes nothing.
func TestDefinitionsAreEnsured(t *testing.T) {
	config := kubeapiserver.New(t, kubeapiserver.Options{}).Config
	for range 2 {
		if err := ensureDefinitions(t.Context(), config); err != nil {
			t.Fatal(err)
		}
	}
	options, err := controllers.ManagerOptions()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: options.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range []client.ObjectList{&nadv1.NetworkAttachmentDefinitionList{}, &ipamclaimsv1alpha1.IPAMClaimList{}} {
		if err := c.List(t.Context(), list); err != nil {
			t.Errorf("%T: %v", list, err)
		}
	}
}
