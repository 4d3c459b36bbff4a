package operator

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/pkg/unit"
)

var (
	tenantSteps = flag.Int("tenant-steps", 2000, "number of steps of TestATenantTouchesNobody")
	tenantSeed  = flag.Uint64("tenant-seed", 1, "seed of TestATenantTouchesNobody")
)

// A user with the rights of one namespace tries everything there that names others: their addresses, MACs, ports, Networks, definitions,
// pools and services. No row and no state of anybody else changes at any time, the invariants hold, and nothing is left at the end.
func TestATenantTouchesNobody(t *testing.T) {
	w := newWorld(t)
	o := w.start()
	u := &tenant{world: w, random: rand.New(rand.NewPCG(*tenantSeed, 1)),
		macs: []string{"02:00:00:00:00:0b", "0a:58:0a:f4:00:01", "0a:58:0a:f4:00:02", "02:00:00:00:00:cc"}}
	u.victims()
	u.login()
	rows, states := w.allRows(), u.states()
	const between = 50
	for step := range *tenantSteps {
		u.step()
		if step%between != between-1 {
			continue
		}
		now := w.allRows()
		if wrong := lostOf(rows, now) + takenOf(rows, now); wrong != "" {
			t.Fatalf("step %d of seed %d:\n%s", step, *tenantSeed, wrong)
		}
		if after := u.states(); !maps.Equal(after, states) {
			t.Fatalf("step %d of seed %d: others have changed: %v, before %v", step, *tenantSeed, after, states)
		}
		if w.holds(); t.Failed() || !o.works() {
			t.Fatalf("step %d of seed %d", step, *tenantSeed)
		}
	}
	t.Logf("%d steps, %d of them refused by the API server", *tenantSteps, u.refused)
	if u.refused > *tenantSteps/2 {
		t.Errorf("%d of %d steps were refused by the API server", u.refused, *tenantSteps)
	}
	u.logout()
	w.until(func() error {
		after := w.allRows()
		if reflect.DeepEqual(after, rows) {
			return nil
		}
		return fmt.Errorf("rows are left, or lost: lost\n%s\nleft\n%s", lostOf(rows, after), lostOf(after, rows))
	})
	w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
		return condition(s.Conditions, networkv1alpha1.ConditionReady, networkv1alpha1.ReasonAsExpected, metav1.ConditionTrue)
	})
}

// victims makes what belongs to others: pods with addresses of every kind, Networks for them alone and for all, services, pools, policies.
func (u *tenant) victims() {
	w, ctx := u.world, u.Context()
	w.network(dualStack()...)
	w.joinShared("n1", "n2")
	of := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	w.must(api.Get(ctx, keyOf(of), of))
	patch(w, of, func(n *corev1.Namespace) { metav1.SetMetaDataLabel(&n.ObjectMeta, "team", "victims") })
	w.Cleanup(func() {
		unlabel := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"team":null}}}`))
		w.must(api.Patch(context.Background(), of, unlabel))
	})
	alone := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "victims"}}
	private := w.podNetwork("private", networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLayer2,
		Subnets: subnets("10.100.0.0/24")})
	patch(w, private, func(n *networkv1alpha1.Network) { n.Spec.Namespaces = alone })
	w.podNetwork("shared", networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLayer2,
		Subnets: subnets("10.101.0.0/28", "fd00:101::/64")})
	w.podNetwork("routed", networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLayer3,
		Subnets: []networkv1alpha1.NetworkSubnet{{CIDR: "10.102.0.0/16", HostPrefix: 24}}})
	w.podNetwork("bare", networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLayer2, IPAM: networkv1alpha1.IPAMNone})
	w.pool("nat", networkv1alpha1.LocationNAT, "192.0.2.40-192.0.2.47")
	patch(w, w.pool("private-nat", networkv1alpha1.LocationNAT, "192.0.2.60-192.0.2.63"), func(p *networkv1alpha1.IPPool) {
		p.Spec.Namespaces = alone
	})
	host := pod("d", "n2")
	host.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080, Protocol: corev1.ProtocolTCP}}
	w.run(host)
	pods := []*corev1.Pod{host, w.requesting("b", "n1", "private,shared,routed"),
		w.requesting("c", "n2", `[{"name":"shared","mac":"02:00:00:00:00:cc"},{"name":"bare"}]`),
		w.inPool("a", "n1", "nat", networkv1alpha1.ReleaseImmutable, nil)}
	w.until(func() error {
		if n := len(w.networkPorts()); n != 5 {
			return fmt.Errorf("%d ports on Networks", n)
		}
		return nil
	})
	for _, p := range pods {
		u.macs = append(u.macs, strings.Fields(w.port(p).Addresses[0])[0])
		for _, a := range w.addresses(w.port(p)) {
			u.addresses = append(u.addresses, a.String())
		}
	}
	web := w.service("web", func(s *corev1.Service) {
		s.Spec.Type, s.Spec.ExternalIPs = corev1.ServiceTypeNodePort, []string{"192.0.2.30"}
		s.Spec.Ports[0].NodePort = 30080
	})
	w.endpoints("web-1", "web", u.addresses[0])
	deny := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "deny"}}
	deny.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}
	mine := []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}}
	deny.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: mine}}
	w.must(api.Create(ctx, deny))
	w.egressIP("out", "192.0.2.100")
	u.services = []string{web.Spec.ClusterIP, "10.96.0.1", "192.0.2.30"}
	u.addresses = append(u.addresses, "192.0.2.1", "192.0.2.11", "192.0.2.12", "192.0.2.30", "192.0.2.40", "192.0.2.60", "192.0.2.100",
		"10.244.0.1", "10.244.0.2", "100.64.0.1", "100.64.0.3", "127.0.0.1", "0.0.0.0", "169.254.169.254", "255.255.255.255", "224.0.0.5",
		"fd00:10:244::1", "10.100.0.1", "10.101.0.1", "10.101.0.2", "fd00:101::1", "10.102.0.3", "10.102.0.1", "203.0.113.9",
		"10.244.0.40", "10.244.1.40", "10.101.0.9", "10.102.1.9")
	w.until(func() error {
		if u.states()["Service web"] == "" || len(w.rowsOf("service/default/web")) == 0 {
			return errAbsent
		}
		return nil
	})
	w.holds()
}

// states returns what others see of their objects: conditions, and the holders of floating addresses.
func (u *tenant) states() map[string]string {
	u.Helper()
	found := map[string]string{}
	var pods corev1.PodList
	var services corev1.ServiceList
	var floating networkv1alpha1.FloatingIPList
	var networks networkv1alpha1.NetworkList
	u.must(errors.Join(api.List(u.Context(), &pods, client.InNamespace("default")),
		api.List(u.Context(), &services, client.InNamespace("default")), api.List(u.Context(), &floating), api.List(u.Context(), &networks)))
	for _, p := range pods.Items {
		found["Pod "+p.Name] = fmt.Sprint(p.Annotations, p.Status.Conditions)
	}
	for _, s := range services.Items {
		found["Service "+s.Name] = fmt.Sprint(s.Spec.ClusterIPs, s.Status.Conditions)
	}
	for _, f := range floating.Items {
		if f.Spec.Holder != nil && (f.Spec.Holder.Namespace == "default" || f.Spec.Pool == "private-nat") {
			found["FloatingIP "+f.Name] = fmt.Sprint(*f.Spec.Holder, f.Labels)
		}
	}
	for _, n := range networks.Items {
		found["Network "+n.Name] = fmt.Sprint(n.Status.Conditions)
	}
	return found
}

// rowKey names a row: table and UUID.
type rowKey struct{ table, uuid string }

// rowText has the text of each column of a row. A set or map has its elements, sorted.
type rowText map[string][]string

// rowsOf returns the rows of a unit.
func (w *world) rowsOf(key unit.Key) (found []rowText) {
	for _, row := range w.allRows() {
		if slices.Contains(row["external_ids"], fmt.Sprintf("[%q,%q]", unit.OwnerKey, key)) {
			found = append(found, row)
		}
	}
	return found
}

// allRows reads the northbound database, except its global row.
func (w *world) allRows() map[rowKey]rowText {
	w.Helper()
	text := ovndbtest.Command(w, "ovsdb-client", "-f", "json", "dump", w.nb.Endpoint(), "OVN_Northbound")
	rows := map[rowKey]rowText{}
	for documents := json.NewDecoder(strings.NewReader(text)); ; {
		var table struct {
			Caption  string
			Headings []string
			Data     [][]json.RawMessage
		}
		if err := documents.Decode(&table); errors.Is(err, io.EOF) {
			return rows
		} else if err != nil {
			w.Fatal(err)
		}
		name, _, _ := strings.Cut(table.Caption, " ")
		for _, cells := range table.Data {
			key, row := rowKey{table: name}, rowText{}
			for i, cell := range cells {
				if row[table.Headings[i]] = elementsOf(cell); table.Headings[i] == "_uuid" {
					key.uuid = row["_uuid"][0]
				}
			}
			if delete(row, "_version"); name != "NB_Global" && name != "Connection" {
				rows[key] = row
			}
		}
	}
}

// elementsOf returns the elements of a cell, sorted: of a set or map several, of an atom one.
func elementsOf(cell json.RawMessage) []string {
	var pair []json.RawMessage
	var elements []json.RawMessage
	if json.Unmarshal(cell, &pair) != nil || len(pair) != 2 || bytes.Equal(pair[0], []byte(`"uuid"`)) ||
		json.Unmarshal(pair[1], &elements) != nil {
		return []string{string(cell)}
	}
	texts := []string{}
	for _, e := range elements {
		texts = append(texts, string(e))
	}
	slices.Sort(texts)
	return texts
}

// columnsOfSeveral are columns in which rows of several owners meet: others keep their elements there.
var columnsOfSeveral = map[string]bool{"Logical_Switch.ports": true, "Load_Balancer_Group.load_balancer": true, "Port_Group.ports": true,
	"Address_Set.addresses": true, "Chassis_Template_Var.variables": true, "Logical_Switch.load_balancer": true, "Logical_Router.nat": true,
	"Logical_Router.load_balancer": true, "Logical_Router.static_routes": true, "Logical_Router.policies": true, "Port_Group.acls": true,
	"Logical_Switch.acls": true, "Logical_Switch.qos_rules": true, "Logical_Switch.load_balancer_group": true}

// takenOf lists what rows of the tenant have that is for others: ports on the Network private, and what balancers of others balance.
func takenOf(before, after map[rowKey]rowText) string {
	var text strings.Builder
	balanced := map[string]bool{}
	for _, row := range before {
		for _, vip := range vipsOf(row) {
			balanced[vip] = true
			for _, ofNode := range []string{"192.0.2.11:30080", "192.0.2.12:30080", "192.0.2.12:8080"} { // of web, and of d on n2
				balanced[strings.ReplaceAll(vip, "192.0.2.30:80", ofNode)] = true
			}
		}
	}
	victim := ""
	for _, row := range before {
		victim = cmp.Or(victim, nodeWith8080(row))
	}
	for key, row := range after {
		if _, others := before[key]; others {
			continue
		}
		if at := nodeWith8080(row); at != "" && at == victim {
			fmt.Fprintf(&text, "port %v has the host port of another pod of its node: %v\n", row["name"], row["external_ids"])
		}
		if key.table == "Logical_Switch_Port" && strings.HasPrefix(row["name"][0], `"private_`) {
			fmt.Fprintf(&text, "port %v is on a Network that does not select its namespace\n", row["name"])
		}
		for _, vip := range vipsOf(row) {
			if balanced[vip] {
				fmt.Fprintf(&text, "load balancer %v balances %s of others\n", row["name"], vip)
			}
		}
	}
	return text.String()
}

var hostPort8080 = regexp.MustCompile(`tcp/[^/,]*:8080/`)

// nodeWith8080 returns the chassis of a pod's port with the host port TCP 8080, or "".
func nodeWith8080(row rowText) string {
	mapped := slices.ContainsFunc(row["external_ids"], func(e string) bool {
		return strings.HasPrefix(e, `["`+ovnexpr.HostPortsKey) && hostPort8080.MatchString(e)
	})
	for _, option := range row["options"] {
		if at, ok := strings.CutPrefix(option, `["requested-chassis",`); ok && mapped {
			return at
		}
	}
	return ""
}

// vipsOf returns the addresses and ports of a load balancer with its protocol. A template has another address on each node, so that two
// host ports may have the same one.
func vipsOf(row rowText) (vips []string) {
	for _, vip := range row["vips"] {
		if at, _, _ := strings.Cut(vip, `",`); !strings.Contains(at, "^") {
			vips = append(vips, row["protocol"][0]+" "+at)
		}
	}
	return vips
}

// lostOf lists what has been lost or changed of the rows that existed before; empty: nothing. Elements that were added to shared
// columns do not count.
func lostOf(before, after map[rowKey]rowText) string {
	var text strings.Builder
	for key, row := range before {
		now, exists := after[key]
		if !exists {
			fmt.Fprintf(&text, "%s %v is gone: %v\n", key.table, row["name"], row["external_ids"])
			continue
		}
		for column, elements := range row {
			lost := slices.DeleteFunc(slices.Clone(elements), func(e string) bool { return slices.Contains(now[column], e) })
			if len(lost) > 0 || len(now[column]) != len(elements) && !columnsOfSeveral[key.table+"."+column] {
				fmt.Fprintf(&text, "%s %v, column %s: %v was %v\n", key.table, row["name"], column, now[column], elements)
			}
		}
	}
	return text.String()
}
