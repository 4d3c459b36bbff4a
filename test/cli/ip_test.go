package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

const shop = "shop" // a namespace with addresses

// addresses is a cluster with an IPPool, and its objects.
type addresses struct {
	*testing.T
	db  *appsv1.StatefulSet
	pod *corev1.Pod // db-0
}

// newAddresses creates the IPPool "web", a StatefulSet "db" with the pod "db-0", and FloatingIPs of all kinds.
func newAddresses(t *testing.T) *addresses {
	kubectl(t, "apply", "-f", "../../dist/install.yaml")
	kubectl(t, "wait", "--for=condition=Established", "--timeout=60s", "crd/ippools.network.weft.dev", "crd/floatingips.network.weft.dev")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shop}}
	if err := api.Create(t.Context(), namespace); err != nil && !strings.Contains(err.Error(), "already exists") {
		t.Fatal(err) // the namespace stays, because no namespace controller runs here
	}
	pool := &networkv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	pool.Spec.Location = networkv1alpha1.LocationNAT
	pool.Spec.Ranges = []networkv1alpha1.IPPoolRange{{Addresses: "192.0.2.0/25"}, {Addresses: "2001:db8::/64"}}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "db"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}}}
	a := &addresses{t, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "db"},
		Spec: appsv1.StatefulSetSpec{Selector: &metav1.LabelSelector{MatchLabels: template.Labels}, Template: template}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "db-0"}, Spec: *template.Spec.DeepCopy()}}
	a.pod.Spec.NodeName = "n1"
	a.pod.Status.Phase = corev1.PodRunning
	create(t, a.db, a.pod)
	if err := api.Create(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = api.Delete(context.Background(), pool) })

	a.add("192.0.2.10", "web", a.holder("StatefulSet", "db", "db-0", a.pod.UID, networkv1alpha1.ReleaseImmutable))
	a.add("192.0.2.9", "web", a.holder("StatefulSet", "db", "db-1", "", networkv1alpha1.ReleaseImmutable))
	a.add("192.0.2.111", "web", a.holder("StatefulSet", "db", "db-7", "uid-of-db-7", networkv1alpha1.ReleaseWithPod))
	a.add("192.0.2.12", "web", a.holder("Deployment", "gone", "", "", networkv1alpha1.ReleaseNever))
	a.add("192.0.2.200", "web", a.holder("StatefulSet", "db", "db-2", "", networkv1alpha1.ReleaseNever))
	a.add("198.51.100.1", "lost", nil)
	f := a.add("2001:db8::10", "web", nil)
	f.Labels = map[string]string{networkv1alpha1.ReservedLabel: "firewall"}
	at := metav1.Date(2026, time.May, 1, 10, 0, 0, 0, time.UTC)
	f.Status.History = []networkv1alpha1.FloatingIPUse{{Kind: "Deployment", Namespace: shop, Name: "old", Pod: "old-x", Node: "n2",
		From: at, Until: metav1.NewTime(at.Add(time.Hour))}}
	if err := operator.Update(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *addresses) holder(kind, name, pod string, uid types.UID, policy networkv1alpha1.ReleasePolicy) *networkv1alpha1.FloatingIPHolder {
	return &networkv1alpha1.FloatingIPHolder{APIVersion: "apps/v1", Kind: kind, Namespace: shop, Name: name, UID: a.db.UID,
		Pod: pod, PodUID: uid, Node: "n1", ReleasePolicy: policy, Since: metav1.NewTime(time.Now().Add(-50 * time.Hour))}
}

// add creates a FloatingIP.
func (a *addresses) add(address, pool string, holder *networkv1alpha1.FloatingIPHolder) *networkv1alpha1.FloatingIP {
	name := strings.NewReplacer("2001:db8::10", "2001-0db8-0000-0000-0000-0000-0000-0010").Replace(address)
	f := &networkv1alpha1.FloatingIP{ObjectMeta: metav1.ObjectMeta{Name: name}}
	f.Spec.Address, f.Spec.Pool, f.Spec.Holder = networkv1alpha1.EgressAddress(address), pool, holder
	if err := operator.Create(a.Context(), f); err != nil {
		a.Fatal(err)
	}
	t := a.T
	t.Cleanup(func() {
		if err := operator.Delete(context.Background(), f); err != nil {
			t.Error(err)
		}
	})
	return f
}

// read returns a FloatingIP of an IPv4 address.
func (a *addresses) read(address string) *networkv1alpha1.FloatingIP {
	f := &networkv1alpha1.FloatingIP{}
	if err := api.Get(a.Context(), client.ObjectKey{Name: address}, f); err != nil {
		a.Fatal(err)
	}
	return f
}

// listed runs "ip list -o json" and compares the addresses in their order.
func (a *addresses) listed(want string, args ...string) {
	a.Helper()
	var answer struct {
		Addresses []struct{ Address, State string }
	}
	out := weftReads(a.T, "", fine, append([]string{"ip", "list", "-o", "json"}, args...))
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		a.Fatalf("%v: %s", err, out)
	}
	var have []string
	for _, one := range answer.Addresses {
		have = append(have, one.Address)
	}
	if got := strings.Join(have, " "); got != want {
		a.Errorf("list %v: %s, want %s", args, got, want)
	}
}

func TestAddresses(t *testing.T) {
	a := newAddresses(t)
	t.Run("list", func(t *testing.T) { a.T = t; a.lists() })
	t.Run("history", func(t *testing.T) { a.T = t; a.histories() })
	t.Run("leaks", func(t *testing.T) { a.T = t; a.leaks() })
	t.Run("release", func(t *testing.T) { a.T = t; a.releases() })
}

func (a *addresses) lists() {
	a.listed("192.0.2.9 192.0.2.10 192.0.2.12 192.0.2.111 192.0.2.200 198.51.100.1 2001:db8::10")
	a.listed("192.0.2.9 192.0.2.10 192.0.2.111 192.0.2.200", "-n", shop, "--workload", "db", "--pool", "web")
	a.listed("192.0.2.9 192.0.2.10 192.0.2.111 192.0.2.200", "--workload", "statefulset/db")
	a.listed("", "--workload", "Deployment/db")
	a.listed("", "-n", "default")
	a.listed("192.0.2.9", "--pod", "db-1")
	a.listed("192.0.2.10 192.0.2.111", "USED")
	a.listed("2001:db8::10", "reserved")
	a.listed("198.51.100.1 192.0.2.9 192.0.2.10 192.0.2.12 192.0.2.111 192.0.2.200 2001:db8::10", "--sort", "pool")
	a.listed("198.51.100.1 2001:db8::10 192.0.2.10 192.0.2.9 192.0.2.200 192.0.2.111 192.0.2.12", "--sort", "workload")
	if out := weftReads(a.T, "", fine, []string{"ip", "list", "-o", "json", "nothing has this"}); !strings.Contains(out, `"addresses": []`) {
		a.Errorf("no address: %s", out)
	}
	weft(a.T, fine, []string{"ip", "list", "nothing has this"}, "No addresses.")
	weft(a.T, fine, []string{"ip", "list"}, "ADDRESS       POOL  STATE           HOLDER",
		"192.0.2.10    web   used            StatefulSet shop/db   db-0  n1    Immutable  2d2h",
		"2001:db8::10  web   free, reserved  -                     -     -     -          -")
	weft(a.T, failed, []string{"ip", "list", "--sort", "colour"}, `error: invalid --sort "colour"`)
	weft(a.T, failed, []string{"ip", "list", "-o", "yaml"}, `invalid output "yaml"`)
}

func (a *addresses) histories() {
	weft(a.T, fine, []string{"ip", "history", "2001:db8:0::10"}, "2001:db8::10 of IPPool web is free, reserved",
		"2026-05-01T10:00:00Z  2026-05-01T11:00:00Z  Deployment shop/old  old-x  n2")
	weft(a.T, fine, []string{"ip", "history", "192.0.2.10"}, "192.0.2.10 of IPPool web is used", "now    StatefulSet shop/db  db-0  n1")
	weft(a.T, fine, []string{"ip", "history", "192.0.2.9", "-o", "json"}, `"state": "kept"`, `"history": []`)
	weft(a.T, failed, []string{"ip", "history", "192.0.2.99"}, "error: no FloatingIP has the address 192.0.2.99")
	weft(a.T, failed, []string{"ip", "history", "db-0"}, `error: "db-0" is not an IP address`)
}

// leaks checks that each address that is held for nothing is named with its reason, and no other.
func (a *addresses) leaks() {
	var answer struct {
		Leaks        []struct{ Address, Reason string }
		Rows, Unread []string
	}
	out := weftReads(a.T, "", different, []string{"ip", "leaks", "-o", "json"})
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		a.Fatalf("%v: %s", err, out)
	}
	have := map[string]string{}
	for _, one := range answer.Leaks {
		have[one.Address] = one.Reason
	}
	want := map[string]string{
		"192.0.2.12":   "Deployment shop/gone does not exist, and release policy Never keeps the address until somebody releases it",
		"192.0.2.111":  "pod shop/db-7 (UID uid-of-db-7) does not exist",
		"192.0.2.200":  "it is in none of the ranges of IPPool web",
		"198.51.100.1": "IPPool lost does not exist",
	}
	if !maps.Equal(have, want) {
		a.Errorf("leaks: %v, want %v", have, want)
	}
	if len(answer.Unread) != 1 || !strings.Contains(answer.Unread[0], "no operator leads") || answer.Rows == nil {
		a.Errorf("without an operator: unread %v, rows %v", answer.Unread, answer.Rows)
	}
	weft(a.T, different, []string{"ip", "leaks"}, "192.0.2.111   web   used   pod shop/db-7 (UID uid-of-db-7) does not exist",
		"not read: rows of the northbound database: no operator leads")
}

func (a *addresses) releases() {
	const runs = "pod shop/db-0 on node n1 (Running) has it; delete the pod or its workload first"
	before := a.read("192.0.2.10").ResourceVersion
	weft(a.T, failed, []string{"ip", "release", "192.0.2.10", "--yes"}, "error: nothing was released: 192.0.2.10: "+runs)
	if f := a.read("192.0.2.10"); f.ResourceVersion != before {
		a.Errorf("a refused address was written: %+v", f.Spec)
	}
	weftReads(a.T, "n\n", failed, []string{"ip", "release", "192.0.2.9"}, "Release 1 address? [y/N]",
		"not confirmed, so nothing was released")
	weftReads(a.T, "", failed, []string{"ip", "release", "192.0.2.9"}, "not confirmed")
	if a.read("192.0.2.9").Spec.Holder == nil {
		a.Error("an address was released without a confirmation")
	}
	weftReads(a.T, "yes\n", fine, []string{"ip", "release", "192.0.2.9"}, "192.0.2.9 of IPPool web released from StatefulSet shop/db")
	weft(a.T, fine, []string{"ip", "release", "192.0.2.9", "--yes"}, "Nobody has the address. Nothing was changed.")

	// The pod of 192.0.2.111 does not exist: its end is noted in the history.
	weft(a.T, different, []string{"ip", "release", "--workload", "StatefulSet/db", "-n", shop, "-y"}, "192.0.2.10 is not released: "+runs,
		"192.0.2.111 of IPPool web released", "192.0.2.200 of IPPool web released")
	f := a.read("192.0.2.111")
	if f.Spec.Holder != nil || len(f.Status.History) != 1 || f.Status.History[0].Pod != "db-7" {
		a.Errorf("released: %+v, %+v", f.Spec, f.Status)
	}
	if a.read("192.0.2.10").Spec.Holder == nil {
		a.Error("an address of a running pod was released")
	}
	a.releasesByMistake()
}

// releasesByMistake runs release with arguments that it refuses.
func (a *addresses) releasesByMistake() {
	for message, args := range map[string][]string{
		"want either addresses or --workload":                             {},
		"want either addresses":                                           {"192.0.2.10", "--workload", "db"},
		"--namespace is the namespace of --workload":                      {"192.0.2.10", "-n", shop},
		"-o json asks no questions":                                       {"192.0.2.10", "-o", "json"},
		"no FloatingIP has the address 192.0.2.99":                        {"192.0.2.99", "-y"},
		"no address is held by nope in namespace default":                 {"--workload", "nope", "-y"},
		fmt.Sprintf("no address is held by Job/db in namespace %s", shop): {"--workload", "Job/db", "-n", shop, "-y"},
	} {
		weft(a.T, failed, append([]string{"ip", "release"}, args...), message)
	}
	ended := client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`))
	if err := api.Status().Patch(a.Context(), a.pod, ended); err != nil {
		a.Fatal(err)
	}
	out := weftReads(a.T, "", fine, []string{"ip", "release", "192.0.2.10", "-y", "-o", "json"}, `"refused": []`)
	if !slices.Contains(strings.Fields(out), `"192.0.2.10",`) {
		a.Errorf("the address of a pod that has ended: %s", out)
	}
}
