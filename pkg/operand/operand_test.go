package operand

import (
	"bytes"
	"flag"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/weft-network/weft/pkg/launch"
	"github.com/weft-network/weft/pkg/pki"
)

var update = flag.Bool("update", false, "write testdata")

func facts() Facts {
	return Facts{
		Namespace: "net", Image: "registry.example/weft@sha256:0123", PullSecrets: []corev1.LocalObjectReference{{Name: "pull"}},
		APIServerHost: "192.0.2.10", APIServerPort: "6443",
		Place: Place{Wanted: 1, Members: []Member{{Node: "cp-1", Addresses: []netip.Addr{netip.MustParseAddr("2001:db8::11"), netip.MustParseAddr("192.0.2.11")}}}},
	}
}

func workloads(t *testing.T, f Facts) []Workload {
	t.Helper()
	all, err := Workloads(f)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestWorkloadsGolden(t *testing.T) {
	var have bytes.Buffer
	for _, w := range workloads(t, facts()) {
		text, err := yaml.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		have.WriteString("---\n")
		have.Write(text)
	}
	const golden = "testdata/workloads.golden.yaml"
	if *update {
		if err := os.WriteFile(golden, have.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), have.String()); diff != "" {
		t.Errorf("%s (-update writes it):\n%s", golden, diff)
	}
}

// TestNothingOfTheManifestsIsLeft looks for what a cluster would not have: the image and the namespace of the manifests, the ConfigMap of
// databases elsewhere, and cluster IPs for who must work before they do.
func TestNothingOfTheManifestsIsLeft(t *testing.T) {
	for _, w := range workloads(t, facts()) {
		text, err := yaml.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"weft:dev", "weft-system", "configMapKeyRef"} {
			if strings.Contains(string(text), word) {
				t.Errorf("%s has %s", w.GetName(), word)
			}
		}
		spec := Template(w).Spec
		if !spec.HostNetwork || len(spec.Tolerations) != 1 || spec.Tolerations[0].Operator != corev1.TolerationOpExists {
			t.Errorf("%s does not start where nothing works: host network %t, tolerations %v", w.GetName(), spec.HostNetwork, spec.Tolerations)
		}
		if talks := spec.AutomountServiceAccountToken == nil; talks {
			if !slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool {
				return slices.Contains(c.Env, corev1.EnvVar{Name: "KUBERNETES_SERVICE_HOST", Value: "192.0.2.10"})
			}) {
				t.Errorf("%s has a token and is not told where the API server is", w.GetName())
			}
		}
	}
}

func TestDiffers(t *testing.T) {
	want := func() *appsv1.DaemonSet {
		for _, w := range workloads(t, facts()) {
			if w.GetName() == "weft-agent" {
				return w.(*appsv1.DaemonSet)
			}
		}
		t.Fatal("there is no agent")
		return nil
	}
	otherFacts := facts()
	otherFacts.Image = "weft:next"
	for name, c := range map[string]struct {
		change func(*appsv1.DaemonSet)
		want   bool
	}{
		"nothing": {func(*appsv1.DaemonSet) {}, false},
		"defaults of the API server": {func(d *appsv1.DaemonSet) {
			d.Spec.Template.Spec.RestartPolicy = "Always"
			d.Spec.Template.Spec.Containers[0].LivenessProbe.TimeoutSeconds = 1
		}, false},
		"its status":        {func(d *appsv1.DaemonSet) { d.Status.NumberReady = 2 }, false},
		"a label of others": {func(d *appsv1.DaemonSet) { d.Labels["theirs"] = "x" }, false},
		"a label of ours":   {func(d *appsv1.DaemonSet) { delete(d.Labels, "app.kubernetes.io/component") }, true},
		"the image":         {func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.Containers[0].Image = "x" }, true},
		"a container of others": {func(d *appsv1.DaemonSet) {
			d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Name: "x"})
		}, true},
		"what was applied last": {func(d *appsv1.DaemonSet) { d.Annotations[AnnotationApplied] = "older" }, true},
	} {
		have := want()
		c.change(have)
		if differs, err := Differs(want(), have); err != nil || differs != c.want {
			t.Errorf("%s: differs %t (%v), want %t", name, differs, err, c.want)
		}
	}
	if absent, err := Differs(want(), nil); err != nil || !absent {
		t.Error("what is absent does not differ: ", err)
	}
	if other, err := Differs(workloads(t, otherFacts)[0], workloads(t, facts())[0]); err != nil || !other {
		t.Error("another image does not differ: ", err)
	}
}

func node(name string, change ...func(*corev1.Node)) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}}}
	for _, c := range change {
		c(&n)
	}
	return n
}

func TestPlace(t *testing.T) {
	control := func(n *corev1.Node) { n.Labels[controlPlane] = "" }
	cordoned := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	going := func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{Time: now} }
	unknown := func(n *corev1.Node) { n.Status.Addresses = n.Status.Addresses[:1] }
	for name, c := range map[string]struct {
		before string
		nodes  []corev1.Node
		want   string
	}{
		"no node":                               {"", nil, ""},
		"a node without an address":             {"", []corev1.Node{node("a", unknown)}, ""},
		"the first":                             {"", []corev1.Node{node("b"), node("a")}, "a"},
		"the control plane":                     {"", []corev1.Node{node("a"), node("b", control)}, "b"},
		"one that takes pods":                   {"", []corev1.Node{node("a", control, cordoned), node("b", control)}, "b"},
		"where they are, though it is cordoned": {"b", []corev1.Node{node("a", control), node("b", cordoned)}, "b"},
		"their node is gone":                    {"b", []corev1.Node{node("a"), node("c", control)}, "c"},
		"their node goes":                       {"b", []corev1.Node{node("a"), node("b", going)}, "a"},
	} {
		place := PlaceOf(strings.Fields(c.before), c.nodes, 1)
		if have := strings.Join(place.Nodes(), " "); have != c.want {
			t.Errorf("%s: %q, want %q", name, have, c.want)
		}
	}
}

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// keys applies what Keys wants, and returns the names of what was written.
func keys(t *testing.T, have map[string]*corev1.Secret, place Place, at time.Time) []string {
	t.Helper()
	changes, next, err := Keys("net", have, place, at)
	if err != nil {
		t.Fatal(err)
	}
	if !next.After(at) {
		t.Errorf("the next look is at %s, now is %s", next, at)
	}
	var names []string
	for _, c := range changes {
		have[c.Secret.Name] = c.Secret
		names = append(names, c.Secret.Name)
	}
	return names
}

func TestKeysAreWrittenOnceAndWhenTheyMust(t *testing.T) {
	have, place := map[string]*corev1.Secret{}, facts().Place
	all := []string{"weft-nb-ca", "weft-nb-server", "weft-nb-tls", "weft-sb-ca", "weft-sb-server", "weft-sb-tls"}
	if written := keys(t, have, place, now); !slices.Equal(written, all) || !slices.Equal(SecretNames(), all) {
		t.Fatalf("written %q, named %q", written, SecretNames())
	}
	if written := keys(t, have, place, now.Add(time.Hour)); len(written) > 0 {
		t.Errorf("written again: %q", written)
	}
	place.Members[0].Addresses = place.Members[0].Addresses[1:]
	if written := keys(t, have, place, now); !slices.Equal(written, []string{"weft-nb-server", "weft-sb-server"}) {
		t.Errorf("the databases moved, written are %q", written)
	}
	delete(have, "weft-sb-tls")
	if written := keys(t, have, place, now); !slices.Equal(written, []string{"weft-sb-tls"}) {
		t.Errorf("one went, written are %q", written)
	}
	if written := keys(t, have, place, now.Add(pki.LeafValidity*3/4)); len(written) != 4 {
		t.Errorf("their time is nearly over, written are %q", written)
	}
	delete(have, "weft-sb-ca")
	if written := keys(t, have, place, now); !slices.Equal(written, []string{"weft-sb-ca", "weft-sb-server", "weft-sb-tls"}) {
		t.Errorf("an authority went, written are %q", written)
	}
}

func TestAnAuthorityThatCannotBeReadIsNotReplaced(t *testing.T) {
	have := map[string]*corev1.Secret{}
	keys(t, have, facts().Place, now)
	before := maps.Clone(have)
	have["weft-sb-ca"] = secret("net", "weft-sb-ca", pki.Pair{Cert: []byte("x"), Key: []byte("y")}, nil)
	if _, _, err := Keys("net", have, facts().Place, now); err == nil || !strings.Contains(err.Error(), "weft-sb-ca") {
		t.Errorf("error %v, want one that names the Secret", err)
	}
	if string(before["weft-nb-tls"].Data["tls.key"]) != string(have["weft-nb-tls"].Data["tls.key"]) {
		t.Error("another one was changed")
	}
}

// TestRemoval: files that programs leave lie where the last step of a removal can reach them.
func TestRemoval(t *testing.T) {
	w, err := Removal(facts())
	if err != nil {
		t.Fatal(err)
	}
	pod := w.Spec.Template.Spec
	mounts := map[string]string{}
	for _, v := range pod.Volumes {
		mounts[v.Name] = v.HostPath.Path
	}
	var paths, names []string
	for _, c := range pod.InitContainers {
		names = append(names, c.Name)
		if c.Image != facts().Image {
			t.Errorf("container %s has image %s", c.Name, c.Image)
		}
		for _, m := range c.VolumeMounts {
			if mounts[m.Name] != m.MountPath {
				t.Errorf("container %s has %s at %s", c.Name, mounts[m.Name], m.MountPath)
			}
			if c.Name == "clear" {
				paths = append(paths, m.MountPath)
			}
		}
	}
	if !slices.Equal(names, []string{"uninstall", "clear"}) {
		t.Errorf("it does %q", names)
	}
	for _, pattern := range launch.Leftovers {
		if !slices.ContainsFunc(paths, func(path string) bool { return strings.HasPrefix(pattern, path+"/") }) {
			t.Errorf("%s is in none of %q", pattern, paths)
		}
	}
}
