package controllers

import (
	"errors"
	"time"

	ipamclaimsv1alpha1 "github.com/k8snetworkplumbingwg/ipamclaims/pkg/crd/ipamclaims/v1alpha1"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	policyv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	cniv1beta1 "github.com/weft-network/weft/apis/cni/v1beta1"
	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/process/informers"
	"github.com/weft-network/weft/pkg/process/leadership"
	"github.com/weft-network/weft/pkg/process/options"
)

// LeaseName is the name of the operator's lease. A zone's operator has its zone after it.
const LeaseName = "weft-operator"

// retryPeriod is the interval at which a process tries to take or renew the lease.
const retryPeriod = time.Second

// ManagerOptions returns the options of the manager that Setup needs: the scheme, and the contents of the cache.
func ManagerOptions() (ctrl.Options, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), networkv1alpha1.AddToScheme(scheme), nadv1.AddToScheme(scheme),
		ipamclaimsv1alpha1.AddToScheme(scheme), cniv1beta1.AddToScheme(scheme), policyv1alpha1.Install(scheme),
		policyv1alpha2.Install(scheme)); err != nil {
		return ctrl.Options{}, err
	}
	grace := leadership.Grace
	again := true // a process may lead several times, each time with the same names of controllers
	return ctrl.Options{
		Scheme:   scheme,
		NewCache: informers.NewCache,
		Cache: cache.Options{
			DefaultTransform:             cache.TransformStripManagedFields(),
			DefaultUnsafeDisableDeepCopy: new(true), // what is written is a copy first: kind.Detach
			ByObject:                     map[client.Object]cache.ByObject{&corev1.Pod{}: {Transform: StripPod}},
		},
		Controller:              config.Controller{SkipNameValidation: &again},
		Metrics:                 metricsserver.Options{BindAddress: "0"}, // the process serves metrics and health, whether or not it leads
		HealthProbeBindAddress:  "0",
		GracefulShutdownTimeout: &grace,
	}, nil
}

// Lease returns the operator's lease. It is shorter than the leases of Kubernetes' own components, because no new pod
// gets an address while the lease of a leader on a lost node lasts. An API server that responds within 4 s does not
// end it. Leadership ends 9 s after the last accepted renewal was sent, and 3 s remain to stop the work.
func Lease(o options.Operator) leadership.Lease {
	name := LeaseName
	if o.Zone != "" {
		name += "-" + o.Zone
	}
	return leadership.Lease{Namespace: o.Namespace, Name: name, Identity: o.Identity,
		Duration: 12 * time.Second, Renew: 9 * time.Second, Retry: retryPeriod}
}
