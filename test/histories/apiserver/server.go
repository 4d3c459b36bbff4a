package apiserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

var (
	errNotFound = errors.New("not found")
	errConflict = errors.New("conflict")
)

// StaleHeader requests a list, or the initial events of a watch, as of the given number of revisions ago.
const StaleHeader = "Weft-Stale"

var kinds = map[string]kind{
	"pods":           {Resource: "pods", APIVersion: "v1", Kind: "Pod"},
	"nodes":          {Resource: "nodes", APIVersion: "v1", Kind: "Node"},
	"services":       {Resource: "services", APIVersion: "v1", Kind: "Service"},
	"endpointslices": {Resource: "endpointslices", APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
	"namespaces":     {Resource: "namespaces", APIVersion: "v1", Kind: "Namespace"},
	"clusternetworks": {Resource: "clusternetworks", APIVersion: "network.weft.dev/v1alpha1",
		Kind: "ClusterNetwork", generation: true},
	"networks": {Resource: "networks", APIVersion: "network.weft.dev/v1alpha1", Kind: "Network", generation: true},
	"network-attachment-definitions": {Resource: "network-attachment-definitions", APIVersion: "k8s.cni.cncf.io/v1",
		Kind: "NetworkAttachmentDefinition", generation: true},
	"ipamclaims": {Resource: "ipamclaims", APIVersion: "k8s.cni.cncf.io/v1alpha1", Kind: "IPAMClaim", generation: true},
	"multi-networkpolicies": {Resource: "multi-networkpolicies", APIVersion: "k8s.cni.cncf.io/v1beta1",
		Kind: "MultiNetworkPolicy", generation: true},
	"egressips":       {Resource: "egressips", APIVersion: "network.weft.dev/v1alpha1", Kind: "EgressIP", generation: true},
	"nodenetworks":    {Resource: "nodenetworks", APIVersion: "network.weft.dev/v1alpha1", Kind: "NodeNetwork", generation: true},
	"networkpolicies": {Resource: "networkpolicies", APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy", generation: true},
	"clusternetworkpolicies": {Resource: "clusternetworkpolicies", APIVersion: "policy.networking.k8s.io/v1alpha2",
		Kind: "ClusterNetworkPolicy", generation: true},
	"externalroutes": {Resource: "externalroutes", APIVersion: "network.weft.dev/v1alpha1", Kind: "ExternalRoute", generation: true},
	"egressqoses":    {Resource: "egressqoses", APIVersion: "network.weft.dev/v1alpha1", Kind: "EgressQoS", generation: true},
	"egressfirewalls": {Resource: "egressfirewalls", APIVersion: "network.weft.dev/v1alpha1",
		Kind: "EgressFirewall", generation: true},

	"loadbalancerpools": {Resource: "loadbalancerpools", APIVersion: "network.weft.dev/v1alpha1", Kind: "LoadBalancerPool", generation: true},
	"bgppeers":          {Resource: "bgppeers", APIVersion: "network.weft.dev/v1alpha1", Kind: "BGPPeer", generation: true},
	"bgpadvertisements": {Resource: "bgpadvertisements", APIVersion: "network.weft.dev/v1alpha1", Kind: "BGPAdvertisement", generation: true},

	"ippools":      {Resource: "ippools", APIVersion: "network.weft.dev/v1alpha1", Kind: "IPPool", generation: true},
	"floatingips":  {Resource: "floatingips", APIVersion: "network.weft.dev/v1alpha1", Kind: "FloatingIP", generation: true, whole: true},
	"deployments":  {Resource: "deployments", APIVersion: "apps/v1", Kind: "Deployment", generation: true},
	"statefulsets": {Resource: "statefulsets", APIVersion: "apps/v1", Kind: "StatefulSet", generation: true},
	"replicasets":  {Resource: "replicasets", APIVersion: "apps/v1", Kind: "ReplicaSet", generation: true},
	"daemonsets":   {Resource: "daemonsets", APIVersion: "apps/v1", Kind: "DaemonSet", generation: true},
	"jobs":         {Resource: "jobs", APIVersion: "batch/v1", Kind: "Job", generation: true},

	"customresourcedefinitions": {Resource: "customresourcedefinitions", APIVersion: "apiextensions.k8s.io/v1",
		Kind: "CustomResourceDefinition"},
}

// Server is the API server.
type Server struct{ store *store }

// New returns an empty server. The seed determines the UIDs. New calls notify at each change; it must not block.
func New(seed uint64, notify func()) *Server { return &Server{newStore(seed, notify)} }

// Observe calls seen at each change of a resource's objects, in the order of the changes and before the change is
// answered. object is the JSON of the object, and for event DELETED of what it was. seen must not block or call the server.
func (s *Server) Observe(resource string, seen func(event string, object []byte)) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.store.observers[resource] = append(s.store.observers[resource], seen)
}

// target is the object or resource of a request.
type target struct {
	kind        kind
	name        string // the store's key; "" for a list
	namespace   string
	subresource string
}

// parse parses paths such as /api/v1/namespaces/a/pods/p/status and /apis/<group>/<version>/nodenetworks/n.
func parse(path string) (t target, ok bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return t, false
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		t.namespace, parts = parts[1], parts[2:]
	}
	if t.kind, ok = kinds[parts[0]]; !ok {
		return t, false
	}
	if len(parts) > 1 {
		t.name = join(t.namespace, parts[1])
	}
	if len(parts) > 2 {
		t.subresource = parts[2]
	}
	return t, true
}

func join(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// RoundTrip implements http.RoundTripper.
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body.Close()
	}
	if strings.Contains(r.URL.Path, "/events") {
		return answer(r, http.StatusCreated, json.RawMessage(body)), nil // accepted and discarded
	}
	if strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews") {
		return s.review(r, body), nil
	}
	t, ok := parse(r.URL.Path)
	if !ok {
		return failure(r, fmt.Errorf("%w: path %s", errNotFound, r.URL.Path)), nil
	}
	if r.Method == http.MethodGet && r.URL.Query().Get("watch") != "" {
		return s.watch(r, t), nil
	}
	status, got, err := s.serve(r, t, body)
	if err != nil {
		return failure(r, err), nil
	}
	return answer(r, status, got), nil
}

func (s *Server) serve(r *http.Request, t target, body []byte) (status int, got any, err error) {
	switch r.Method {
	case http.MethodGet:
		if t.name == "" {
			return http.StatusOK, s.list(r, t), nil
		}
		if o, ok := s.store.get(t.kind.Resource, t.name); ok {
			return http.StatusOK, o, nil
		}
		return 0, nil, fmt.Errorf("%s %q %w", t.kind.Resource, t.name, errNotFound)
	case http.MethodPost:
		return s.post(t, body)
	case http.MethodPut:
		got, err = s.put(t, body)
		return http.StatusOK, got, err
	case http.MethodPatch:
		got, err = s.patch(t, r.Header.Get("Content-Type"), body)
		return http.StatusOK, got, err
	case http.MethodDelete:
		var options struct {
			Preconditions struct{ UID, ResourceVersion string }
		}
		if len(body) > 0 {
			if err := json.Unmarshal(body, &options); err != nil {
				return 0, nil, err
			}
		}
		err := s.store.remove(t.kind.Resource, t.name, options.Preconditions.UID, options.Preconditions.ResourceVersion)
		return http.StatusOK, object{"kind": "Status", "apiVersion": "v1", "status": "Success"}, err
	}
	return 0, nil, fmt.Errorf("method %s is not served", r.Method)
}

// review allows the client everything.
func (s *Server) review(r *http.Request, body []byte) *http.Response {
	o, err := decode(body)
	if err != nil {
		return failure(r, err)
	}
	o["status"] = object{"allowed": true}
	return answer(r, http.StatusCreated, o)
}

// post creates an object, or binds a pod to a node.
func (s *Server) post(t target, body []byte) (status int, got any, err error) {
	o, err := decode(body)
	if err != nil {
		return 0, nil, err
	}
	if t.subresource == "binding" {
		_, err := s.store.update(t.kind, t.name, func(pod object) (object, error) { return bound(pod, o) })
		return http.StatusCreated, object{"kind": "Status", "apiVersion": "v1", "status": "Success"}, err
	}
	name, _ := o.meta()["name"].(string)
	if !t.kind.whole {
		delete(o, "status") // only the subresource writes it
	}
	stored, ok := s.store.create(t.kind, join(t.namespace, name), o)
	if !ok {
		return 0, nil, fmt.Errorf("%w: %s %q", errExists, t.kind.Resource, name)
	}
	return http.StatusCreated, stored, nil
}

// bound returns a pod with the node and the annotations of a Binding. A pod that has a node, or another UID than the
// Binding, is a conflict.
func bound(pod, binding object) (object, error) {
	spec, _ := pod["spec"].(map[string]any)
	if had := spec["nodeName"]; had != nil && had != "" {
		return nil, fmt.Errorf("%w: the pod is on node %v", errConflict, had)
	}
	if uid := binding.meta()["uid"]; uid != nil && uid != pod.meta()["uid"] {
		return nil, fmt.Errorf("%w: the pod has UID %v", errConflict, pod.meta()["uid"])
	}
	node, _ := binding["target"].(map[string]any)
	spec["nodeName"] = node["name"]
	if more, ok := asMap(binding.meta()["annotations"]); ok {
		pod.meta()["annotations"] = merge(pod.meta()["annotations"], more)
	}
	return pod, nil
}

var errExists = errors.New("already exists")

func (s *Server) list(r *http.Request, t target) object {
	objects, at := s.store.list(t.kind.Resource, staleness(r))
	items := make([]any, 0, len(objects))
	for _, o := range objects {
		if t.namespace == "" || o.meta()["namespace"] == t.namespace {
			items = append(items, shape(r, o))
		}
	}
	version := map[string]any{"resourceVersion": fmt.Sprint(at)}
	if partial(r) {
		return object{"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": version, "items": items}
	}
	return object{"kind": t.kind.Kind + "List", "apiVersion": t.kind.APIVersion, "metadata": version, "items": items}
}

// partial reports whether the request wants only metadata.
func partial(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata")
}

func shape(r *http.Request, o object) object {
	if !partial(r) {
		return o
	}
	return object{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": o["metadata"]}
}

func answer(r *http.Request, status int, body any) *http.Response {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // the value was decoded from JSON
	}
	return &http.Response{Status: http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": []string{"application/json"}}, Body: io.NopCloser(bytes.NewReader(text)),
		ContentLength: int64(len(text)), Request: r}
}

func failure(r *http.Request, err error) *http.Response {
	switch {
	case errors.Is(err, errNotFound):
		return Refuse(r, http.StatusNotFound, "NotFound", err.Error())
	case errors.Is(err, errExists):
		return Refuse(r, http.StatusConflict, "AlreadyExists", err.Error())
	case errors.Is(err, errConflict):
		return Refuse(r, http.StatusConflict, "Conflict", err.Error())
	}
	return Refuse(r, http.StatusBadRequest, "BadRequest", err.Error())
}

// Refuse returns an API server's refusal of a request.
func Refuse(r *http.Request, status int, reason, message string) *http.Response {
	return answer(r, status, object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason,
		"message": message, "code": status})
}
