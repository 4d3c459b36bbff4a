package render

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

	"github.com/weft-network/weft/pkg/install/launch"
	"github.com/weft-network/weft/pkg/install/pki"
)

var update = flag.Bool("update", false, "write testdata")

func facts() Facts {
	return Facts{
		Namespace: "net", Image: "registry.example/weft@sha256:0123", PullSecrets: []corev1.LocalObjectReference{{Name: "pull"}},
		APIServerHost: "192.0.2.10", APIServerPort: "6443",
		Place: Place{Wanted: 1, Members: []Member{
			{Node: "cp-1", Addresses: []netip.Addr{netip.MustParseAddr("2001:db8::11"), netip.MustParseAddr("192.0.2.11")}},
		}},
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
	expectGolden(t, "testdata/workloads.golden.yaml", have)
}

// expectGolden compares manifests with a file, and writes the file with -update.
func expectGolden(t *testing.T, golden string, have bytes.Buffer) {
	t.Helper()
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

// TestNothingOfTheManifestsIsLeft checks that the workloads contain no placeholder of the manifests: the image, the
// namespace, and the ConfigMap for databases outside the cluster. Pods that must start before cluster IPs work get
// the API server's address.
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
		all := func(t corev1.Toleration) bool { return t == corev1.Toleration{Operator: corev1.TolerationOpExists} }
		if !spec.HostNetwork || !slices.ContainsFunc(spec.Tolerations, all) {
			t.Errorf("%s cannot start without a working network: host network %t, tolerations %v", w.GetName(),
				spec.HostNetwork, spec.Tolerations)
		}
		if w.GetName() == "weft-operator" && !leavesDeadNodes(spec.Tolerations) {
			t.Errorf("%s stays on a dead node for ever: tolerations %v", w.GetName(), spec.Tolerations)
		}
		if hasToken := spec.AutomountServiceAccountToken == nil; hasToken {
			if !slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool {
				return slices.Contains(c.Env, corev1.EnvVar{Name: "KUBERNETES_SERVICE_HOST", Value: "192.0.2.10"})
			}) {
				t.Errorf("%s has a token but not the address of the API server", w.GetName())
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
		"no change": {func(*appsv1.DaemonSet) {}, false},
		"defaults of the API server": {func(d *appsv1.DaemonSet) {
			d.Spec.Template.Spec.RestartPolicy = "Always"
			d.Spec.Template.Spec.Containers[0].LivenessProbe.TimeoutSeconds = 1
		}, false},
		"its status":      {func(d *appsv1.DaemonSet) { d.Status.NumberReady = 2 }, false},
		"a foreign label": {func(d *appsv1.DaemonSet) { d.Labels["theirs"] = "x" }, false},
		"a label of Weft": {func(d *appsv1.DaemonSet) { delete(d.Labels, "app.kubernetes.io/component") }, true},
		"the image":       {func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.Containers[0].Image = "x" }, true},
		"a foreign container": {func(d *appsv1.DaemonSet) {
			d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Name: "x"})
		}, true},
		"the last applied version": {func(d *appsv1.DaemonSet) { d.Annotations[AnnotationApplied] = "older" }, true},
	} {
		have := want()
		c.change(have)
		if differs, err := Differs(want(), have); err != nil || differs != c.want {
			t.Errorf("%s: differs %t (%v), want %t", name, differs, err, c.want)
		}
	}
	if absent, err := Differs(want(), nil); err != nil || !absent {
		t.Error("an absent workload does not differ: ", err)
	}
	if other, err := Differs(workloads(t, otherFacts)[0], workloads(t, facts())[0]); err != nil || !other {
		t.Error("another image does not differ: ", err)
	}
}

func node(name string, change ...func(*corev1.Node)) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	n.Status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeInternalIP, Address: "192.0.2.1"},
	}
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
		"no node":                       {"", nil, ""},
		"a node without an address":     {"", []corev1.Node{node("a", unknown)}, ""},
		"the first by name":             {"", []corev1.Node{node("b"), node("a")}, "a"},
		"the control plane":             {"", []corev1.Node{node("a"), node("b", control)}, "b"},
		"a schedulable node":            {"", []corev1.Node{node("a", control, cordoned), node("b", control)}, "b"},
		"the previous node, cordoned":   {"b", []corev1.Node{node("a", control), node("b", cordoned)}, "b"},
		"the previous node is gone":     {"b", []corev1.Node{node("a"), node("c", control)}, "c"},
		"the previous node is deleting": {"b", []corev1.Node{node("a"), node("b", going)}, "a"},
	} {
		place := PlaceOf(strings.Fields(c.before), c.nodes, 1)
		if have := strings.Join(place.Nodes(), " "); have != c.want {
			t.Errorf("%s: %q, want %q", name, have, c.want)
		}
	}
}

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// keys applies the changes of Keys, and returns the names of the written Secrets.
func keys(t *testing.T, have map[string]*corev1.Secret, place Place, at time.Time) []string {
	t.Helper()
	changes, next, err := Keys("net", have, place, at)
	if err != nil {
		t.Fatal(err)
	}
	if !next.After(at) {
		t.Errorf("Keys must be called again at %s, which is not after %s", next, at)
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
	if written := keys(t, have, place, now); !slices.Equal(written, all) ||
		!slices.Equal(SecretNames(), slices.Insert(slices.Clone(all), 4, RelaySecret)) {
		t.Fatalf("written %q, named %q", written, SecretNames())
	}
	if written := keys(t, have, place, now.Add(time.Hour)); len(written) > 0 {
		t.Errorf("written again: %q", written)
	}
	place.Members[0].Addresses = place.Members[0].Addresses[1:]
	if written := keys(t, have, place, now); !slices.Equal(written, []string{"weft-nb-server", "weft-sb-server"}) {
		t.Errorf("written after the databases moved: %q", written)
	}
	delete(have, "weft-sb-tls")
	if written := keys(t, have, place, now); !slices.Equal(written, []string{"weft-sb-tls"}) {
		t.Errorf("written after a Secret was deleted: %q", written)
	}
	if written := keys(t, have, place, now.Add(pki.LeafValidity*3/4)); len(written) != 4 {
		t.Errorf("written before the pairs expire: %q", written)
	}
	delete(have, "weft-sb-ca")
	if written := keys(t, have, place, now); !slices.Equal(written, []string{"weft-sb-ca", "weft-sb-server", "weft-sb-tls"}) {
		t.Errorf("written after an authority was deleted: %q", written)
	}
}

func TestAnAuthorityThatCannotBeReadIsNotReplaced(t *testing.T) {
	have := map[string]*corev1.Secret{}
	keys(t, have, facts().Place, now)
	before := maps.Clone(have)
	have["weft-sb-ca"] = secret("net", "weft-sb-ca", pki.Pair{Cert: []byte("x"), Key: []byte("y")}, nil)
	if _, _, err := Keys("net", have, facts().Place, now); err == nil || !strings.Contains(err.Error(), "weft-sb-ca") {
		t.Errorf("error %v, want an error with the name of the Secret", err)
	}
	if string(before["weft-nb-tls"].Data["tls.key"]) != string(have["weft-nb-tls"].Data["tls.key"]) {
		t.Error("another Secret was changed")
	}
}

// TestRemoval checks that the last step of a removal can reach all files that programs leave behind.
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
		t.Errorf("init containers %q", names)
	}
	for _, pattern := range launch.Leftovers {
		if !slices.ContainsFunc(paths, func(path string) bool { return strings.HasPrefix(pattern, path+"/") }) {
			t.Errorf("%s is not below any of %q", pattern, paths)
		}
	}
}

// leavesDeadNodes reports whether a pod is evicted from an unreachable node. Of the tolerations that match a taint,
// Kubernetes takes the first.
func leavesDeadNodes(tolerations []corev1.Toleration) bool {
	i := slices.IndexFunc(tolerations, func(t corev1.Toleration) bool {
		return (t.Key == "" || t.Key == corev1.TaintNodeUnreachable) && (t.Effect == "" || t.Effect == corev1.TaintEffectNoExecute)
	})
	return i < 0 || tolerations[i].TolerationSeconds != nil
}
