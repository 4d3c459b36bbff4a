//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/uplink"
	"github.com/weft-network/weft/test/lab"
	"github.com/weft-network/weft/test/poll"
)

// testbed is a running lab with a client of its API server.
type testbed struct {
	*lab.Cluster
	api     client.WithWatch
	peerDir string   // contains the peer program, on this machine and on the nodes
	bare    bool     // the product brought OVN and Open vSwitch
	central string   // the machine with OVN's databases
	moved   []string // the nodes' links that the product moved onto bridges
}

func newTestbed(ctx context.Context, cluster *lab.Cluster) (*testbed, error) {
	api, err := newClient(cluster)
	if err != nil {
		return nil, err
	}
	b := &testbed{Cluster: cluster, api: api, peerDir: filepath.Join(cluster.Dir, "e2e")}
	if b.bare, err = cluster.Bare(); err != nil {
		return nil, err
	}
	if b.bare {
		b.moved = []string{"eth0"}
	}
	if b.central, err = cluster.Central(ctx); err != nil {
		return nil, err
	}
	err = errors.Join(buildPeer(ctx, b.peerDir), makeNamespace(ctx, b))
	if b.bare && os.Getenv(divided) != "" && err == nil {
		err = b.divide(ctx)
	}
	return b, err
}

// bridge is the bridge with the nodes' addresses: the lab's or the product's.
func (b *testbed) bridge() string {
	if b.bare {
		return uplink.BridgeName("eth0")
	}
	return "br-ex"
}

func newClient(cluster *lab.Cluster) (client.WithWatch, error) {
	config, err := clientcmd.BuildConfigFromFlags("", cluster.KubeConfig())
	if err != nil {
		return nil, err
	}
	config.Dial = cluster.DialContext // the API server is in the lab's network
	config.QPS, config.Burst = 200, 400
	config.WarningHandler = rest.NoWarnings{}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), networkv1alpha1.AddToScheme(scheme), nadv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
}

// named returns the key of an object in the tests' namespace.
func named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// cleanup is the context for a test's cleanup, when the test's own context has ended.
func cleanup() context.Context { return context.Background() }

func ignoreExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// mustExec runs a program inside a machine and fails the test on an error.
func (b *testbed) mustExec(t *testing.T, machine string, argv ...string) string {
	t.Helper()
	out, err := b.Exec(t.Context(), machine, argv...)
	must(t, err)
	return string(out)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually fails the test unless check succeeds in time. It returns how long that took.
func eventually(t *testing.T, timeout time.Duration, check func() error) time.Duration {
	t.Helper()
	start := time.Now()
	must(t, poll.Slowly(t.Context(), timeout, check))
	return time.Since(start)
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }
