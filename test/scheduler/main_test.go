// Package scheduler tests the extender with a real kube-scheduler and a real API server, with the manifests of dist and
// the rights and policies that they give.
package scheduler

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/weft-network/weft/controllers"
	"github.com/weft-network/weft/controllers/floatinggate"
	"github.com/weft-network/weft/controllers/floatingip"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/balance"
	"github.com/weft-network/weft/pkg/floating/claim"
	"github.com/weft-network/weft/pkg/trigger"
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

func TestMain(m *testing.M) {
	flag.Parse()
	log := logr.Discard()
	if testing.Verbose() {
		log = zap.New(zap.UseDevMode(true))
	}
	ctrl.SetLogger(log)
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "scheduler:", err)
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
	environment := &envtest.Environment{BinaryAssetsDirectory: assets, ErrorIfCRDPathMissing: true,
		CRDDirectoryPaths: []string{"../../config/crd/bases", "../../config/crd/external"}}
	if admin, err = environment.Start(); err != nil {
		return 0, errors.Join(fmt.Errorf("start the API server: %w", err), environment.Stop())
	}
	defer func() { err = errors.Join(err, environment.Stop()) }()
	admin.QPS, admin.Burst = 1000, 1000
	folder, err := os.MkdirTemp("", "weft-scheduler-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(folder)
	kubeconfig = filepath.Join(folder, "scheduler.kubeconfig")
	if err := install(environment, folder); err != nil {
		return 0, err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if err := runOperator(ctx); err != nil {
		return 0, err
	}
	if err := createNodes(ctx); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// install applies the manifests, and writes the kubeconfig of kube-schedulers.
func install(environment *envtest.Environment, folder string) error {
	user, err := environment.ControlPlane.AddUser(envtest.User{Name: "system:kube-scheduler"}, nil)
	if err != nil {
		return err
	}
	text, err := user.KubeConfig()
	if err != nil {
		return err
	}
	if err := os.WriteFile(kubeconfig, text, 0o600); err != nil {
		return err
	}
	own := filepath.Join(folder, "admin.kubeconfig")
	master, err := environment.ControlPlane.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return err
	}
	if text, err = master.KubeConfig(); err != nil {
		return err
	}
	if err := os.WriteFile(own, text, 0o600); err != nil {
		return err
	}
	apply := exec.CommandContext(context.Background(), programs.Bin("kubectl"), "--kubeconfig", own, "apply", "--server-side",
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
