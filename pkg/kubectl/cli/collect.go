package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/weft-network/weft/pkg/ports"
)

const (
	// maxLog is the maximum size of a container's log, in bytes. The end of the log is kept.
	maxLog = 8 << 20
	// partTimeout limits the time for one part, so that an unreachable node does not prevent the collection of the
	// other parts.
	partTimeout = time.Minute
)

// metricsPorts are the metrics ports of Weft's programs, by the component of their pods.
var metricsPorts = map[string]int{"operator": ports.OperatorMetrics, "agent": ports.AgentMetrics}

// objectKind is a kind to collect.
type objectKind struct {
	group, version, kind string
	own                  bool // only objects in the operator's namespace
}

// objectKinds lists the kinds to collect. It contains neither Secret nor ConfigMap; the programs' logs show how they
// read a ConfigMap.
var objectKinds = []objectKind{
	{group: "network.weft.dev", version: "v1alpha1", kind: "ClusterNetwork"},
	{group: "network.weft.dev", version: "v1alpha1", kind: "NodeNetwork"},
	{group: "network.weft.dev", version: "v1alpha1", kind: "EgressIP"},
	{group: "network.weft.dev", version: "v1alpha1", kind: "LoadBalancerPool"},
	{group: "network.weft.dev", version: "v1alpha1", kind: "BGPPeer"},
	{group: "network.weft.dev", version: "v1alpha1", kind: "BGPAdvertisement"},
	{group: "network.weft.dev", version: "v1alpha1", kind: "Network"},
	{group: "network.weft.dev", version: "v1alpha1", kind: "EgressFirewall"},
	{group: "network.weft.dev", version: "v1alpha1", kind: "EgressQoS"},
	{group: "network.weft.dev", version: "v1alpha1", kind: "ExternalRoute"},
	{version: "v1", kind: "Node"},
	{version: "v1", kind: "Pod", own: true},
	{group: "apps", version: "v1", kind: "Deployment", own: true},
	{group: "apps", version: "v1", kind: "DaemonSet", own: true},
	{group: "apps", version: "v1", kind: "StatefulSet", own: true},
	{group: "coordination.k8s.io", version: "v1", kind: "Lease", own: true},
	{group: "events.k8s.io", version: "v1", kind: "Event", own: true},
}

// collector reads the parts of a bundle.
type collector struct {
	cluster *cluster
	api     client.Client
	typed   kubernetes.Interface
}

func newCollector(target *cluster) (*collector, error) {
	api, err := target.watchClient()
	if err != nil {
		return nil, err
	}
	config, err := target.restConfig()
	if err != nil {
		return nil, err
	}
	typed, err := kubernetes.NewForConfig(config)
	return &collector{target, api, typed}, err
}

// reach returns an error if the API server does not answer, because there is nothing to collect then. A refusal is an
// answer.
func (c *collector) reach(ctx context.Context) error {
	_, err := body(ctx, c.typed.CoreV1().RESTClient().Get().AbsPath("/version"))
	if _, failed := errors.AsType[*url.Error](err); failed {
		return err
	}
	return nil
}

// collect adds all parts.
func (c *collector) collect(ctx context.Context, a *archive) {
	part := func(name string, read func(context.Context) ([]byte, error)) {
		if ctx.Err() != nil {
			return
		}
		limited, cancel := context.WithTimeout(ctx, partTimeout)
		defer cancel()
		text, err := read(limited)
		a.add(name, text, err)
	}
	part("status.txt", func(ctx context.Context) ([]byte, error) {
		report, err := readStatus(ctx, c.api, c.cluster.namespace, time.Now())
		if err != nil {
			return nil, err
		}
		return []byte(statusText(report)), nil
	})
	for _, kind := range objectKinds {
		part("objects/"+kind.kind+".yaml", func(ctx context.Context) ([]byte, error) { return c.objects(ctx, kind) })
	}
	part("objects/Event-of-nodes.yaml", c.clusterEvents)
	for _, query := range []string{"drift", "check"} {
		part(query+".json", func(ctx context.Context) ([]byte, error) { return c.query(ctx, query) })
	}
	var pods corev1.PodList
	if err := c.api.List(ctx, &pods, client.InNamespace(c.cluster.namespace)); err != nil {
		a.add("logs", nil, err)
		return
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		for _, container := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
			name := fmt.Sprintf("logs/%s/%s", pod.Name, container.Name)
			part(name+".log", func(ctx context.Context) ([]byte, error) { return c.log(ctx, pod.Name, container.Name, false) })
			if container.RestartCount > 0 {
				part(name+".previous.log", func(ctx context.Context) ([]byte, error) {
					return c.log(ctx, pod.Name, container.Name, true)
				})
			}
		}
		if port := metricsPorts[pod.Labels["app.kubernetes.io/component"]]; port != 0 {
			part("metrics/"+pod.Name+".txt", func(ctx context.Context) ([]byte, error) { return c.metrics(ctx, pod.Name, port) })
		}
	}
}

// objects returns the objects of a kind as YAML documents.
func (c *collector) objects(ctx context.Context, kind objectKind) ([]byte, error) {
	return c.objectsIf(ctx, kind, func(map[string]any) bool { return true })
}

func (c *collector) objectsIf(
	ctx context.Context, kind objectKind, wanted func(map[string]any) bool, options ...client.ListOption,
) ([]byte, error) {
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: kind.group, Version: kind.version, Kind: kind.kind + "List"})
	if kind.own {
		options = append(options, client.InNamespace(c.cluster.namespace))
	}
	if err := c.api.List(ctx, &list, options...); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for i := range list.Items {
		if !wanted(list.Items[i].Object) {
			continue
		}
		strip(&list.Items[i])
		text, err := yaml.Marshal(list.Items[i].Object)
		if err != nil {
			return nil, err
		}
		out.WriteString("---\n")
		out.Write(text)
	}
	return out.Bytes(), nil
}

// clusterEvents returns Weft's events of cluster-scoped objects, which Kubernetes keeps in the namespace "default".
func (c *collector) clusterEvents(ctx context.Context) ([]byte, error) {
	kind := objectKind{group: "events.k8s.io", version: "v1", kind: "Event"}
	return c.objectsIf(ctx, kind, func(o map[string]any) bool {
		controller, _, _ := unstructured.NestedString(o, "reportingController")
		return strings.HasPrefix(controller, "weft")
	}, client.InNamespace(metav1.NamespaceDefault))
}

// query queries the leading operator.
func (c *collector) query(ctx context.Context, query string) ([]byte, error) {
	o, err := c.cluster.findOperator(ctx)
	if err != nil {
		return nil, err
	}
	var answer json.RawMessage
	if err := o.query(ctx, nil, &answer, query); err != nil {
		return nil, err
	}
	return answer, nil
}

func (c *collector) log(ctx context.Context, pod, container string, previous bool) ([]byte, error) {
	limit := int64(maxLog)
	lines := int64(100_000) // LimitBytes counts from the beginning, but the end of the log is more important
	return body(ctx, c.typed.CoreV1().Pods(c.cluster.namespace).GetLogs(pod, &corev1.PodLogOptions{
		Container: container, Previous: previous, Timestamps: true, LimitBytes: &limit, TailLines: &lines}))
}

// metrics reads a pod's metrics through the API server's proxy.
func (c *collector) metrics(ctx context.Context, pod string, port int) ([]byte, error) {
	return body(ctx, c.typed.CoreV1().RESTClient().Get().Namespace(c.cluster.namespace).Resource("pods").
		Name(fmt.Sprintf("%s:%d", pod, port)).SubResource("proxy").Suffix("metrics"))
}

// body returns the raw body of an answer. Its error contains the API server's message, whereas Raw and DoRaw
// return "unknown".
func body(ctx context.Context, request *rest.Request) ([]byte, error) {
	result := request.Do(ctx)
	if err := result.Error(); err != nil {
		return nil, err
	}
	return result.Raw()
}
