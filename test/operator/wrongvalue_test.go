package operator

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/poll"
)

// A wrong value of a field of Weft's API changes nothing that works: the API server refuses it and names the field, or no row and no
// NodeNetwork.spec changes and a condition names the field or the value. legalValues and quietValues have the values that are right for
// somebody. After each value the former one is restored, and the state is as before.
func TestAWrongValueChangesNothing(t *testing.T) {
	w := newWorld(t)
	o := w.start()
	m := &wrongModel{world: w, operator: o}
	m.create()
	kinds := api.Scheme().KnownTypes(networkv1alpha1.GroupVersion)
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		spec, has := kinds[kind].FieldByName("Spec")
		if !has || kind == "NodeNetwork" { // the API server lets only the operator write it
			continue
		}
		walkFields(spec.Type, "", func(path string, field reflect.Type) {
			if kind == "FloatingIP" && strings.HasPrefix(path, "holder.") {
				return // the operator writes it
			}
			if kind == "ClusterNetwork" && strings.HasPrefix(path, "components.") {
				return // weft-operands follows it: test/crd has wrong values, and package rollout stops at the first node
			}
			values := append(slices.Clone(wrongValues[kind][path]), valuesOf(field)...)
			if len(values) == 0 {
				t.Errorf("%s has no wrong value for %s", kind, path)
			}
			for _, value := range values {
				m.try(wrongValue{kind, path, value})
			}
			for list := path; strings.Contains(list, "[]"); list = strings.TrimRight(list, ".[]") {
				if list = list[:strings.LastIndex(list, "[]")+2]; !m.lists[kind+list] {
					m.lists[kind+list] = true
					m.try(wrongValue{kind, list, empty})
					m.try(wrongValue{kind, list, twice})
				}
			}
		})
	}
	t.Log(m.counts)
	for _, list := range []map[string]string{legalValues, quietValues} {
		for key := range list {
			if !m.used[key] {
				t.Errorf("%s is listed, and the API server refuses it", key)
			}
		}
	}
}

// walkFields calls f for each field of a spec: "nextHops.static[].address".
func walkFields(of reflect.Type, path string, f func(path string, field reflect.Type)) {
	switch {
	case of.Kind() == reflect.Pointer:
		walkFields(of.Elem(), path, f)
	case of.Kind() == reflect.Slice:
		walkFields(of.Elem(), path+"[]", f)
	case of.Kind() == reflect.Struct && strings.Contains(of.PkgPath(), "weft"):
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			walkFields(of.Field(i).Type, strings.Trim(path+"."+name, "."), f)
		}
	default:
		f(path, of)
	}
}

// valuesOf returns wrong values for every field of a type.
func valuesOf(of reflect.Type) []string {
	switch {
	case of == reflect.TypeFor[metav1.LabelSelector]():
		return []string{`{matchLabels: {-bad-: x}}`, `{matchExpressions: [{key: a, operator: Like}]}`}
	case of.Kind() == reflect.Int32 || of.Kind() == reflect.Int64:
		return []string{"-1", "2147483647"}
	case of.Kind() == reflect.String && of.Name() != "string":
		return []string{"Wrong/x", `""`}
	}
	return nil
}

// wrongValue is a value of a field, in YAML: "ClusterNetwork", "gateway.nextHops[]", "127.0.0.1". The path of a list can also have the
// values empty, for the whole list, and twice, for a copy of its first element behind it.
type wrongValue struct{ kind, path, value string }

const (
	empty = "(empty)"
	twice = "(twice)"
)

func (v wrongValue) String() string { return v.kind + " " + v.path + " " + v.value }

// wrongModel is a cluster in which everything is in use.
type wrongModel struct {
	*world
	operator *operator
	counts   map[string]int
	rows     map[rowKey]rowText // of the database
	specs    map[string]string  // node -> spec of its NodeNetwork
	lists    map[string]bool    // kind and path of the lists that were tried
	used     map[string]bool    // keys of legalValues and quietValues
	kind     string             // of the last value
	said     map[string]bool    // messages of conditions before a value of the kind
}

// create makes the objects, and records what works.
func (m *wrongModel) create() {
	m.counts, m.lists, m.used = map[string]int{}, map[string]bool{}, map[string]bool{}
	(&tenant{world: m.world}).victims()
	for _, node := range []string{"n1", "n2"} {
		patch(m.world, m.node(node), func(n *corev1.Node) {
			metav1.SetMetaDataLabel(&n.ObjectMeta, networkv1alpha1.EgressAssignableLabel, "")
		})
	}
	cn := &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	m.change(cn, func(s *networkv1alpha1.ClusterNetworkSpec) {
		s.PhysicalNetworks = []networkv1alpha1.PhysicalNetwork{{Name: "dc", Link: "eth1"}}
	})
	for _, node := range []string{"n1", "n2"} {
		m.wantPhysical(node, "dc eth1")
		m.reportPhysical(node, networkv1alpha1.NodePhysicalNetworkStatus{Name: "dc", Ready: true, Bridge: "breth1", LinkMTU: 1500})
		m.gatewayReports(node, "", "")
	}
	m.podNetwork("segment", networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLocalnet, PhysicalNetwork: "dc", VLAN: 100,
		Subnets: subnets("10.103.0.0/24", "fd00:103::/64"), ExcludeSubnets: []networkv1alpha1.CIDR{"10.103.0.1/32"}})
	m.requesting("s", "n1", "segment")
	for _, label := range []string{"out", "route"} {
		p := pod(label, "n2")
		p.Labels = map[string]string{label: "yes"}
		m.run(p)
		m.port(p)
	}
	for _, manifest := range strings.Split(wrongObjects, "---") {
		o := &unstructured.Unstructured{}
		m.must(yaml.Unmarshal([]byte(manifest), &o.Object))
		o.SetAPIVersion(networkv1alpha1.GroupVersion.String())
		m.must(api.Create(m.Context(), o))
		m.Cleanup(func() { _ = api.Delete(context.Background(), o) })
	}
	m.service("lb", func(s *corev1.Service) {
		s.Spec.Type, s.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, new("weft.dev/load-balancer")
	})
	m.endpoints("lb-1", "lb", "10.244.0.4")
	m.until(func() error {
		if len(m.networkPorts()) != 6 {
			return fmt.Errorf("ports: %v", m.networkPorts())
		}
		s := &corev1.Service{}
		err := view.Get(m.Context(), client.ObjectKey{Namespace: "default", Name: "lb"}, s)
		if len(s.Status.LoadBalancer.Ingress) == 0 {
			return fmt.Errorf("the Service has no address: %w", cmp.Or(err, errAbsent))
		}
		return nil
	})
	m.until(func() error { // the BGPAdvertisement is reconciled on its own
		for node, spec := range m.nodeSpecs() {
			if !strings.Contains(spec, "192.0.2.220/32") { // the last of its routes
				return fmt.Errorf("node %s does not announce the balancer's address", node)
			}
		}
		return nil
	})
	m.rows, m.specs = m.steady(), m.nodeSpecs()
}

// steady waits until two readings of the whole state are equal.
func (m *wrongModel) steady() map[rowKey]rowText {
	m.Helper()
	var before map[rowKey]rowText
	m.until(func() error {
		m.operator.settle()
		rows := m.allRows()
		defer func() { before = rows }()
		if before == nil || !reflect.DeepEqual(before, rows) {
			return fmt.Errorf("rows change")
		}
		return nil
	})
	return before
}

// wrongObjects are what the victims of a tenant do not have.
const wrongObjects = `
kind: ExternalRoute
metadata: {name: route}
spec: {namespaceSelector: {}, podSelector: {matchLabels: {route: "yes"}}, nextHops: {static: [{address: 192.0.2.201}]}}
---
kind: LoadBalancerPool
metadata: {name: edge}
spec: {addresses: [192.0.2.220-192.0.2.223], loadBalancerClass: weft.dev/load-balancer}
---
kind: BGPPeer
metadata: {name: rack}
spec: {peerAddress: 192.0.2.1, peerASN: 64512, myASN: 64513}
---
kind: BGPAdvertisement
metadata: {name: all}
spec: {loadBalancers: {pools: [edge]}, egressIPs: {}, podSubnets: true, peers: [rack]}
---
kind: EgressFirewall
metadata: {name: default, namespace: default}
spec: {egress: [{type: Deny, to: {cidrSelector: 198.51.100.0/24}, ports: [{protocol: TCP, port: 25}]}]}
---
kind: EgressQoS
metadata: {name: default, namespace: default}
spec: {egress: [{dscp: 46, dstCIDR: 198.51.100.0/24}]}
`

// object returns the object of a kind that the test changes.
func (m *wrongModel) object(kind string) *unstructured.Unstructured {
	names := map[string]string{"ClusterNetwork": "default", "Network": "segment", "IPPool": "nat", "ExternalRoute": "route",
		"LoadBalancerPool": "edge", "EgressIP": "out", "EgressFirewall": "default", "EgressQoS": "default", "BGPPeer": "rack",
		"BGPAdvertisement": "all", "FloatingIP": "192.0.2.40"}
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(networkv1alpha1.GroupVersion.WithKind(kind))
	key := client.ObjectKey{Name: names[kind]}
	if kind == "EgressFirewall" || kind == "EgressQoS" {
		key.Namespace = "default"
	}
	m.must(api.Get(m.Context(), key, o))
	return o
}

// elements complete an element that the test adds to a list.
var elements = map[string]string{
	"overrides": `{nodeSelector: {}}`, "physicalNetworks": `{name: lan, link: eth7}`, "reservedPorts": `{protocol: TCP, port: 5000}`,
	"zones": `{name: z, nodeSelector: {zone: z}}`, "subnets": `{}`, "pods": `{namespaceSelector: {}, podSelector: {}}`,
}

// set sets a field: "nextHops.static[].address". A list gets the value in its first element.
func set(in map[string]any, path string, value any) {
	name, rest, nested := strings.Cut(path, ".")
	field, isList := strings.CutSuffix(name, "[]")
	if !isList && !nested {
		if in[field] = value; value == nil {
			delete(in, field)
		}
		return
	}
	if !isList {
		child, _ := in[field].(map[string]any)
		if child == nil {
			child = map[string]any{}
		}
		set(child, rest, value)
		in[field] = child
		return
	}
	list, _ := in[field].([]any)
	switch {
	case !nested && value == empty:
		in[field] = []any{}
		return
	case !nested && value == twice:
		if len(list) > 0 {
			in[field] = append(slices.Clone(list), list[0])
		}
		return
	}
	if !nested {
		if list = slices.Clone(list); len(list) == 0 {
			list = []any{nil}
		}
		if list[0] = value; value == nil {
			list = list[1:]
		}
		in[field] = list
		return
	}
	if len(list) == 0 {
		element := map[string]any{}
		_ = yaml.Unmarshal([]byte(elements[field]), &element)
		list = []any{element}
	}
	set(list[0].(map[string]any), rest, value)
	in[field] = list
}

// messages returns what the conditions of the object of a kind and of the ClusterNetwork say, and the problems.
func (m *wrongModel) messages(kind string) map[string]bool {
	found := map[string]bool{}
	add := func(o *unstructured.Unstructured) {
		for _, list := range []string{"conditions", "problems"} {
			all, _, _ := unstructured.NestedSlice(o.Object, "status", list)
			for _, c := range all {
				if message, _ := c.(map[string]any)["message"].(string); message != "" {
					found[message] = true
				}
			}
		}
	}
	add(m.object(kind))
	add(m.object("ClusterNetwork"))
	return found
}

// nodeSpecs returns the spec of each NodeNetwork.
func (m *wrongModel) nodeSpecs() map[string]string {
	found := map[string]string{}
	var list networkv1alpha1.NodeNetworkList
	m.must(api.List(m.Context(), &list))
	for _, nn := range list.Items {
		text, err := json.Marshal(nn.Spec)
		m.must(err)
		found[nn.Name] = string(text)
	}
	return found
}

// names reports whether a message names the field or the value.
func (v wrongValue) names(message string) bool {
	fields := strings.Split(strings.ReplaceAll(v.path, "[]", ""), ".")
	text, _, _ := strings.Cut(strings.Trim(v.value, `"`), "/")
	return slices.ContainsFunc(fields, func(f string) bool { return strings.Contains(message, f) }) ||
		len(text) > 3 && strings.Contains(message, text)
}

// try writes a wrong value, judges what follows, and restores the former value.
func (m *wrongModel) try(v wrongValue) {
	m.Helper()
	var value any
	m.must(yaml.Unmarshal([]byte(v.value), &value))
	o := m.object(v.kind)
	former := o.DeepCopy()
	if m.kind != v.kind {
		m.kind, m.said = v.kind, m.messages(v.kind)
	}
	var err error
	m.until(func() error {
		o = m.object(v.kind)
		set(o.Object["spec"].(map[string]any), v.path, value)
		if reflect.DeepEqual(o.Object["spec"], former.Object["spec"]) {
			return nil // nothing to repeat
		}
		if err = api.Update(m.Context(), o); apierrors.IsConflict(err) {
			return err // the operator wrote the status meanwhile
		}
		return nil
	})
	if err != nil {
		m.counts["refused"]++
		if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) && !apierrors.IsBadRequest(err) || !v.names(err.Error()) {
			m.Errorf("%s: the API server's refusal does not name the field: %v", v, err)
		}
		return
	}
	if reflect.DeepEqual(o.Object["spec"], former.Object["spec"]) {
		return
	}
	m.judge(v, o)
	m.edit(o, func() { o.Object["spec"] = former.DeepCopy().Object["spec"] })
	m.until(func() error {
		m.operator.settle()
		if strings.HasPrefix(v.path, "gateway.") {
			m.gatewayReports("n1", "", "")
			m.gatewayReports("n2", "", "")
		}
		rows := m.allRows()
		if wrong := lostOf(m.rows, rows) + lostOf(rows, m.rows); wrong != "" {
			return fmt.Errorf("after %s: %s", v, wrong)
		}
		if specs := m.nodeSpecs(); !maps.Equal(m.specs, specs) {
			return fmt.Errorf("after %s: NodeNetworks\n%v\nwere %v", v, specs, m.specs)
		}
		for message := range m.messages(v.kind) {
			if !m.said[message] && v.names(message) {
				return fmt.Errorf("after %s: %s", v, message)
			}
		}
		return nil
	})
}

// judge fails the test unless an accepted value is legal, or changes nothing and is named by a condition.
func (m *wrongModel) judge(v wrongValue, o *unstructured.Unstructured) {
	m.Helper()
	if m.isListed(legalValues, v) {
		m.counts["legal"]++
		return
	}
	quiet := m.isListed(quietValues, v)
	m.eventually(v.String()+": no condition names the field", func() bool {
		m.operator.settle()
		if quiet || strings.HasPrefix(v.path, "gateway.") {
			return m.isObserved(v.kind, o.GetGeneration())
		}
		for message := range m.messages(v.kind) {
			if !m.said[message] && v.names(message) {
				return true
			}
		}
		return false
	})
	m.operator.settle()
	if lost := lostOf(m.rows, m.allRows()); lost != "" {
		m.Errorf("%s: what works has changed:\n%s", v, lost)
	}
	changed := 0
	for node, spec := range m.nodeSpecs() {
		if spec != m.specs[node] {
			changed++
		}
	}
	if changed > 1 || changed == 1 && !strings.HasPrefix(v.path, "gateway.") { // one node at a time gets a changed gateway
		m.Errorf("%s: the spec of %d NodeNetworks has changed", v, changed)
	}
	m.counts["held"]++
}

// eventually records an error unless a state is reached.
func (m *wrongModel) eventually(or string, reached func() bool) {
	m.Helper()
	for end := time.Now().Add(wrongPatience); !reached(); time.Sleep(poll.Interval) {
		if time.Now().After(end) {
			m.Error(or)
			return
		}
	}
}

// wrongPatience bounds how long a condition may take; a tenth of a second is usual.
const wrongPatience = 20 * time.Second

// isObserved reports whether the operator has reconciled a generation of an object that has conditions.
func (m *wrongModel) isObserved(kind string, generation int64) bool {
	o := m.object(kind)
	if seen, found, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration"); found {
		return seen >= generation
	}
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	return len(all) == 0 || slices.ContainsFunc(all, func(c any) bool {
		seen, _, _ := unstructured.NestedInt64(c.(map[string]any), "observedGeneration")
		return seen >= generation
	})
}

// isListed reports whether a value is in a list, whose keys are "Kind path value" or "Kind path".
func (m *wrongModel) isListed(in map[string]string, v wrongValue) bool {
	for _, key := range []string{v.String(), v.kind + " " + v.path} {
		if _, found := in[key]; found {
			m.used[key] = true
			return true
		}
	}
	return false
}
