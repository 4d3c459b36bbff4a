package histories

import (
	"context"
	"errors"
	"flag"
	"strconv"
	"testing"

	ipamclaimsv1alpha1 "github.com/k8snetworkplumbingwg/ipamclaims/pkg/crd/ipamclaims/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cniv1beta1 "github.com/weft-network/weft/apis/cni/v1beta1"
	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/kubeapiserver"
)

var real = flag.Int("real", 0, "number of histories with a real API server, one after the other")

// TestHistoriesOnARealAPIServer runs histories with a real API server.
func TestHistoriesOnARealAPIServer(t *testing.T) {
	if *real == 0 {
		t.Skip("enable it with -real, as make check-histories REAL=20 does")
	}
	config := kubeapiserver.New(t, kubeapiserver.Options{Definitions: true}).Config
	for i := range *real {
		seed := *first + uint64(i)
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { onRealServer(t, generate(seed), config) })
	}
}

func onRealServer(t *testing.T, p Plan, config *rest.Config) {
	w, err := newWorld(t, p, config)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.run(context.Background()); err != nil {
		t.Errorf("history %d: %v\n%v", p.Seed, err, w.trace)
	}
	for _, s := range w.sites {
		s.lead.kill()
	}
	if err := w.clear(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// clear empties the API server for the next history.
func (w *world) clear(ctx context.Context) error {
	return until(w.news, patience, func(context.Context) error {
		var left int
		for _, namespace := range []string{"a", "b"} {
			for _, workload := range []client.Object{&appsv1.Deployment{}, &appsv1.StatefulSet{}, &appsv1.ReplicaSet{},
				&ipamclaimsv1alpha1.IPAMClaim{}, &cniv1beta1.MultiNetworkPolicy{}} {
				if err := w.api.DeleteAllOf(ctx, workload, client.InNamespace(namespace)); err != nil {
					return err
				}
			}
			if err := w.api.DeleteAllOf(ctx, &networkingv1.NetworkPolicy{}, client.InNamespace(namespace)); err != nil {
				return err
			}
			if err := w.api.DeleteAllOf(ctx, &networkv1alpha1.EgressQoS{}, client.InNamespace(namespace)); err != nil {
				return err
			}
			if err := w.api.DeleteAllOf(ctx, &networkv1alpha1.EgressFirewall{}, client.InNamespace(namespace)); err != nil {
				return err
			}
			if err := w.api.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(namespace), client.GracePeriodSeconds(0)); err != nil {
				return err
			}
		}
		var pods corev1.PodList
		var nodes corev1.NodeList
		var networks networkv1alpha1.NodeNetworkList
		err := errors.Join(w.api.DeleteAllOf(ctx, &networkv1alpha1.ExternalRoute{}),
			w.api.DeleteAllOf(ctx, &networkv1alpha1.IPPool{}), w.api.DeleteAllOf(ctx, &networkv1alpha1.FloatingIP{}),
			w.api.DeleteAllOf(ctx, &networkv1alpha1.Network{}), w.api.DeleteAllOf(ctx, &corev1.Node{}),
			w.api.DeleteAllOf(ctx, &networkv1alpha1.NodeNetwork{}),
			w.api.DeleteAllOf(ctx, &networkv1alpha1.ClusterNetwork{}), w.api.List(ctx, &pods),
			w.api.List(ctx, &nodes), w.api.List(ctx, &networks))
		if left = len(pods.Items) + len(nodes.Items) + len(networks.Items); err == nil && left > 0 {
			err = errors.New("objects remain")
		}
		return err
	})
}
