// Package forbidden tests who may write what. It applies the product's manifests to a real API server as a user
// does. Then agents, users, administrators and the operator, each with a token, try forbidden and allowed writes.
package forbidden

import (
	"context"
	"fmt"
	"os/exec"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/kubeapiserver"
	"github.com/weft-network/weft/test/lab/tools"
)

// bundle is the file that a user applies.
const bundle = "../../dist/weft.yaml"

var (
	programs   tools.Cache
	kubeconfig string // file of the administrator's kubeconfig
	restConfig *rest.Config
	admin      *kubernetes.Clientset
)

// TestMain starts the API server once for all tests.
func TestMain(m *testing.M) { kubeapiserver.Main(m, kubeapiserver.Options{}, prepare) }

func prepare(ctx context.Context, server *kubeapiserver.Server) (err error) {
	restConfig, programs = server.Config, server.Programs
	if admin, err = kubernetes.NewForConfig(restConfig); err != nil {
		return err
	}
	if kubeconfig, err = server.Kubeconfig("admin", "system:masters"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return install(ctx)
}

// install applies the bundle with one command and returns when its policies are in force. The API server reads
// policies and bindings in the order of their creation, and weft-pods is the last.
func install(ctx context.Context) error {
	if err := kubectl(ctx, "apply", "-f", bundle); err != nil {
		return err
	}
	if err := kubectl(ctx, "wait", "--for=condition=Established", "--timeout=30s",
		"crd/clusternetworks.network.weft.dev", "crd/nodenetworks.network.weft.dev",
		"crd/egressfirewalls.network.weft.dev", "crd/egressqoses.network.weft.dev", "crd/egressips.network.weft.dev",
		"crd/externalroutes.network.weft.dev",
		"crd/ippools.network.weft.dev", "crd/floatingips.network.weft.dev", "crd/loadbalancerpools.network.weft.dev",
		"crd/bgppeers.network.weft.dev", "crd/bgpadvertisements.network.weft.dev"); err != nil {
		return err
	}
	return enforced(ctx, true)
}

// enforced waits until the policies are in force, or no longer in force.
func enforced(ctx context.Context, want bool) error {
	probe := podOf("default", "probe", "")
	probe.Annotations = map[string]string{v1alpha1.PodNetworksAnnotation: "probe"}
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, err := admin.CoreV1().Pods("default").Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil && !apierrors.IsForbidden(err) {
			return false, err
		}
		return apierrors.IsForbidden(err) == want, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for policies in force to be %t: %w", want, err)
	}
	return nil
}

func kubectl(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, programs.Bin("kubectl"), append([]string{"--kubeconfig=" + kubeconfig},
		args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("kubectl %v: %w\n%s", args, err, out)
	}
	return nil
}

// podOf returns a pod that no kubelet runs.
func podOf(namespace, name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "example.org/c:1"}}},
	}
}
