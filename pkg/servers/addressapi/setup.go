package addressapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// ManagerOptions returns the options of the manager that Setup needs.
func ManagerOptions() (ctrl.Options, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), networkv1alpha1.AddToScheme(scheme)); err != nil {
		return ctrl.Options{}, err
	}
	return ctrl.Options{
		Scheme:                 scheme,
		Cache:                  cache.Options{DefaultTransform: cache.TransformStripManagedFields(), DefaultUnsafeDisableDeepCopy: new(true)},
		Metrics:                metricsserver.Options{BindAddress: "0"}, // the program serves metrics and health
		HealthProbeBindAddress: "0",
	}, nil
}

// Settings are the settings of a server besides the manager.
type Settings struct {
	// Listener is where clients connect, with the certificate.
	Listener    net.Listener
	Certificate *Certificate
	Audiences   []string
	Observe     func(operation string, status int, took time.Duration)
	// Ready is called when requests are answered.
	Ready func()
}

// Setup adds a server to a manager.
func Setup(mgr ctrl.Manager, s Settings) error {
	for _, object := range []client.Object{&networkv1alpha1.FloatingIP{}, &networkv1alpha1.IPPool{}} {
		if _, err := mgr.GetCache().GetInformer(context.Background(), object); err != nil {
			return fmt.Errorf("watch %T: %w", object, err)
		}
	}
	log := mgr.GetLogger().WithName("api")
	s.Certificate.Log = log
	api, _, err := New(Options{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Audiences: s.Audiences, Now: time.Now,
		Observe: s.Observe, Log: log})
	if err != nil {
		return err
	}
	return mgr.Add(&server{api, s})
}

// server runs once the caches are in sync.
type server struct {
	*API
	Settings
}

// Start implements manager.Runnable.
func (s *server) Start(ctx context.Context) error {
	if s.Ready != nil {
		s.Ready()
	}
	return s.Serve(ctx, s.Listener, s.Certificate)
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (s *server) NeedLeaderElection() bool { return false }
