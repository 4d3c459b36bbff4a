package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	exitcode "k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"
)

const (
	// leaseName is the operator's lease. Its holder is the UID of the leading pod.
	leaseName = "weft-operator"
	// operatorLabels select the operator's pods, with the zone after it. operatorContainer is the container of the operator.
	operatorLabels    = "app.kubernetes.io/component=operator"
	operatorContainer = "operator"
	operatorProgram   = "/usr/bin/weft"
)

// answerPatience limits the time of a query. "weft admin" itself gives up earlier, unless its node hangs.
const answerPatience = 3 * time.Minute

var (
	// errNoLeader means that no operator is active.
	errNoLeader = errors.New("no operator leads")
	errNoAnswer = fmt.Errorf("no answer within %s", answerPatience)
)

// operator is the leading operator.
type operator struct{ inPod }

// findOperator returns the pod that holds the lease.
func (c *cluster) findOperator(ctx context.Context) (*operator, error) {
	config, err := c.restConfig()
	if err != nil {
		return nil, err
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	lease, err := api.CoordinationV1().Leases(c.namespace).Get(ctx, c.ofZone(leaseName), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%w: the lease %s/%s does not exist; "+
			"kubectl weft status shows why, and -n selects the operator's namespace",
			errNoLeader, c.namespace, c.ofZone(leaseName))
	}
	if err != nil {
		return nil, err
	}
	pods, err := api.CoreV1().Pods(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: c.ofZone(operatorLabels)})
	if err != nil {
		return nil, err
	}
	pod, err := leader(lease, pods.Items, c.ofZone(operatorLabels))
	if err != nil {
		return nil, err
	}
	return &operator{inPod{config, api, pod}}, nil
}

// leader returns the pod whose UID holds the lease, of the pods with these labels.
func leader(lease *coordinationv1.Lease, pods []corev1.Pod, labels string) (*corev1.Pod, error) {
	name := lease.Namespace + "/" + lease.Name
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return nil, fmt.Errorf("%w: the lease %s has no holder", errNoLeader, name)
	}
	for i := range pods {
		if string(pods[i].UID) == *lease.Spec.HolderIdentity {
			return &pods[i], nil
		}
	}
	return nil, fmt.Errorf("%w: the lease %s is held by %s, and no pod with %s has that UID",
		errNoLeader, name, *lease.Spec.HolderIdentity, labels)
}

// query runs "weft admin" with args in the operator's pod and decodes its answer.
func (o *operator) query(ctx context.Context, in io.Reader, into any, args ...string) error {
	text, err := o.admin(ctx, in, args...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("cannot parse the answer of pod %s/%s: %w", o.pod.Namespace, o.pod.Name, err)
	}
	return nil
}

// admin runs "weft admin" with args in the operator's pod. It passes in as standard input and returns standard
// output.
func (o *operator) admin(ctx context.Context, in io.Reader, args ...string) ([]byte, error) {
	return o.execute(ctx, operatorContainer, in, append([]string{operatorProgram, "admin"}, args...)...)
}

// inPod is a pod in which programs are executed.
type inPod struct {
	config *rest.Config
	api    kubernetes.Interface
	pod    *corev1.Pod
}

// execute runs a program in a container of the pod. It passes in as standard input and returns standard output. The
// error of a program that fails is what it writes to standard error, without the name of a program of Weft.
func (o *inPod) execute(ctx context.Context, container string, in io.Reader, command ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerPatience, errNoAnswer)
	defer cancel()
	var out bytes.Buffer
	if _, err := o.stream(ctx, container, in, &out, command...); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// stream runs a program like execute, and writes standard output to out as it arrives. It returns what a program that
// succeeds writes to standard error.
func (o *inPod) stream(ctx context.Context, container string, in io.Reader, out io.Writer, command ...string) (notes string, err error) {
	request := o.api.CoreV1().RESTClient().Post().Resource("pods").Namespace(o.pod.Namespace).Name(o.pod.Name).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: container, Command: command, Stdin: in != nil, Stdout: true, Stderr: true,
		}, scheme.ParameterCodec)
	executor, err := newExecutor(o.config, request)
	if err != nil {
		return "", err
	}
	var errs bytes.Buffer
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: out, Stderr: &errs})
	if _, ended := errors.AsType[exitcode.CodeExitError](err); ended && errs.Len() > 0 {
		return "", errors.New(withoutProgram(strings.TrimSpace(errs.String())))
	}
	if err != nil {
		if errors.Is(context.Cause(ctx), errNoAnswer) {
			err = errNoAnswer
		}
		return "", fmt.Errorf("cannot execute in pod %s/%s: %w", o.pod.Namespace, o.pod.Name, err)
	}
	return strings.TrimSpace(errs.String()), nil
}

// withoutProgram removes the name of a program of Weft from an error.
func withoutProgram(text string) string {
	for _, program := range []string{"weft: ", "weft-ovn: ", "weft-capture: "} {
		text = strings.TrimPrefix(text, program)
	}
	return text
}

// newExecutor uses WebSocket, and SPDY if the server or a proxy does not support WebSocket, as "kubectl exec" does.
func newExecutor(config *rest.Config, request *rest.Request) (remotecommand.Executor, error) {
	address := request.URL()
	webSocket, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, address.String())
	if err != nil {
		return nil, err
	}
	spdy, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, address)
	if err != nil {
		return nil, err
	}
	return remotecommand.NewFallbackExecutor(webSocket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
}
