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
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/isolation"
	"github.com/weft-network/weft/test/kubeapiserver"
	"github.com/weft-network/weft/test/poll"
	"github.com/weft-network/weft/test/rbac"
)

// One API server serves all tests, which run one after the other.
var (
	scheme     = runtime.NewScheme()
	restConfig *rest.Config
	api        client.Client // writes, and reads without a cache
	view       cache.Cache   // reads; each of its events calls changes.Notify
	changes    = &poll.Changes{}
)

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
	changes.Notify()
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
	// Without a default route the server cannot determine its own address.
	server, err := kubeapiserver.Start(kubeapiserver.Options{Definitions: true, Flags: map[string]string{"advertise-address": "192.0.2.1"}})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	restConfig = server.Config
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := watch(ctx); err != nil {
		return 0, err
	}
	if restConfig, err = rbac.As(ctx, restConfig, "agent", "default"); err != nil {
		return 0, err
	}
	before := goleak.IgnoreCurrent()
	if code = m.Run(); code == 0 {
		err = leaked(before)
	}
	return code, err
}

// leaked returns an error if goroutines run that did not run before. A controller-runtime queue that ends with a request in it never
// delivers the request and holds its lock forever.
func leaked(before goleak.Option) error {
	const queue = "sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue.(*priorityqueue[...])."
	ignored := []goleak.Option{before}
	for _, function := range []string{"handleReadyItems", "handleAddBuffer", "handleWaitingItems", "logState"} {
		ignored = append(ignored, goleak.IgnoreAnyFunction(queue+function))
	}
	return goleak.Find(ignored...)
}

// watch creates the client and the cache of the API server.
func watch(ctx context.Context) (err error) {
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), networkv1alpha1.AddToScheme(scheme), nadv1.AddToScheme(scheme)); err != nil {
		return err
	}
	if api, err = client.New(restConfig, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	view, err = kubeapiserver.View(ctx, restConfig, scheme, changes.Notify, &corev1.Node{}, &networkv1alpha1.NodeNetwork{})
	return err
}
