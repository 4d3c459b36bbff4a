// Package operand applies what the operator runs in a cluster (pkg/operand) and keeps it so, and signs the certificates of chassis. It needs the API
// server and nothing of OVN: it makes OVN. It has a process and a lease of its own, and so goes on where the northbound database is lost.
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
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/member"
	"github.com/weft-network/weft/pkg/operand"
	"github.com/weft-network/weft/pkg/options"
	"github.com/weft-network/weft/pkg/pki"
)

const (
	leaseName     = "weft-operands"
	renewDeadline = 10 * time.Second
	// externalDatabases is the ConfigMap by which an administrator says where OVN's databases are.
	externalDatabases = "weft-ovn"
)

// Options are what differs between clusters.
type Options struct {
	Facts operand.Facts // without the place
	Now   func() time.Time
	// Patience is how long what was replaced may take to work before a rollout stops.
	Patience time.Duration
	// Ask gives a member of the databases its order; nil: member.Ask does.
	Ask func(ctx context.Context, address string, id member.Identity, order member.Order) (member.State, error)
}

// ManagerOptions are those of a manager that Setup needs: it sees no Secrets but those of its namespace.
func ManagerOptions(cluster *rest.Config, o options.Operands) (ctrl.Options, error) {
	namespace := o.Namespace
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), appsv1.AddToScheme(scheme), certificatesv1.AddToScheme(scheme), eventsv1.AddToScheme(scheme), networkv1alpha1.AddToScheme(scheme)); err != nil {
		return ctrl.Options{}, err
	}
	own := cache.ByObject{Namespaces: map[string]cache.Config{namespace: {}}}
	external := cache.ByObject{Namespaces: map[string]cache.Config{namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", externalDatabases)}}}
	// Made here, since the manager's own tells of itself by events of the old kind.
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, namespace, leaseName, resourcelock.ResourceLockConfig{Identity: o.Identity}, cluster, renewDeadline)
	if err != nil {
		return ctrl.Options{}, fmt.Errorf("lease %s/%s: %w", namespace, leaseName, err)
	}
	return ctrl.Options{
		Scheme: scheme,
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				&corev1.Secret{}: own, &appsv1.Deployment{}: own, &appsv1.StatefulSet{}: own, &appsv1.DaemonSet{}: own,
				&corev1.ConfigMap{}: external,
				&corev1.Pod{}:       {Namespaces: own.Namespaces, Label: labels.SelectorFromSet(labels.Set{"app.kubernetes.io/name": "weft"})},
				&certificatesv1.CertificateSigningRequest{}: {Field: fields.OneTermEqualSelector("spec.signerName", pki.ChassisSigner)},
			},
		},
		HealthProbeBindAddress: o.Health, Metrics: metricsserver.Options{BindAddress: o.Metrics},
		LeaderElection: o.LeaderElection, LeaderElectionResourceLockInterface: lock, LeaderElectionReleaseOnCancel: true,
	}, nil
}

// Setup registers the reconcilers.
func Setup(mgr ctrl.Manager, o Options) error {
	if o.Facts.Image == "" || o.Facts.Namespace == "" || o.Facts.APIServerHost == "" {
		return fmt.Errorf("image %q, namespace %q, API server %q: none may be empty", o.Facts.Image, o.Facts.Namespace, o.Facts.APIServerHost)
	}
	if o.Ask == nil {
		o.Ask = member.Ask
	}
	events := mgr.GetEventRecorder("weft-operands")
	return errors.Join(
		(&Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: events, Facts: o.Facts, Now: o.Now, Patience: o.Patience, Ask: o.Ask}).setup(mgr),
		(&Signer{Client: mgr.GetClient(), Namespace: o.Facts.Namespace, Now: o.Now}).setup(mgr))
}
