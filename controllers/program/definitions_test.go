package program

import (
	"testing"

	ipamclaimsv1alpha1 "github.com/k8snetworkplumbingwg/ipamclaims/pkg/crd/ipamclaims/v1alpha1"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/weft-network/weft/controllers"
	"github.com/weft-network/weft/test/lab/tools"
)

// The API server serves others' kinds once the operator has ensured them, and a second time changes nothing.
func TestDefinitionsAreEnsured(t *testing.T) {
	programs, err := tools.DefaultCache()
	if err != nil {
		t.Fatal(err)
	}
	environment := &envtest.Environment{}
	if environment.BinaryAssetsDirectory, err = programs.Envtest(); err != nil {
		t.Fatal(err)
	}
	config, err := environment.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := environment.Stop(); err != nil {
			t.Error(err)
		}
	}()
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
