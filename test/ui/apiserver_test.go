package ui

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// object is an object of the API.
type object map[string]any

func (o object) meta() map[string]any { return o["metadata"].(map[string]any) }

// kind is a resource that the API server has.
type kind struct {
	group, version, resource, name string
	namespaced                     bool
}

func (k kind) path() string {
	if k.group == "" {
		return "/api/" + k.version
	}
	return "/apis/" + k.group + "/" + k.version
}

func (k kind) apiVersion() string { return strings.TrimPrefix(k.group+"/"+k.version, "/") }

const (
	weft   = "network.weft.dev"
	nets   = "k8s.cni.cncf.io"
	policy = "policy.networking.k8s.io"
)

var kinds = []kind{
	{"", "v1", "pods", "Pod", true}, {"", "v1", "services", "Service", true}, {"", "v1", "namespaces", "Namespace", false},
	{"", "v1", "nodes", "Node", false}, {"", "v1", "events", "Event", true}, {"apps", "v1", "deployments", "Deployment", true},
	{"apps", "v1", "statefulsets", "StatefulSet", true},
	{"apps", "v1", "daemonsets", "DaemonSet", true}, {"apps", "v1", "replicasets", "ReplicaSet", true},
	{"coordination.k8s.io", "v1", "leases", "Lease", true}, {"discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", true},
	{"networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", true},
	{weft, "v1alpha1", "clusternetworks", "ClusterNetwork", false}, {weft, "v1alpha1", "nodenetworks", "NodeNetwork", false},
	{weft, "v1alpha1", "networks", "Network", false}, {weft, "v1alpha1", "ippools", "IPPool", false},
	{weft, "v1alpha1", "floatingips", "FloatingIP", false}, {weft, "v1alpha1", "loadbalancerpools", "LoadBalancerPool", false},
	{weft, "v1alpha1", "egressips", "EgressIP", false}, {weft, "v1alpha1", "externalroutes", "ExternalRoute", false},
	{weft, "v1alpha1", "egressfirewalls", "EgressFirewall", true}, {weft, "v1alpha1", "egressqoses", "EgressQoS", true},
	{weft, "v1alpha1", "bgppeers", "BGPPeer", false}, {weft, "v1alpha1", "bgpadvertisements", "BGPAdvertisement", false},
	{nets, "v1", "network-attachment-definitions", "NetworkAttachmentDefinition", true},
	{nets, "v1beta1", "multi-networkpolicies", "MultiNetworkPolicy", true},
	{policy, "v1alpha1", "adminnetworkpolicies", "AdminNetworkPolicy", false},
	{policy, "v1alpha1", "baselineadminnetworkpolicies", "BaselineAdminNetworkPolicy", false},
	{policy, "v1alpha2", "clusternetworkpolicies", "ClusterNetworkPolicy", false},
}

// apiServer answers lists, watches, reads of single objects, and the execution of "weft-ovn trace".
type apiServer struct {
	mu       sync.Mutex
	version  int
	objects  map[string]map[string]object // resource -> namespace/name -> object
	watchers map[string][]chan object
	// forbidden are resources that the user may not list.
	forbidden map[string]bool
	url       string
}

func newAPIServer(t *testing.T) *apiServer {
	s := &apiServer{objects: map[string]map[string]object{}, watchers: map[string][]chan object{}, forbidden: map[string]bool{}}
	for _, k := range kinds {
		s.objects[k.resource] = map[string]object{}
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	s.url = server.URL
	return s
}

// kubeconfig writes a kubeconfig for the API server.
func (s *apiServer) kubeconfig(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: production\ncontexts: [{name: production, context: {cluster: c, user: u}}]\n" +
		"clusters: [{name: c, cluster: {server: \"" + s.url + "\"}}]\nusers: [{name: u, user: {}}]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func keyOf(o object) string { return fmt.Sprintf("%v/%v", o.meta()["namespace"], o.meta()["name"]) }

// put creates or updates an object.
func (s *apiServer) put(resource string, o object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what := "ADDED"
	if _, ok := s.objects[resource][keyOf(o)]; ok {
		what = "MODIFIED"
	}
	s.change(resource, what, o)
	s.objects[resource][keyOf(o)] = o
}

// remove deletes an object.
func (s *apiServer) remove(resource, namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects[resource][namespace+"/"+name]
	delete(s.objects[resource], namespace+"/"+name)
	s.change(resource, "DELETED", o)
}

func (s *apiServer) change(resource, what string, o object) {
	s.version++
	k := kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.resource == resource })]
	o["apiVersion"], o["kind"] = k.apiVersion(), k.name
	meta := maps.Clone(o.meta())
	meta["resourceVersion"] = fmt.Sprint(s.version)
	o["metadata"] = meta
	for _, w := range s.watchers[resource] {
		w <- object{"type": what, "object": maps.Clone(o)}
	}
}

// ServeHTTP implements http.Handler.
func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/exec") {
		execute(w, r)
		return
	}
	for _, k := range kinds {
		rest, ok := strings.CutPrefix(r.URL.Path, k.path()+"/")
		if !ok {
			continue
		}
		namespace, name := "", ""
		if inside, ok := strings.CutPrefix(rest, "namespaces/"); ok && k.namespaced {
			namespace, rest, _ = strings.Cut(inside, "/")
		}
		if rest, name, _ = strings.Cut(rest, "/"); rest == k.resource && !strings.Contains(name, "/") {
			s.serve(w, r, k, namespace, name)
			return
		}
	}
	s.discover(w, r)
}

func (s *apiServer) discover(w http.ResponseWriter, r *http.Request) {
	groups := map[string][]any{}
	for _, k := range kinds {
		if r.URL.Path == k.path() {
			var resources []any
			for _, other := range kinds {
				if other.path() == k.path() {
					resources = append(resources, object{"name": other.resource, "kind": other.name, "namespaced": other.namespaced,
						"verbs": []string{"list", "watch", "get"}})
				}
			}
			reply(w, http.StatusOK, object{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": k.apiVersion(), "resources": resources})
			return
		}
		version := object{"groupVersion": k.apiVersion(), "version": k.version}
		if k.group != "" && !slices.ContainsFunc(groups[k.group], func(v any) bool { return v.(object)["version"] == k.version }) {
			groups[k.group] = append(groups[k.group], version)
		}
	}
	switch r.URL.Path {
	case "/api":
		reply(w, http.StatusOK, object{"kind": "APIVersions", "versions": []string{"v1"}})
	case "/apis":
		var all []any
		for _, name := range slices.Sorted(maps.Keys(groups)) {
			all = append(all, object{"name": name, "versions": groups[name], "preferredVersion": groups[name][0]})
		}
		reply(w, http.StatusOK, object{"kind": "APIGroupList", "apiVersion": "v1", "groups": all})
	default:
		status(w, http.StatusNotFound, "NotFound", "the server could not find the requested resource")
	}
}

func (s *apiServer) serve(w http.ResponseWriter, r *http.Request, k kind, namespace, name string) {
	s.mu.Lock()
	if s.forbidden[k.resource] {
		s.mu.Unlock()
		verb := map[bool]string{true: "watch", false: "list"}[r.FormValue("watch") != ""]
		status(w, http.StatusForbidden, "Forbidden",
			fmt.Sprintf("%s.%s is forbidden: User \"jane\" cannot %s resource %q in API group %q at the cluster scope",
				k.resource, k.group, verb, k.resource, k.group))
		return
	}
	if name != "" {
		o, ok := s.objects[k.resource][map[bool]string{true: namespace, false: "<nil>"}[k.namespaced]+"/"+name]
		s.mu.Unlock()
		if !ok {
			status(w, http.StatusNotFound, "NotFound", k.resource+" "+name+" not found")
			return
		}
		reply(w, http.StatusOK, o)
		return
	}
	items := []object{}
	for _, key := range slices.Sorted(maps.Keys(s.objects[k.resource])) {
		if o := s.objects[k.resource][key]; (namespace == "" || o.meta()["namespace"] == namespace) && selected(r, o) {
			items = append(items, o)
		}
	}
	// Each reporter's Events are listed on their own.
	if reporter, ok := strings.CutPrefix(r.FormValue("fieldSelector"), "reportingComponent="); ok {
		items = slices.DeleteFunc(items, func(o object) bool { return o["reportingComponent"] != reporter })
	}
	version := fmt.Sprint(s.version)
	if r.FormValue("watch") == "" {
		s.mu.Unlock()
		reply(w, http.StatusOK, object{"kind": k.name + "List", "apiVersion": k.apiVersion(),
			"metadata": object{"resourceVersion": version}, "items": items})
		return
	}
	events := make(chan object, 20000)
	if r.FormValue("sendInitialEvents") == "true" {
		for _, o := range items {
			events <- object{"type": "ADDED", "object": o}
		}
		events <- object{"type": "BOOKMARK", "object": object{"apiVersion": k.apiVersion(), "kind": k.name,
			"metadata": object{"resourceVersion": version, "annotations": object{"k8s.io/initial-events-end": "true"}}}}
	}
	s.watchers[k.resource] = append(s.watchers[k.resource], events)
	s.mu.Unlock()
	stream(w, r, events)
}

// selected reports whether an object has the labels of a list's selector.
func selected(r *http.Request, o object) bool {
	have, _ := o.meta()["labels"].(map[string]any)
	for _, label := range strings.Split(r.FormValue("labelSelector"), ",") {
		if name, value, ok := strings.Cut(label, "="); ok && have[name] != value {
			return false
		}
	}
	return true
}

func stream(w http.ResponseWriter, r *http.Request, events chan object) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	out := http.NewResponseController(w)
	for {
		if len(events) == 0 && out.Flush() != nil {
			return
		}
		select {
		case e := <-events:
			if encoder.Encode(e) != nil {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

func reply(w http.ResponseWriter, code int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(value) // a client that has gone needs no answer
}

func status(w http.ResponseWriter, code int, reason, message string) {
	reply(w, code, object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code})
}
