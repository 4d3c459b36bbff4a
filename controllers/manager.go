package controllers

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	policyv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/options"
)

// The lease is short: while a killed leader's lease runs, no new pod gets an address.
const (
	leaseDuration = 8 * time.Second
	renewDeadline = 5 * time.Second
	retryPeriod   = time.Second
	leaseName     = "weft-operator"
)

// shutdownGrace is how long a process that is to end waits for its controllers, before it gives the lease up all the same. Now and then they never
// end: the queue of controller-runtime 0.24 keeps its lock when it is shut down while it hands out a request (its issue 3538). What they
// would write then the fence refuses.
const shutdownGrace = 5 * time.Second

// ManagerOptions are the options of the manager that Setup needs: the scheme, what the cache keeps, and the lease.
func ManagerOptions(o options.Operator) (ctrl.Options, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), networkv1alpha1.AddToScheme(scheme), policyv1alpha1.Install(scheme), policyv1alpha2.Install(scheme)); err != nil {
		return ctrl.Options{}, err
	}
	lease, renew, retry, grace := leaseDuration, renewDeadline, retryPeriod, shutdownGrace
	again := true // a process may lead several times, and the names of its controllers are the same each time
	return ctrl.Options{
		Scheme: scheme,
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject:         map[client.Object]cache.ByObject{&corev1.Pod{}: {Transform: StripPod}},
		},
		Controller:                    config.Controller{SkipNameValidation: &again},
		Metrics:                       metricsserver.Options{BindAddress: "0"}, // the process serves metrics and health, whether it leads or not
		HealthProbeBindAddress:        "0",
		LeaderElection:                o.LeaderElection,
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       o.Namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &lease, RenewDeadline: &renew, RetryPeriod: &retry,
		GracefulShutdownTimeout: &grace,
	}, nil
}

// Lease is the lock of a process that knows its identity: the container that kubelet starts again in the same pod has the same,
// and goes on at once instead of waiting for the end of its predecessor's lease. Should that one still live, the fence stops it.
func Lease(cluster *rest.Config, o options.Operator) (resourcelock.Interface, error) {
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, o.Namespace, leaseName,
		resourcelock.ResourceLockConfig{Identity: o.Identity}, cluster, renewDeadline)
	if err != nil {
		return nil, fmt.Errorf("lease %s/%s: %w", o.Namespace, leaseName, err)
	}
	return lock, nil
}
