// Package operand applies the operands, which are the workloads that run the network (pkg/install/render), and signs
// the certificates of chassis. It needs the API server but nothing of OVN, because it installs OVN. It has a process
// and a lease of its own, so that it continues when the northbound database is lost.
package operand

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/install/member"
	"github.com/weft-network/weft/pkg/install/pki"
	"github.com/weft-network/weft/pkg/install/render"
	"github.com/weft-network/weft/pkg/process/informers"
	"github.com/weft-network/weft/pkg/process/leadership"
	"github.com/weft-network/weft/pkg/process/options"
)

const (
	leaseName = "weft-operands"
	// externalDatabases is the ConfigMap with which an administrator configures databases outside Weft.
	externalDatabases = "weft-ovn"
)

// Options are the settings that differ between clusters.
type Options struct {
	Facts render.Facts // without the place
	Now   func() time.Time
	// Patience is how long replaced operands may take to work before a rollout stops.
	Patience time.Duration
	// OperatorCondition is the name of the object in which OLM reads whether it may upgrade. It is empty without OLM.
	OperatorCondition string
	// SendOrder delivers an order to a database member. The default is member.Send.
	SendOrder func(ctx context.Context, address string, id member.Identity, order member.Order) (member.State, error)
}

// ManagerOptions returns the options of a manager for Setup: it caches only the Secrets of its namespace.
func ManagerOptions(o options.Operands) (ctrl.Options, error) {
	namespace := o.Namespace
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), appsv1.AddToScheme(scheme), certificatesv1.AddToScheme(scheme),
		eventsv1.AddToScheme(scheme), networkv1alpha1.AddToScheme(scheme)); err != nil {
		return ctrl.Options{}, err
	}
	own := cache.ByObject{Namespaces: map[string]cache.Config{namespace: {}}}
	external := cache.ByObject{Namespaces: map[string]cache.Config{namespace: {FieldSelector: fields.OneTermEqualSelector(
		"metadata.name", externalDatabases)}}}
	grace := leadership.Grace
	again := true // a process may lead several times, each time with the same names of controllers
	return ctrl.Options{
		Scheme:   scheme,
		NewCache: informers.NewCache,
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				&corev1.Secret{}: own, &appsv1.Deployment{}: own, &appsv1.StatefulSet{}: own, &appsv1.DaemonSet{}: own,
				&corev1.ConfigMap{}: external,
				&corev1.Pod{}: {Namespaces: own.Namespaces,
					Label: labels.SelectorFromSet(labels.Set{"app.kubernetes.io/name": "weft"})},
				&certificatesv1.CertificateSigningRequest{}: {Field: fields.OneTermEqualSelector("spec.signerName", pki.ChassisSigner)},
			},
		},
		Controller:              config.Controller{SkipNameValidation: &again},
		Metrics:                 metricsserver.Options{BindAddress: "0"}, // the process serves metrics and health, whether or not it leads
		HealthProbeBindAddress:  "0",
		GracefulShutdownTimeout: &grace,
	}, nil
}

// Lease returns the lease of the operands. It tolerates a slower API server than the operator's lease, because
// nothing waits for the operands.
func Lease(o options.Operands) leadership.Lease {
	return leadership.Lease{Namespace: o.Namespace, Name: leaseName, Identity: o.Identity,
		Duration: 20 * time.Second, Renew: 15 * time.Second, Retry: 2 * time.Second}
}

// Setup registers the reconcilers.
func Setup(mgr ctrl.Manager, o Options) error {
	if o.Facts.Image == "" || o.Facts.Namespace == "" || o.Facts.APIServerHost == "" {
		return fmt.Errorf("image %q, namespace %q, API server %q: none may be empty", o.Facts.Image, o.Facts.Namespace,
			o.Facts.APIServerHost)
	}
	if o.SendOrder == nil {
		o.SendOrder = member.Send
	}
	events := mgr.GetEventRecorder("weft-operands")
	return errors.Join(
		(&Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: events, Facts: o.Facts, Now: o.Now, Patience: o.Patience,
			SendOrder: o.SendOrder}).setup(mgr),
		(&Signer{Client: mgr.GetClient(), Namespace: o.Facts.Namespace, Now: o.Now}).setup(mgr),
		(&OperatorCondition{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Now: o.Now,
			Object: types.NamespacedName{Namespace: o.Facts.Namespace, Name: o.OperatorCondition}}).setup(mgr))
}
