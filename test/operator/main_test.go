// Package operator runs the operator as main.go does, with a real API server and a real OVN northbound
// database.
package operator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers"
	"github.com/weft-network/weft/test/kubeapiserver"
	"github.com/weft-network/weft/test/lab/tools"
	"github.com/weft-network/weft/test/poll"
	"github.com/weft-network/weft/test/rbac"
)

// One API server serves all tests in turn, because the ClusterNetwork is a singleton.
var (
	restConfig  *rest.Config  // with the operator's rights
	adminConfig *rest.Config  // with all rights
	api         client.Client // writes, and reads without a cache
	view        cache.Cache   // reads; each of its events wakes news
	news        = &poll.Changes{}
)

func TestMain(m *testing.M) {
	policies, err := tools.ModuleFolder(context.Background(), "policyapi", "go.mod", "sigs.k8s.io/network-policy-api")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	kubeapiserver.Main(m, kubeapiserver.Options{
		Definitions: true,
		More:        []string{filepath.Join(policies, "config", "crd", "experimental", "policy.networking.k8s.io_clusternetworkpolicies.yaml")},
		Flags:       map[string]string{"service-cluster-ip-range": "10.96.0.0/16,fd00:10:96::/112"},
	}, prepare)
}

func prepare(ctx context.Context, server *kubeapiserver.Server) (err error) {
	adminConfig = server.Config
	if err := watch(ctx); err != nil {
		return err
	}
	if err := withoutHostPrefixRule(ctx); err != nil {
		return fmt.Errorf("CustomResourceDefinition of Networks: %w", err)
	}
	restConfig, err = rbac.As(ctx, adminConfig, "operator", "default")
	return err
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
	if api, err = client.New(adminConfig, client.Options{Scheme: managerOptions.Scheme}); err != nil {
		return err
	}
	view, err = kubeapiserver.View(ctx, adminConfig, managerOptions.Scheme, news.Notify, &corev1.Pod{}, &corev1.Node{}, &eventsv1.Event{},
		&networkv1alpha1.ClusterNetwork{}, &networkv1alpha1.NodeNetwork{}, &networkv1alpha1.EgressFirewall{},
		&networkv1alpha1.EgressQoS{}, &networkv1alpha1.ExternalRoute{})
	return err
}
