package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/lab"
	"github.com/weft-network/weft/test/lab/tools"
	"github.com/weft-network/weft/test/poll"
	"github.com/weft-network/weft/test/sandbox"
)

// Bed is a running lab with a client of its API server and a namespace for the test's objects.
type Bed struct {
	*lab.Cluster
	API       client.WithWatch
	Namespace string
}

// New connects to a running lab and creates the namespace.
func New(ctx context.Context, cluster *lab.Cluster, namespace string) (*Bed, error) {
	api, err := newClient(cluster)
	if err != nil {
		return nil, err
	}
	b := &Bed{Cluster: cluster, API: api, Namespace: namespace}
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := api.Create(ctx, made); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	return b, poll.Slowly(ctx, 30*time.Second, func() error {
		return api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "default"}, &corev1.ServiceAccount{})
	})
}

func newClient(cluster *lab.Cluster) (client.WithWatch, error) {
	config, err := clientcmd.BuildConfigFromFlags("", cluster.KubeConfig())
	if err != nil {
		return nil, err
	}
	config.Dial = cluster.DialContext // the API server is in the lab's network
	config.QPS, config.Burst = 500, 1000
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), networkv1alpha1.AddToScheme(scheme), nadv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
}

// Build compiles a package of this tree, or of a module in one of its folders, to a file that the nodes see too.
func (b *Bed) Build(ctx context.Context, folder, pkg string) (path string, err error) {
	root, err := tools.SourceRoot()
	if err != nil {
		return "", err
	}
	path = filepath.Join(b.Dir, "bed", filepath.Base(pkg))
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, pkg)
	cmd.Dir, cmd.Env = filepath.Join(root, folder), append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, text)
	}
	return path, nil
}

// Sandboxes starts the sandbox server of a node.
func (b *Bed) Sandboxes(ctx context.Context, node string) (*sandbox.Client, error) {
	path, err := b.Build(ctx, ".", "./test/sandbox/cmd/sandboxd")
	if err != nil {
		return nil, err
	}
	cmd, err := b.Command(context.WithoutCancel(ctx), node, path) // the server ends with its input
	if err != nil {
		return nil, err
	}
	return sandbox.Start(cmd)
}
