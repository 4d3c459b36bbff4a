package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/trace"
)

const (
	// centralLabels select the pods of the databases. northdContainer is a container with ovn-trace and the sockets of
	// both databases.
	centralLabels   = networkv1alpha1.ComponentLabel + "=central"
	northdContainer = "northd"
	ovnProgram      = "/usr/bin/weft-ovn"
)

// errNoDatabases means that no pod of the databases runs.
var errNoDatabases = errors.New("no running pod of the OVN databases")

// remoteTracer runs "weft-ovn trace" in a pod of the databases.
type remoteTracer struct {
	inPod
	of      string       // the part of the network whose databases they are, in notes
	members []corev1.Pod // the running pods of the databases; the tracer's own is the first
}

// findTracer returns a tracer in a running pod of the databases.
func (c *cluster) findTracer(ctx context.Context) (*remoteTracer, error) {
	config, err := c.restConfig()
	if err != nil {
		return nil, err
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	pods, err := api.CoreV1().Pods(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: c.ofZone(centralLabels)})
	if err != nil {
		return nil, err
	}
	members := slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return !runsNorthd(p) })
	if len(members) == 0 {
		return nil, fmt.Errorf("namespace %s has %w (%s): kubectl weft status shows why, -n selects "+
			"Weft's namespace, and with databases outside the cluster run ovn-trace beside them", c.namespace, errNoDatabases,
			c.ofZone(centralLabels))
	}
	of := "the whole network"
	if c.zone != "" {
		of = trace.ZoneText(networkv1alpha1.ZoneName(c.zone))
	}
	return &remoteTracer{inPod{config, api, &members[0]}, of, members}, nil
}

func runsNorthd(pod corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.Name == northdContainer && s.State.Running != nil
	})
}

// Run implements trace.Tracer.
func (t *remoteTracer) Run(ctx context.Context, request trace.Request) (answer trace.Answer, err error) {
	text, err := json.Marshal(request)
	if err != nil {
		return answer, err
	}
	out, err := t.execute(ctx, northdContainer, bytes.NewReader(text), ovnProgram, "trace")
	if err != nil {
		if strings.Contains(err.Error(), "the first argument must be") {
			return answer, fmt.Errorf("pod %s/%s is of a Weft that cannot trace yet: upgrade it", t.pod.Namespace, t.pod.Name)
		}
		return answer, fmt.Errorf("cannot trace in pod %s/%s: %w", t.pod.Namespace, t.pod.Name, err)
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		return answer, fmt.Errorf("cannot parse the answer of pod %s/%s: %w", t.pod.Namespace, t.pod.Name, err)
	}
	return answer, nil
}
