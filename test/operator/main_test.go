// Package controllers_test runs the operator as main.go does, with a real API server and a real OVN northbound
// database.
package operator

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers"
	"github.com/weft-network/weft/test/lab/tools"
	"github.com/weft-network/weft/test/longwatch"
	"github.com/weft-network/weft/test/rbac"
)

// One API server serves all tests in turn, because the ClusterNetwork is a singleton.
var (
	restConfig  *rest.Config  // with the operator's rights
	adminConfig *rest.Config  // with all rights
	api         client.Client // writes, and reads without a cache
	view        cache.Cache   // reads; each of its events wakes news
	news        = &notifier{}
)

// notifier wakes waiting goroutines at any change.
type notifier struct {
	mu   sync.Mutex
	next chan struct{}
}

// coming returns a channel that is closed at the next change.
func (n *notifier) coming() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next == nil {
		n.next = make(chan struct{})
	}
	return n.next
}

func (n *notifier) notify() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next != nil {
		close(n.next)
		n.next = nil
	}
}

func TestMain(m *testing.M) {
	flag.Parse()
	log := logr.Discard()
	if testing.Verbose() {
		log = zap.New(zap.UseDevMode(true))
	}
	ctrl.SetLogger(log)
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "controllers:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	programs, err := tools.DefaultCache()
	if err != nil {
		return 0, err
	}
	assets, err := programs.Envtest()
	if err != nil {
		return 0, err
	}
	policies, err := tools.ModuleFolder(context.Background(), "policyapi", "go.mod", "sigs.k8s.io/network-policy-api")
	if err != nil {
		return 0, err
	}
	environment := &envtest.Environment{
		BinaryAssetsDirectory: assets,
		CRDDirectoryPaths: []string{"../../config/crd/bases", "../../config/crd/external", filepath.Join(policies, "config", "crd",
			"experimental", "policy.networking.k8s.io_clusternetworkpolicies.yaml")},
		ErrorIfCRDPathMissing: true,
	}
	environment.ControlPlane.GetAPIServer().Configure().Set("service-cluster-ip-range", "10.96.0.0/16,fd00:10:96::/112")
	if restConfig, err = environment.Start(); err != nil {
		return 0, errors.Join(fmt.Errorf("start the API server: %w", err), environment.Stop())
	}
	defer func() { err = errors.Join(err, environment.Stop()) }()
	restConfig.QPS, restConfig.Burst = 1000, 1000
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := watch(ctx); err != nil {
		return 0, err
	}
	adminConfig = restConfig
	if restConfig, err = rbac.As(ctx, restConfig, "operator", "default"); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// watch creates the API server's client and the cache view.
func watch(ctx context.Context) error {
	managerOptions, err := controllers.ManagerOptions()
	if err != nil {
		return err
	}
	if api, err = client.New(restConfig, client.Options{Scheme: managerOptions.Scheme}); err != nil {
		return err
	}
	if view, err = cache.New(longwatch.Of(restConfig), cache.Options{Scheme: managerOptions.Scheme}); err != nil {
		return err
	}
	handler := toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { news.notify() }, UpdateFunc: func(any, any) { news.notify() }, DeleteFunc: func(any) { news.notify() },
	}
	for _, kind := range []client.Object{&corev1.Pod{}, &corev1.Node{}, &eventsv1.Event{},
		&networkv1alpha1.ClusterNetwork{}, &networkv1alpha1.NodeNetwork{}, &networkv1alpha1.EgressFirewall{},
		&networkv1alpha1.EgressQoS{}, &networkv1alpha1.ExternalRoute{}} {
		informer, err := view.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return err
		}
		if _, err := informer.AddEventHandler(handler); err != nil {
			return err
		}
	}
	go func() { _ = view.Start(ctx) }()
	if !view.WaitForCacheSync(ctx) {
		return errors.New("the API server's objects were not listed")
	}
	return nil
}
