package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// galaxyKinds are Galaxy's CustomResourceDefinitions.
const galaxyKinds = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: floatingips.galaxy.k8s.io, annotations: {api-approved.kubernetes.io: unapproved}}
spec:
  group: galaxy.k8s.io
  scope: Cluster
  names: {kind: FloatingIP, plural: floatingips}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: pools.galaxy.k8s.io, annotations: {api-approved.kubernetes.io: unapproved}}
spec:
  group: galaxy.k8s.io
  scope: Namespaced
  names: {kind: Pool, plural: pools}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// galaxyObjects are what Galaxy has of the StatefulSet import/db.
const galaxyObjects = `
apiVersion: v1
kind: ConfigMap
metadata: {namespace: kube-system, name: floatingip-config}
data: {floatingips: '[{"nodeSubnets":["0.0.0.0/0"],"ips":["203.0.113.2~203.0.113.20"],"subnet":"203.0.113.0/24","gateway":"203.0.113.1"}]'}
---
apiVersion: galaxy.k8s.io/v1alpha1
kind: FloatingIP
metadata: {name: 203.0.113.4}
spec: {key: sts_import_db_db-0, policy: 1, attribute: '{"NodeName":"n1"}', updateTime: "2026-01-02T03:04:05Z"}
---
apiVersion: galaxy.k8s.io/v1alpha1
kind: FloatingIP
metadata: {name: 203.0.113.5, labels: {reserved: ""}}
spec: {key: pool__reserved-for-node_, policy: 2}
---
apiVersion: galaxy.k8s.io/v1alpha1
kind: Pool
metadata: {namespace: kube-system, name: blue}
size: 2
`

// write writes a file for -f and returns its name.
func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "galaxy.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// summary lists the IPPools, which are open or closed, and the FloatingIPs.
func summary(t *testing.T) string {
	t.Helper()
	var pools networkv1alpha1.IPPoolList
	var ips networkv1alpha1.FloatingIPList
	for _, list := range []client.ObjectList{&pools, &ips} {
		if err := api.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	var found []string
	for _, p := range pools.Items {
		found = append(found, fmt.Sprintf("%s %d %t", p.Name, p.Spec.Size, p.Spec.Namespaces != nil))
	}
	for _, f := range ips.Items {
		text := f.Name + " " + f.Spec.Pool
		if h := f.Spec.Holder; h != nil {
			text += " " + h.Name + " " + h.Pod
		}
		found = append(found, text)
	}
	slices.Sort(found)
	return strings.Join(found, ", ")
}

// forgetImport deletes what an import created.
func forgetImport(t *testing.T) {
	t.Helper()
	ctx := context.Background()
	var pools networkv1alpha1.IPPoolList
	var ips networkv1alpha1.FloatingIPList
	for _, list := range []client.ObjectList{&pools, &ips} {
		if err := api.List(ctx, list); err != nil {
			t.Fatal(err)
		}
	}
	for i := range ips.Items {
		if err := operator.Delete(ctx, &ips.Items[i]); err != nil {
			t.Error(err)
		}
	}
	for i := range pools.Items {
		if err := api.Delete(ctx, &pools.Items[i]); err != nil {
			t.Error(err)
		}
	}
}

// TestImport takes over Galaxy's addresses from files and from the API server: dry, for real, and after an interruption.
func TestImport(t *testing.T) {
	kubectl(t, "apply", "-f", "../../dist/install.yaml")
	kubectl(t, "wait", "--for=condition=Established", "--timeout=60s", "crd/ippools.network.weft.dev", "crd/floatingips.network.weft.dev")
	weft(t, failed, []string{"ip", "import", "--location", "NAT"}, "error: there is no ConfigMap kube-system/floatingip-config")
	kubectl(t, "apply", "-f", write(t, galaxyKinds))
	kubectl(t, "wait", "--for=condition=Established", "--timeout=60s", "crd/floatingips.galaxy.k8s.io", "crd/pools.galaxy.k8s.io")
	file := write(t, galaxyObjects)
	kubectl(t, "apply", "-f", file)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "import"}}
	if err := api.Create(t.Context(), namespace); err != nil { // stays, because no namespace controller runs here
		t.Fatal(err)
	}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "db"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}}}
	db := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "import", Name: "db"},
		Spec: appsv1.StatefulSetSpec{Selector: &metav1.LabelSelector{MatchLabels: template.Labels}, Template: template}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "import", Name: "db-0"}, Spec: *template.Spec.DeepCopy()}
	pod.Spec.NodeName = "n1"
	create(t, db, pod)
	t.Cleanup(func() { forgetImport(t) })

	const note = "note: subnet 203.0.113.0/24, gateway 203.0.113.1 and VLAN 0 of [203.0.113.2-203.0.113.20] have no counterpart"
	for _, from := range [][]string{nil, {"-f", file}} {
		dry := weftReads(t, "", fine, append([]string{"ip", "import", "--location", "NAT"}, from...), note, "kind: IPPool",
			"podUID: "+string(pod.UID), "uid: "+string(db.UID), "network.weft.dev/reserved: reserved-for-node",
			"- addresses: 203.0.113.2-203.0.113.3")
		if err := os.WriteFile(file+".out", []byte(dry), 0o600); err != nil {
			t.Fatal(err)
		}
		kubectl(t, "--as=system:serviceaccount:"+system+":weft-operator", "create", "--dry-run=client", "-f", file+".out")
	}
	if have := summary(t); have != "" {
		t.Errorf("a dry run created %s", have)
	}
	weft(t, fine, []string{"ip", "import", "--location", "NAT", "-o", "json"}, `"notes": [`, `"pools": [`)

	importForReal(t)
	mistakesOfImport(t, file)
}

func importForReal(t *testing.T) {
	const all = "203.0.113.4 galaxy db db-0, 203.0.113.5 galaxy, blue 2 true, galaxy 0 true"
	args := []string{"ip", "import", "--location", "NAT", "--apply"}
	weft(t, fine, args, "2 IPPools and 2 FloatingIPs created or completed, 0 existed already")
	if have := summary(t); have != all {
		t.Errorf("import created %s, want %s", have, all)
	}
	weft(t, fine, args, "0 IPPools and 0 FloatingIPs created or completed, 4 existed already")

	// After an interruption, the pools are closed and a FloatingIP is missing.
	for _, name := range []string{"blue", "galaxy"} {
		p := &networkv1alpha1.IPPool{}
		if err := api.Get(t.Context(), client.ObjectKey{Name: name}, p); err != nil {
			t.Fatal(err)
		}
		p.Spec.Namespaces, p.Spec.Size = nil, 0
		if err := api.Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	if err := operator.Delete(t.Context(), &networkv1alpha1.FloatingIP{ObjectMeta: metav1.ObjectMeta{Name: "203.0.113.4"}}); err != nil {
		t.Fatal(err)
	}
	weft(t, fine, args, "2 IPPools and 1 FloatingIPs created or completed, 1 existed already")
	if have := summary(t); have != all {
		t.Errorf("a second import left %s, want %s", have, all)
	}

	// An address that another workload has is an error, and its holder stays.
	f := &networkv1alpha1.FloatingIP{}
	if err := api.Get(t.Context(), client.ObjectKey{Name: "203.0.113.4"}, f); err != nil {
		t.Fatal(err)
	}
	f.Spec.Holder.Name = "other"
	if err := operator.Update(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	weft(t, failed, args, "error: FloatingIP 203.0.113.4 is of StatefulSet import/other: somebody else has it")
	weft(t, failed, []string{"ip", "import", "--location", "Overlay", "--apply"}, "error: IPPool blue exists with another spec")
}

func mistakesOfImport(t *testing.T, file string) {
	weft(t, failed, []string{"ip", "import"}, `required flag(s) "location" not set`)
	weft(t, failed, []string{"ip", "import", "--location", "Here"}, `invalid --location "Here": want Overlay, Underlay, NAT`)
	weft(t, failed, []string{"ip", "import", "--location", "Underlay"}, "--location Underlay needs --network")
	weft(t, failed, []string{"ip", "import", "--location", "NAT", "--network", "x"}, "no other location has one")
	weft(t, failed, []string{"ip", "import", "--location", "NAT", "-o", "text"}, `invalid output "text": want yaml or json`)
	weft(t, failed, []string{"ip", "import", "--location", "NAT", "-f", file + ".none"}, "galaxy.yaml.none")
	weft(t, failed, []string{"ip", "import", "--location", "NAT", "-f", write(t, "{apiVersion: v1, kind: Pod, metadata: {name: p}}")},
		"error: Pod p: it is neither Galaxy's FloatingIP or Pool nor ConfigMap floatingip-config")
}
