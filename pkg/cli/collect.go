package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
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
)

const (
	// maxLog bounds the log of a container, in bytes: its end counts.
	maxLog = 8 << 20
	// partTimeout bounds one part: a node that is away must not keep the others from being collected.
	partTimeout = time.Minute
)

// metricsPorts are where the programs of Weft serve metrics, by the component of their pods.
var metricsPorts = map[string]int{"operator": 9441, "agent": 9443}

// objectKind is a kind to collect.
type objectKind struct {
	group, version, kind string
	own                  bool // those of the operator's namespace only
}

// objectKinds are all of them. There is no Secret among them, and no ConfigMap: what the programs make of one is in their logs.
var objectKinds = []objectKind{
	{group: "network.weft.dev", version: "v1alpha1", kind: "ClusterNetwork"},
	{group: "network.weft.dev", version: "v1alpha1", kind: "NodeNetwork"},
	{group: "network.weft.dev", version: "v1alpha1", kind: "EgressIP"},
	{group: "network.weft.dev", version: "v1alpha1", kind: "EgressFirewall"},
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
	for _, question := range []string{"drift", "check"} {
		part(question+".json", func(ctx context.Context) ([]byte, error) { return c.ask(ctx, question) })
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
				part(name+".previous.log", func(ctx context.Context) ([]byte, error) { return c.log(ctx, pod.Name, container.Name, true) })
			}
		}
		if port := metricsPorts[pod.Labels["app.kubernetes.io/component"]]; port != 0 {
			part("metrics/"+pod.Name+".txt", func(ctx context.Context) ([]byte, error) { return c.metrics(ctx, pod.Name, port) })
		}
	}
}

// objects lists one kind as YAML documents.
func (c *collector) objects(ctx context.Context, kind objectKind) ([]byte, error) {
	return c.objectsIf(ctx, kind, func(map[string]any) bool { return true })
}

func (c *collector) objectsIf(ctx context.Context, kind objectKind, wanted func(map[string]any) bool, options ...client.ListOption) ([]byte, error) {
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

// clusterEvents are those of objects without a namespace, which Kubernetes keeps in "default", as far as Weft wrote them.
func (c *collector) clusterEvents(ctx context.Context) ([]byte, error) {
	kind := objectKind{group: "events.k8s.io", version: "v1", kind: "Event"}
	return c.objectsIf(ctx, kind, func(o map[string]any) bool {
		controller, _, _ := unstructured.NestedString(o, "reportingController")
		return strings.HasPrefix(controller, "weft")
	}, client.InNamespace(metav1.NamespaceDefault))
}

// ask asks the operator that leads.
func (c *collector) ask(ctx context.Context, question string) ([]byte, error) {
	o, err := c.cluster.findOperator(ctx)
	if err != nil {
		return nil, err
	}
	var answer json.RawMessage
	if err := o.answer(ctx, nil, &answer, question); err != nil {
		return nil, err
	}
	return answer, nil
}

func (c *collector) log(ctx context.Context, pod, container string, previous bool) ([]byte, error) {
	limit := int64(maxLog)
	lines := int64(100_000) // the API server bounds bytes from the beginning, and the end is wanted
	return body(ctx, c.typed.CoreV1().Pods(c.cluster.namespace).GetLogs(pod, &corev1.PodLogOptions{
		Container: container, Previous: previous, Timestamps: true, LimitBytes: &limit, TailLines: &lines}))
}

// metrics reads them through the API server.
func (c *collector) metrics(ctx context.Context, pod string, port int) ([]byte, error) {
	return body(ctx, c.typed.CoreV1().RESTClient().Get().Namespace(c.cluster.namespace).Resource("pods").Name(fmt.Sprintf("%s:%d", pod, port)).
		SubResource("proxy").Suffix("metrics"))
}

// body reads an answer as it is. An error has the API server's own words, where Raw and DoRaw have "unknown".
func body(ctx context.Context, request *rest.Request) ([]byte, error) {
	result := request.Do(ctx)
	if err := result.Error(); err != nil {
		return nil, err
	}
	return result.Raw()
}
