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
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
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
	if err := withoutHostPrefixRule(ctx); err != nil {
		return 0, fmt.Errorf("CustomResourceDefinition of Networks: %w", err)
	}
	adminConfig = restConfig
	if restConfig, err = rbac.As(ctx, restConfig, "operator", "default"); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// withoutHostPrefixRule removes the CEL rule for hostPrefix from Networks, as in former versions, so that tests can store a Network that
// the operator cannot read.
func withoutHostPrefixRule(ctx context.Context) error {
	definition := &unstructured.Unstructured{}
	definition.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	if err := api.Get(ctx, client.ObjectKey{Name: "networks." + networkv1alpha1.GroupName}, definition); err != nil {
		return err
	}
	versions, _, err := unstructured.NestedSlice(definition.Object, "spec", "versions")
	if err != nil {
		return err
	}
	version, _ := versions[0].(map[string]any)
	path := []string{"schema", "openAPIV3Schema", "properties", "spec", "x-kubernetes-validations"}
	rules, _, err := unstructured.NestedSlice(version, path...)
	if err != nil {
		return err
	}
	kept := slices.DeleteFunc(slices.Clone(rules), func(rule any) bool {
		return strings.Contains(fmt.Sprint(rule), "subnets: hostPrefix, ")
	})
	if len(kept) != len(rules)-1 {
		return fmt.Errorf("%d of %d rules are left", len(kept), len(rules))
	}
	if err := errors.Join(unstructured.SetNestedSlice(version, kept, path...),
		unstructured.SetNestedSlice(definition.Object, versions, "spec", "versions"), api.Update(ctx, definition)); err != nil {
		return err
	}
	stored := &networkv1alpha1.Network{}
	stored.Name, stored.Spec = "stored", routed()
	invalidate(stored)
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		return api.Create(ctx, stored.DeepCopy(), client.DryRunAll) == nil, nil
	})
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
