// Package crd tests what a real API server does with the CRDs: validation, defaults, subresources and columns.
package crd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/lab/tools"
)

var (
	restConfig *rest.Config
	api        client.Client
)

// TestMain starts the API server once, because that takes seconds and the tests leave nothing in it.
func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "test/crd:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	environment, err := newEnvironment()
	if err != nil {
		return 0, err
	}
	if restConfig, err = environment.Start(); err != nil {
		return 0, errors.Join(fmt.Errorf("start the API server: %w", err), environment.Stop())
	}
	defer func() { err = errors.Join(err, environment.Stop()) }()
	if api, err = newClient(restConfig); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

func newEnvironment() (*envtest.Environment, error) {
	cache, err := tools.DefaultCache()
	if err != nil {
		return nil, err
	}
	assets, err := cache.Envtest()
	if err != nil {
		return nil, err
	}
	return &envtest.Environment{
		BinaryAssetsDirectory: assets,
		CRDDirectoryPaths:     []string{"../../config/crd/bases", "../../config/crd/external"},
		ErrorIfCRDPathMissing: true,
	}, nil
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
