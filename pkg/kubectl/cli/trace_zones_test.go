package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/trace"
)

// zonedObjects are the objects of the questions that pkg/trace has recorded, by the path at which an API server has them.
const zonedObjects = `
/api: {kind: APIVersions, versions: [v1]}
/apis:
  kind: APIGroupList
  apiVersion: v1
  groups: [{name: network.weft.dev, versions: [{groupVersion: network.weft.dev/v1alpha1, version: v1alpha1}]}]
/api/v1:
  kind: APIResourceList
  groupVersion: v1
  resources: [{name: nodes, kind: Node}, {name: pods, namespaced: true, kind: Pod}, {name: services, kind: Service}]
/apis/network.weft.dev/v1alpha1:
  kind: APIResourceList
  groupVersion: network.weft.dev/v1alpha1
  resources: [{name: nodenetworks, kind: NodeNetwork}, {name: clusternetworks, kind: ClusterNetwork}]
/apis/network.weft.dev/v1alpha1/clusternetworks/default:
  apiVersion: network.weft.dev/v1alpha1
  kind: ClusterNetwork
  metadata: {name: default}
  spec: {zones: [{name: east, nodeSelector: {zone: east}}]}
/api/v1/services: {apiVersion: v1, kind: ServiceList, items: []}
/api/v1/nodes: {apiVersion: v1, kind: NodeList, items: [{metadata: {name: n1}}, {metadata: {name: n3}}]}
/apis/network.weft.dev/v1alpha1/nodenetworks:
  apiVersion: network.weft.dev/v1alpha1
  kind: NodeNetworkList
  items:
  - metadata: {name: n1}
    spec: {nodeID: 1, podSubnets: [10.244.0.0/24], managementPort: {macAddress: "02:00:00:00:00:21"}}
    status:
      chassis: chassis-n1
      gateway: {mode: Shared, bridge: br-ex, macAddress: "02:00:00:00:00:11", addresses: [172.18.0.11/24]}
  - metadata: {name: n3}
    spec: {nodeID: 3, zone: east, podSubnets: [10.244.2.0/24], managementPort: {macAddress: "02:00:00:00:00:23"}}
    status:
      chassis: chassis-n3
      gateway: {mode: Shared, bridge: br-ex, macAddress: "02:00:00:00:00:13", addresses: [172.18.0.13/24]}
`

// zonedServer is an API server of a cluster with a zone, whose pods of databases answer as pkg/trace has recorded.
type zonedServer struct {
	*testing.T
	objects map[string]any
	away    string // the component whose pod does not run
	northd  string // the status of each ovn-northd
}

func newZonedServer(t *testing.T) *zonedServer {
	s := &zonedServer{T: t, northd: "active"}
	if err := yaml.Unmarshal([]byte(zonedObjects), &s.objects); err != nil {
		t.Fatal(err)
	}
	for name, at := range map[string][2]string{"client": {"n1", "10.244.0.3"}, "leaver": {"n1", "10.244.0.5"}, "web": {"n3", "10.244.2.3"},
		"guarded": {"n3", "10.244.2.4"}} {
		s.objects["/api/v1/namespaces/demo/pods/"+name] = corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}, Spec: corev1.PodSpec{NodeName: at[0]},
			Status: corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: at[1]}}}}
	}
	return s
}

func (s *zonedServer) run(args ...string) (code int, out, errs string) {
	s.Helper()
	server := httptest.NewServer(s)
	defer server.Close()
	return runAgainst(server.URL, append([]string{"trace"}, args...)...)
}

// ServeHTTP implements http.Handler.
func (s *zonedServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const pods = "/api/v1/namespaces/weft-system/pods"
	path := r.URL.Path
	found, ok := s.objects[path]
	if pod, exec := strings.CutSuffix(strings.TrimPrefix(path, pods+"/"), "/exec"); exec {
		_, zone, _ := strings.Cut(strings.TrimSuffix(pod, "-0"), "central-")
		program := func(in io.Reader, out, _ io.Writer) int { s.answer(zone, in, out); return 0 }
		(&spdyServer{T: s.T, run: program}).ServeHTTP(w, r)
		return
	}
	if path == pods {
		component := strings.TrimPrefix(r.URL.Query().Get("labelSelector"), networkv1alpha1.ComponentLabel+"=")
		list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
		if component != s.away {
			list.Items = []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "weft-system", Name: component + "-0"},
				Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: northdContainer,
					State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}}}
		}
		found, ok = list, true
	}
	w.Header().Set("Content-Type", "application/json")
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		found = &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
			Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}
	}
	if err := json.NewEncoder(w).Encode(found); err != nil {
		s.Error(err)
	}
}

// answer is that of "weft-ovn trace" in a zone.
func (s *zonedServer) answer(zone string, in io.Reader, out io.Writer) {
	var request trace.Request
	if err := json.NewDecoder(in).Decode(&request); err != nil {
		s.Error(err)
		return
	}
	var answer trace.Answer
	if request.Northd {
		answer.Northd = &trace.NorthdState{Status: s.northd}
	}
	for _, p := range request.Packets {
		answer.Traces = append(answer.Traces, s.traced(zone, p))
	}
	if err := json.NewEncoder(out).Encode(answer); err != nil {
		s.Error(err)
	}
}

// traced returns the recorded trace of a packet in a zone.
func (s *zonedServer) traced(zone string, p trace.Packet) (traced trace.Traced) {
	packet, err := json.Marshal(p)
	if err != nil {
		s.Error(err)
	}
	files, _ := filepath.Glob("../../trace/testdata/zones/*.txtar")
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			s.Error(err)
			continue
		}
		for i, f := range archive.Files {
			if strings.HasSuffix(f.Name, " "+zone+" packet") && strings.TrimSpace(string(f.Data)) == string(packet) {
				if err := json.Unmarshal(archive.Files[i+1].Data, &traced); err != nil {
					s.Error(err)
				}
				traced.Text = string(archive.Files[i+2].Data)
				return traced
			}
		}
	}
	s.Errorf("zone %q: no packet was recorded like %s", zone, packet)
	return traced
}

// Each part of a path is traced in the databases' pod of its own zone, and the answer is one path. All outputs name the zone.
func TestTraceThroughZones(t *testing.T) {
	for _, test := range []struct {
		args string
		code int
		want string
	}{
		{"demo/client demo/web --port 8080", exitOK, `allowed

IPv4 TCP demo/client -> demo/web port 8080
  1. from demo/client on node n1
  2. to node n3 of zone east, through the tunnel between the nodes
  3. delivered to pod demo/web
  the reply:
  1. to node n1 of the default zone, through the tunnel between the nodes
  2. delivered to pod demo/client
`},
		{"demo/client demo/guarded --port 8080", exitDifferent,
			`dropped by NetworkPolicy demo/guard, which isolates guarded for ingress; no rule allows client TCP port 8080

IPv4 TCP demo/client -> demo/guarded port 8080
  1. from demo/client on node n1
  2. to node n3 of zone east, through the tunnel between the nodes
  3. NetworkPolicy demo/guard denies it by ingress isolation
`},
	} {
		code, out, errs := newZonedServer(t).run(strings.Fields(test.args)...)
		if code != test.code || out != test.want || errs != "" {
			t.Errorf("%s: exit code %d, %q, output:\n%s\nwant:\n%s", test.args, code, errs, out, test.want)
		}
	}
	const hop = "to node n3 of zone east, through the tunnel between the nodes"
	for output, words := range map[string][]string{
		"json": {`"what": "` + hop + `"`, `"zone": "east"`}, "dot": {`label="transit\n` + hop + `"`}, "svg": {hop, ">transit</text>"},
	} {
		code, out, errs := newZonedServer(t).run("demo/leaver", "192.0.2.1", "--port", "80", "-o", output)
		for _, word := range words {
			if code != exitOK || errs != "" || !strings.Contains(out, word) {
				t.Errorf("-o %s: exit code %d, %q, without %s:\n%s", output, code, errs, word, out)
			}
		}
	}
}

// Without a running pod of a zone's databases, or with --zone, the path ends at the node whose zone is not read. The answer is unknown.
func TestTraceEndsAtAZoneThatIsNotRead(t *testing.T) {
	const path = "\nIPv4 TCP demo/client -> demo/web port 8080\n  1. from demo/client on node n1\n" +
		"  2. to node n3 of zone east, through the tunnel between the nodes\n"
	for _, test := range []struct{ away, args, starts, ends string }{
		{"central-east", "", "unknown: the packet reaches node n3 of zone east: namespace weft-system has no running pod of the OVN databases " +
			"(app.kubernetes.io/component=central-east): ", path},
		{"central", "", "unknown: the packet enters at node n1 of the default zone: namespace weft-system has no running pod",
			"port 8080\n"},
		{"", "--zone=east", "unknown: the packet enters at node n1 of the default zone: --zone east excludes its databases\n",
			"port 8080\n"},
	} {
		s := newZonedServer(t)
		s.away = test.away
		code, out, errs := s.run(strings.Fields("demo/client demo/web --port 8080 " + test.args)...)
		if code != exitError || errs != "" || !strings.HasPrefix(out, test.starts) || !strings.HasSuffix(out, test.ends) {
			t.Errorf("%+v: exit code %d, %q, output:\n%s", test, code, errs, out)
		}
	}
}

// An ovn-northd that has stopped is a note for each zone on the way, and for no other.
func TestNorthdNotesOfZones(t *testing.T) {
	s := newZonedServer(t)
	s.northd = "paused"
	_, out, _ := s.run("demo/client", "demo/web", "--port", "8080")
	if !strings.Contains(out, "note: the default zone: NorthdSilent") || !strings.Contains(out, "note: zone east: NorthdSilent") {
		t.Errorf("notes of two zones:\n%s", out)
	}
}
