// Package crd tests what the API server itself does with the CRDs: validation, defaults, subresources and columns. The
// API server is a real one.
package crd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// TestMain starts the API server once: it takes seconds, and the tests leave nothing behind in it.
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
	for _, program := range []string{"kube-apiserver", "etcd"} {
		if _, err := os.Stat(cache.Bin(program)); err != nil {
			return nil, fmt.Errorf("%w: make it with: go run ./test/lab/cmd/weft-lab tools envtest", err)
		}
	}
	return &envtest.Environment{
		BinaryAssetsDirectory: filepath.Dir(cache.Bin("etcd")),
		CRDDirectoryPaths:     []string{"../../config/crd/bases"},
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
		// The test's own context is over by now.
		if err := api.Delete(context.Background(), object); err != nil {
			t.Error(err)
		}
	})
}
