package histories

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime/pprof"
	"sync"
	"time"

	ipamclaimsv1alpha1 "github.com/k8snetworkplumbingwg/ipamclaims/pkg/crd/ipamclaims/v1alpha1"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	cniv1beta1 "github.com/weft-network/weft/apis/cni/v1beta1"
	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/unit"
)

// countDelay bounds how far counts in the ClusterNetwork's status may lag behind in a history.
const countDelay = 20 * time.Millisecond

// operator is one process, from its start to its end or crash.
type operator struct {
	link   *link
	wire   *wire
	engine *ovndb.Engine
	cancel context.CancelFunc
	ended  chan struct{} // closed when the manager has returned, with err
	err    error

	mu    sync.Mutex
	crash bool
}

// cluster holds the servers to which a process connects.
type cluster struct {
	config    *rest.Config      // for the API server; its transport is wrapped
	transport http.RoundTripper // replaces the connection to config.Host unless nil
	mapper    meta.RESTMapper
	database  string // the socket of the ovsdb-server
	zone      kind.Zone
	dir       string // for sockets
}

// newMapper maps the kinds of the histories, so that no process runs discovery.
func newMapper() meta.RESTMapper {
	core, own := corev1.SchemeGroupVersion, networkv1alpha1.GroupVersion
	admins := schema.GroupVersion{Group: policyv1alpha2.GroupName, Version: policyv1alpha2.GroupVersion.Version}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{core, own, discoveryv1.SchemeGroupVersion,
		networkingv1.SchemeGroupVersion, appsv1.SchemeGroupVersion, batchv1.SchemeGroupVersion, admins, nadv1.SchemeGroupVersion,
		ipamclaimsv1alpha1.SchemeGroupVersion,
		authorizationv1.SchemeGroupVersion, cniv1beta1.GroupVersion})
	mapper.Add(core.WithKind("Pod"), meta.RESTScopeNamespace)
	mapper.Add(core.WithKind("Service"), meta.RESTScopeNamespace)
	mapper.Add(discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), meta.RESTScopeNamespace)
	mapper.Add(networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"), meta.RESTScopeNamespace)
	mapper.Add(admins.WithKind("ClusterNetworkPolicy"), meta.RESTScopeRoot)
	mapper.Add(own.WithKind("EgressFirewall"), meta.RESTScopeNamespace)
	mapper.AddSpecific(own.WithKind("EgressQoS"), own.WithResource("egressqoses"), own.WithResource("egressqos"), meta.RESTScopeNamespace)
	mapper.AddSpecific(nadv1.SchemeGroupVersion.WithKind("NetworkAttachmentDefinition"),
		nadv1.SchemeGroupVersion.WithResource("network-attachment-definitions"),
		nadv1.SchemeGroupVersion.WithResource("network-attachment-definition"), meta.RESTScopeNamespace)
	mapper.Add(ipamclaimsv1alpha1.SchemeGroupVersion.WithKind("IPAMClaim"), meta.RESTScopeNamespace)
	mapper.AddSpecific(cniv1beta1.GroupVersion.WithKind("MultiNetworkPolicy"),
		cniv1beta1.GroupVersion.WithResource("multi-networkpolicies"),
		cniv1beta1.GroupVersion.WithResource("multi-networkpolicy"), meta.RESTScopeNamespace)
	mapper.Add(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, meta.RESTScopeRoot)
	for _, kind := range []string{"Deployment", "StatefulSet", "ReplicaSet", "DaemonSet"} {
		mapper.Add(appsv1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	mapper.Add(batchv1.SchemeGroupVersion.WithKind("Job"), meta.RESTScopeNamespace)
	mapper.Add(authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview"), meta.RESTScopeRoot)
	for _, kind := range []string{"Node", "Namespace"} {
		mapper.Add(core.WithKind(kind), meta.RESTScopeRoot)
	}
	for _, kind := range []string{"ClusterNetwork", "NodeNetwork", "EgressIP", "Network", "IPPool", "FloatingIP", "LoadBalancerPool",
		"BGPPeer", "BGPAdvertisement", "ExternalRoute"} {
		mapper.Add(own.WithKind(kind), meta.RESTScopeRoot)
	}
	return mapper
}

// restConfig returns a client's configuration whose requests go through wrap.
func (c *cluster) restConfig(wrap func(http.RoundTripper) http.RoundTripper) *rest.Config {
	config := rest.CopyConfig(c.config)
	config.ContentType, config.QPS = "application/json", -1
	if c.transport != nil {
		config.Transport = wrap(c.transport)
	} else {
		config.Wrap(wrap)
	}
	return config
}

// startOperator starts a process as main.go does, but without a lease, because the history decides which process
// leads. Its first lists are as many revisions old as stale says. Lists of the resources in lag stay old. It calls
// notify when the process crashes or ends.
func startOperator(c *cluster, name string, stale int64, lag map[string]int64, notify func()) (*operator, error) {
	o := &operator{ended: make(chan struct{})}
	crashed := func() {
		o.mu.Lock()
		o.crash = true
		o.mu.Unlock()
		notify()
	}
	wire, err := startWire(c.dir, name, c.database, crashed, notify)
	if err != nil {
		return nil, err
	}
	o.wire = wire
	config := c.restConfig(func(next http.RoundTripper) http.RoundTripper {
		if o.link == nil { // the manager's clients share one
			o.link = newLink(next, stale, lag, crashed)
		}
		return o.link
	})
	mgr, err := newManager(config, c.mapper)
	if err == nil {
		o.engine, err = controllers.Setup(mgr, controllers.Options{Zone: c.zone, Northbound: []string{wire.endpoint()},
			CountDelay: countDelay, Lookup: lookup,
			FirstConnection: patience}) // on a busy machine, connecting may take as long as everything else
	}
	if err != nil {
		wire.kill()
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	o.cancel = cancel
	go func() {
		o.err = mgr.Start(ctx)
		close(o.ended)
		notify()
	}()
	return o, nil
}

func newManager(config *rest.Config, mapper meta.RESTMapper) (ctrl.Manager, error) {
	managerOptions, err := controllers.ManagerOptions()
	if err != nil {
		return nil, err
	}
	same := true
	managerOptions.Controller.SkipNameValidation = &same // an earlier process of the history used the same names
	managerOptions.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil }
	return ctrl.NewManager(config, managerOptions)
}

// newClient returns the history's own client, which no fault affects.
func newClient(c *cluster) (client.Client, error) {
	managerOptions, err := controllers.ManagerOptions()
	if err != nil {
		return nil, err
	}
	config := c.restConfig(func(next http.RoundTripper) http.RoundTripper { return next })
	return client.New(config, client.Options{Scheme: managerOptions.Scheme, Mapper: c.mapper})
}

// kill ends the process as a crash does: nothing that it sends reaches a server any more.
func (o *operator) kill() {
	o.link.kill()
	o.wire.kill()
	o.cancel()
}

// pause stops a process with a held commit, as seen from outside, or resumes it together with its commit. It gets no
// new connections.
func (o *operator) pause(on bool) {
	o.wire.refuse(true)
	o.link.pause(on)
	o.wire.rows.set(on)
	if !on {
		o.wire.release()
	}
}

// hasCrashed reports whether a fault ended the process.
func (o *operator) hasCrashed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.crash
}

// hasEnded reports whether the manager returned.
func (o *operator) hasEnded() bool {
	select {
	case <-o.ended:
		return true
	default:
		return false
	}
}

// end waits until a stopped process has ended.
func (o *operator) end() error {
	select {
	case <-o.ended:
		return nil
	case <-time.After(patience):
		return fmt.Errorf("the process did not end within %s; the goroutines are in %s", patience, stacks())
	}
}

// stop ends the process in order and returns its own error. It first releases held events, because a manager that is
// stopped while its caches are empty waits for them.
func (o *operator) stop() error {
	o.link.pause(false)
	o.cancel()
	if err := o.end(); err != nil {
		return err
	}
	o.wire.kill()
	return o.outcome()
}

// outcome returns the error of a process that has ended.
func (o *operator) outcome() error {
	if errors.Is(o.err, context.DeadlineExceeded) {
		return nil // the manager stopped waiting for its controllers (controllers.shutdownGrace)
	}
	return o.err
}

// settle returns when the engine has processed all earlier requests.
func (o *operator) settle(ctx context.Context) error {
	err := o.engine.Apply(ctx, unit.Unit{Key: unit.NewKey("history", "barrier")})
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the engine does not answer: %w", err)
	}
	return err
}

// stacks writes the stacks of all goroutines to a file and returns its name.
func stacks() string {
	f, err := os.CreateTemp("", "weft-history-goroutines-")
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if err := pprof.Lookup("goroutine").WriteTo(f, 2); err != nil {
		return err.Error()
	}
	return f.Name()
}
