// Package crd tests what a real API server does with the CRDs: validation, defaults, subresources and columns.
package crd

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/kubeapiserver"
)

var (
	restConfig *rest.Config
	api        client.Client
)

// TestMain starts the API server once, because that takes seconds and the tests leave nothing in it.
func TestMain(m *testing.M) {
	kubeapiserver.Main(m, kubeapiserver.Options{Definitions: true}, func(_ context.Context, server *kubeapiserver.Server) (err error) {
		restConfig = server.Config
		api, err = newClient(restConfig)
		return err
	})
}

func newClient(config *rest.Config) (client.Client, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: scheme})
}

// create stores an object and removes it when the test ends.
func create(t *testing.T, object client.Object) {
	t.Helper()
	if err := api.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The test's own context has ended by now.
		if err := api.Delete(context.Background(), object); err != nil {
			t.Error(err)
		}
	})
}
