// Package addressapi tests the HTTPS API of addresses with a real API server, the manifests of dist with the rights and
// policies that they give, and the operator's reconcilers of IPPools and FloatingIPs.
package addressapi

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/controllers"
	"github.com/weft-network/weft/controllers/floatingip"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/addresses/balance"
	"github.com/weft-network/weft/pkg/addresses/floating/claim"
	"github.com/weft-network/weft/pkg/install/pki"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/test/kubeapiserver"
)

// patience bounds what the API server and the operator may need.
const patience = 2 * time.Minute

var (
	admin *rest.Config  // of an administrator
	api   client.Client // an administrator's
	// operator writes as the operator, which alone names holders.
	operator  client.Client
	authority *pki.Authority
)

func TestMain(m *testing.M) { kubeapiserver.Main(m, kubeapiserver.Options{}, prepare) }

func prepare(ctx context.Context, server *kubeapiserver.Server) (err error) {
	admin = server.Config
	if err := install(ctx, server); err != nil {
		return err
	}
	if err := runOperator(ctx); err != nil {
		return err
	}
	authority, err = pki.NewAuthority("weft-api-ca", time.Now())
	return err
}

// install applies the manifests.
func install(ctx context.Context, server *kubeapiserver.Server) error {
	file, err := server.Kubeconfig("admin", "system:masters")
	if err != nil {
		return err
	}
	kubectl := func(args ...string) error {
		command := exec.CommandContext(ctx, server.Programs.Bin("kubectl"), append([]string{"--kubeconfig", file}, args...)...)
		if text, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("kubectl %v: %w: %s", args, err, text)
		}
		return nil
	}
	if err := kubectl("apply", "--server-side", "-f", "../../dist/weft.yaml", "-f", "../../dist/api.yaml"); err != nil {
		return err
	}
	return kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "ippools.network.weft.dev", "floatingips.network.weft.dev")
}

// as returns the configuration of a client with the rights of a ServiceAccount of Weft.
func as(account string) *rest.Config {
	own := rest.CopyConfig(admin)
	own.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:weft-system:" + account,
		Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	return own
}

// runOperator runs the operator's reconcilers of IPPools and FloatingIPs.
func runOperator(ctx context.Context) error {
	options, err := controllers.ManagerOptions()
	if err != nil {
		return err
	}
	if api, err = client.New(admin, client.Options{Scheme: options.Scheme}); err != nil {
		return err
	}
	if operator, err = client.New(as("weft-operator"), client.Options{Scheme: options.Scheme}); err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(as("weft-operator"), options)
	if err != nil {
		return err
	}
	env := &kind.Env{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Triggers: &trigger.Set{}, Events: mgr.GetEventRecorder("weft")}
	env.Settings.CountDelay = time.Second // as in the product
	env.Floating = claim.New(env.Client, env.Live, time.Now)
	// The reconciler of Services, which does not run here, has this index.
	if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Service{}, balance.ByExposed, balance.IndexByExposed); err != nil {
		return err
	}
	for _, k := range floatingip.Kinds(env) {
		if err := k.Register(mgr, env.Triggers, nil); err != nil {
			return err
		}
	}
	go func() {
		if err := mgr.Start(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "operator:", err)
		}
	}()
	return nil
}

var loopback = netip.MustParseAddr("127.0.0.1")
