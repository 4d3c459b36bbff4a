// Package cli runs kubectl-weft as a new user does, with a real API server, on which Weft is not installed, half
// installed, or does not start. The tests simulate kubelets.
package cli

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/kubectl/cli"
	"github.com/weft-network/weft/test/kubeapiserver"
	"github.com/weft-network/weft/test/lab/tools"
)

// system is Weft's namespace.
const system = "weft-system"

// The exit codes of docs/user/plugin.md.
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
func TestMain(m *testing.M) { kubeapiserver.Main(m, kubeapiserver.Options{}, prepare) }

func prepare(_ context.Context, server *kubeapiserver.Server) (err error) {
	programs = server.Programs
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), networkv1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	if api, err = client.New(server.Config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	impersonating := rest.CopyConfig(server.Config)
	impersonating.Impersonate.UserName = "system:serviceaccount:" + system + ":weft-operator"
	if operator, err = client.New(impersonating, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	kubeconfig, err = server.Kubeconfig("admin", "system:masters")
	return err
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
