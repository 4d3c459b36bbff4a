// Package scheduler tests the extender with a real kube-scheduler and a real API server, with the manifests of dist and
// the rights and policies that they give.
package scheduler

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/controllers"
	"github.com/weft-network/weft/controllers/floatinggate"
	"github.com/weft-network/weft/controllers/floatingip"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/addresses/balance"
	"github.com/weft-network/weft/pkg/addresses/floating/claim"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/test/kubeapiserver"
	"github.com/weft-network/weft/test/lab/tools"
)

// patience bounds what the API server and kube-scheduler may need.
const patience = 2 * time.Minute

var (
	admin    *rest.Config // of an administrator
	api      client.Client
	programs tools.Cache
	// kubeconfig is the file of kube-scheduler's own rights.
	kubeconfig string
)

func TestMain(m *testing.M) { kubeapiserver.Main(m, kubeapiserver.Options{Definitions: true}, prepare) }

func prepare(ctx context.Context, server *kubeapiserver.Server) error {
	admin, programs = server.Config, server.Programs
	if err := install(ctx, server); err != nil {
		return err
	}
	if err := runOperator(ctx); err != nil {
		return err
	}
	return createNodes(ctx)
}

// install applies the manifests, and writes the kubeconfig of kube-schedulers.
func install(ctx context.Context, server *kubeapiserver.Server) (err error) {
	if kubeconfig, err = server.Kubeconfig("system:kube-scheduler"); err != nil {
		return err
	}
	own, err := server.Kubeconfig("admin", "system:masters")
	if err != nil {
		return err
	}
	apply := exec.CommandContext(ctx, programs.Bin("kubectl"), "--kubeconfig", own, "apply", "--server-side",
		"--force-conflicts", "-f", "../../dist/weft.yaml", "-f", "../../dist/scheduler.yaml")
	if text, err := apply.CombinedOutput(); err != nil {
		return fmt.Errorf("apply the manifests: %w: %s", err, text)
	}
	return nil
}

// as returns the configuration of a client with the rights of a ServiceAccount of Weft.
func as(account string) *rest.Config {
	own := rest.CopyConfig(admin)
	own.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:weft-system:" + account,
		Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	return own
}

// runOperator runs the operator's reconcilers of IPPools and FloatingIPs, which release addresses, and of gated pods.
func runOperator(ctx context.Context) error {
	options, err := controllers.ManagerOptions()
	if err != nil {
		return err
	}
	if api, err = client.New(admin, client.Options{Scheme: options.Scheme}); err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(as("weft-operator"), options)
	if err != nil {
		return err
	}
	env := &kind.Env{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Triggers: &trigger.Set{}, Events: mgr.GetEventRecorder("weft")}
	env.Floating = claim.New(env.Client, env.Live, time.Now)
	// The reconciler of Services, which does not run here, has this index.
	if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Service{}, balance.ByExposed, balance.IndexByExposed); err != nil {
		return err
	}
	for _, k := range append(floatingip.Kinds(env), floatinggate.Kinds(env)...) {
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

// createNodes creates n1 in rack-1, and n2 and n3 in rack-2, ready for pods.
func createNodes(ctx context.Context) error {
	for name, rack := range map[string]string{"n1": "rack-1", "n2": "rack-2", "n3": "rack-2"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"rack": rack, "kubernetes.io/hostname": name}}}
		if err := api.Create(ctx, node); err != nil {
			return err
		}
		node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64"),
			corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("500")}
		node.Status.Capacity = node.Status.Allocatable
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if err := api.Status().Update(ctx, node); err != nil {
			return err
		}
		node.Spec.Taints = nil
		if err := api.Update(ctx, node); err != nil {
			return err
		}
	}
	return nil
}
