// Package agent_test runs the agent as cmd/weft-agent does, with a real API server, OVN databases, ovs-vswitchd and
// ovn-controller, in namespaces of its own.
package agent_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/go-logr/logr/funcr"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/isolation"
	"github.com/weft-network/weft/test/lab/tools"
	"github.com/weft-network/weft/test/longwatch"
	"github.com/weft-network/weft/test/rbac"
)

// One API server serves all tests, which run one after the other.
var (
	scheme     = runtime.NewScheme()
	restConfig *rest.Config
	api        client.Client // writes, and reads without a cache
	view       cache.Cache   // reads; each of its events calls changes.notify
	changes    = &notifier{}
)

// notifier wakes goroutines that wait for any change.
type notifier struct {
	mu      sync.Mutex
	waiting chan struct{}
}

// next returns a channel that is closed at the next change.
func (n *notifier) next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.waiting == nil {
		n.waiting = make(chan struct{})
	}
	return n.waiting
}

func (n *notifier) notify() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.waiting != nil {
		close(n.waiting)
		n.waiting = nil
	}
}

// log has the agents' log lines.
var log = &journal{}

type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(prefix, args string) {
	j.mu.Lock()
	j.lines = append(j.lines, prefix+": "+args)
	j.mu.Unlock()
	if testing.Verbose() {
		fmt.Println(prefix+":", args)
	}
	changes.notify()
}

func (j *journal) length() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.lines)
}

// since returns the lines after the first ones.
func (j *journal) since(first int) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.lines[first:], "\n")
}

// isTrue returns an error with the text unless the condition holds.
func isTrue(holds bool, text string) error {
	if holds {
		return nil
	}
	return errors.New(text)
}

// TestMain runs the tests as the first process of new namespaces. Processes, mounts and links end with it, whatever
// fails.
func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(isolation.Run(unix.CLONE_NEWNET|unix.CLONE_NEWNS|unix.CLONE_NEWPID, func() int {
		ctrl.SetLogger(funcr.New(log.add, funcr.Options{}))
		code, err := run(m)
		if err != nil {
			fmt.Fprintln(os.Stderr, "agent:", err)
			return 1
		}
		return code
	}))
}

func run(m *testing.M) (code int, err error) {
	if err := isolation.Furnish(); err != nil {
		return 0, fmt.Errorf("prepare the namespaces: %w", err)
	}
	programs, err := tools.DefaultCache()
	if err != nil {
		return 0, err
	}
	assets, err := programs.Envtest()
	if err != nil {
		return 0, err
	}
	environment := &envtest.Environment{
		BinaryAssetsDirectory: assets,
		CRDDirectoryPaths:     []string{"../../config/crd/bases", "../../config/crd/external"},
		ErrorIfCRDPathMissing: true,
	}
	// Without a default route the server cannot determine its own address.
	environment.ControlPlane.GetAPIServer().Configure().Set("advertise-address", "192.0.2.1")
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
	if restConfig, err = rbac.As(ctx, restConfig, "agent", "default"); err != nil {
		return 0, err
	}
	before := goleak.IgnoreCurrent()
	code = m.Run()
	if code == 0 {
		// A controller-runtime queue that ends with a request in it never delivers the request and holds its lock forever.
		const queue = "sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue.(*priorityqueue[...])."
		ignored := []goleak.Option{before}
		for _, function := range []string{"handleReadyItems", "handleAddBuffer", "handleWaitingItems", "logState"} {
			ignored = append(ignored, goleak.IgnoreAnyFunction(queue+function))
		}
		err = goleak.Find(ignored...)
	}
	return code, err
}

// watch creates the client and the cache of the API server.
func watch(ctx context.Context) (err error) {
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), networkv1alpha1.AddToScheme(scheme), nadv1.AddToScheme(scheme)); err != nil {
		return err
	}
	if api, err = client.New(restConfig, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	if view, err = cache.New(longwatch.Of(restConfig), cache.Options{Scheme: scheme}); err != nil {
		return err
	}
	handler := toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { changes.notify() },
		UpdateFunc: func(any, any) { changes.notify() },
		DeleteFunc: func(any) { changes.notify() },
	}
	for _, kind := range []client.Object{&corev1.Node{}, &networkv1alpha1.NodeNetwork{}} {
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
