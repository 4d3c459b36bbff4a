package controllers

import (
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/options"
)

// The lease is short: while a killed leader's lease runs, no new pod gets an address.
const (
	leaseDuration = 8 * time.Second
	renewDeadline = 5 * time.Second
	retryPeriod   = time.Second
)

// ManagerOptions are the options of the manager that Setup needs: the scheme, what the cache keeps, and the lease.
func ManagerOptions(o options.Operator) (ctrl.Options, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), networkv1alpha1.AddToScheme(scheme)); err != nil {
		return ctrl.Options{}, err
	}
	lease, renew, retry := leaseDuration, renewDeadline, retryPeriod
	return ctrl.Options{
		Scheme: scheme,
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject:         map[client.Object]cache.ByObject{&corev1.Pod{}: {Transform: StripPod}},
		},
		Metrics:                       metricsserver.Options{BindAddress: o.Metrics},
		HealthProbeBindAddress:        o.Health,
		LeaderElection:                o.LeaderElection,
		LeaderElectionID:              "weft-operator",
		LeaderElectionNamespace:       o.Namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &lease, RenewDeadline: &renew, RetryPeriod: &retry,
	}, nil
}
