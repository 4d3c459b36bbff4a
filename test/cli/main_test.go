// Package cli runs kubectl-weft as a new user does, with a real API server, on which Weft is not installed, half
// installed, or does not start. The tests simulate kubelets.
package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/cli"
	"github.com/weft-network/weft/test/lab/tools"
)

// system is Weft's namespace.
const system = "weft-system"

// The exit codes of docs/user/operate.md.
const (
	fine = iota
	different
	failed
)

var (
	programs   tools.Cache
	kubeconfig string // file of the administrator's kubeconfig
	api        client.Client
	// operator is a client that the API server takes for the operator.
	operator client.Client
)

// TestMain starts the API server once for all tests.
func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "test/cli:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if programs, err = tools.DefaultCache(); err != nil {
		return 0, err
	}
	assets, err := programs.Envtest()
	if err != nil {
		return 0, err
	}
	environment := &envtest.Environment{BinaryAssetsDirectory: assets}
	config, err := environment.Start()
	if err != nil {
		return 0, errors.Join(fmt.Errorf("start the API server: %w", err), environment.Stop())
	}
	defer func() { err = errors.Join(err, environment.Stop()) }()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), networkv1alpha1.AddToScheme(scheme)); err != nil {
		return 0, err
	}
	if api, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return 0, err
	}
	impersonating := rest.CopyConfig(config)
	impersonating.Impersonate.UserName = "system:serviceaccount:" + system + ":weft-operator"
	if operator, err = client.New(impersonating, client.Options{Scheme: scheme}); err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "weft-cli-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	kubeconfig = filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, environment.KubeConfig, 0o600); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// kubectl runs kubectl as the administrator.
func kubectl(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), programs.Bin("kubectl"),
		append([]string{"--kubeconfig=" + kubeconfig}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %v: %v\n%s", args, err, out)
	}
}

// weft runs kubectl-weft and expects an exit code and texts in its output.
func weft(t *testing.T, code int, args []string, texts ...string) {
	t.Helper()
	weftReads(t, "", code, args, texts...)
}

// weftReads is weft with a standard input. It returns the standard output.
func weftReads(t *testing.T, in string, code int, args []string, texts ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	got := cli.Run(append([]string{"--kubeconfig", kubeconfig}, args...), strings.NewReader(in), &out, &errs)
	all := out.String() + errs.String()
	checkSchema(t, args, out.Bytes())
	if got != code {
		t.Errorf("weft %v has exit code %d, want %d:\n%s", args, got, code, all)
	}
	for _, text := range texts {
		if !strings.Contains(all, text) {
			t.Errorf("weft %v does not print %q:\n%s", args, text, all)
		}
	}
	return out.String()
}

// create creates objects with their status; the test's cleanup removes them.
func create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		wanted, ok := o.DeepCopyObject().(client.Object)
		if !ok {
			t.Fatalf("%T is not an object", o)
		}
		if err := api.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := api.Delete(context.Background(), o, client.GracePeriodSeconds(0)); err != nil {
				t.Error(err)
			}
		})
		wanted.SetResourceVersion(o.GetResourceVersion())
		wanted.SetUID(o.GetUID())
		if err := api.Status().Update(t.Context(), wanted); client.IgnoreNotFound(err) != nil { // some kinds have no status
			t.Fatal(err)
		}
	}
}
