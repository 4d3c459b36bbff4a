package policyoracle

import (
	"fmt"
	"math/rand/v2"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// source makes random clusters and traffic. It uses few names, labels and ports, so that random choices match often.
type source struct{ *rand.Rand }

func newSource(seed uint64) source { return source{rand.New(rand.NewPCG(seed, 0))} }

func oneOf[T any](s source, list ...T) T { return list[s.IntN(len(list))] }

func (s source) one(in int) bool { return s.IntN(in) == 0 }

// labelValues are the labels of all kinds of objects.
var labelValues = map[string][]string{"app": {"web", "db", ""}, "tier": {"x", "y", "z"}, "env": {"dev", "prod"}}

var labelKeys = []string{"app", "tier", "env"}

func (s source) labels() map[string]string {
	labels := map[string]string{}
	for _, key := range labelKeys {
		if !s.one(3) {
			labels[key] = oneOf(s, labelValues[key]...)
		}
	}
	return labels
}

func (s source) selector() metav1.LabelSelector {
	selector := metav1.LabelSelector{}
	for range oneOf(s, 0, 1, 1, 1, 2) {
		key := oneOf(s, labelKeys...)
		if s.one(2) {
			if selector.MatchLabels == nil {
				selector.MatchLabels = map[string]string{}
			}
			selector.MatchLabels[key] = oneOf(s, labelValues[key]...)
			continue
		}
		r := metav1.LabelSelectorRequirement{Key: key, Operator: oneOf(s, metav1.LabelSelectorOpIn,
			metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)}
		if r.Operator == metav1.LabelSelectorOpIn || r.Operator == metav1.LabelSelectorOpNotIn {
			for range 1 + s.IntN(2) {
				r.Values = append(r.Values, oneOf(s, labelValues[key]...))
			}
		}
		selector.MatchExpressions = append(selector.MatchExpressions, r)
	}
	return selector
}

// cluster returns a cluster without policies.
func (s source) cluster() *Cluster {
	c := &Cluster{}
	families := oneOf(s, []bool{true, true}, []bool{true, true}, []bool{true, false}, []bool{false, true})
	for n := range 1 + s.IntN(3) {
		node := Node{Name: fmt.Sprintf("n%d", n+1), Labels: s.labels()}
		if families[0] {
			node.Addresses = append(node.Addresses, address("172.18.0.%d", n+2))
			node.Management = append(node.Management, address("10.244.%d.2", n))
		}
		if families[1] {
			node.Addresses = append(node.Addresses, address("fc00:172::%d", n+2))
			node.Management = append(node.Management, address("fd00:10:244:%x::2", n))
		}
		c.Nodes = append(c.Nodes, node)
	}
	for n := range 1 + s.IntN(3) {
		labels := s.labels()
		name := fmt.Sprintf("ns%d", n+1)
		labels[corev1.LabelMetadataName] = name
		c.Namespaces = append(c.Namespaces, corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
	}
	for n := range 2 + s.IntN(10) {
		c.Pods = append(c.Pods, s.pod(c, n, families))
	}
	return c
}

func address(format string, n int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf(format, n)) }

func (s source) pod(c *Cluster, n int, families []bool) corev1.Pod {
	node := s.IntN(len(c.Nodes))
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: oneOf(s, c.Namespaces...).Name, Name: fmt.Sprintf("p%d", n+1),
			UID: types.UID(fmt.Sprintf("uid-%d", n+1)), Labels: s.labels()},
		Spec: corev1.PodSpec{NodeName: c.Nodes[node].Name}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for range 1 + s.IntN(2) {
		pod.Spec.Containers = append(pod.Spec.Containers, s.container(len(pod.Spec.Containers)))
	}
	add := func(a netip.Addr) { pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: a.String()}) }
	if s.one(12) { // no policy selects it, whatever its labels are
		pod.Spec.HostNetwork = true
		for _, a := range c.Nodes[node].Addresses {
			add(a)
		}
		return pod
	}
	if families[0] {
		add(address(fmt.Sprintf("10.244.%d.%%d", node), n+3))
	}
	if families[1] {
		add(address(fmt.Sprintf("fd00:10:244:%x::%%x", node), n+3))
	}
	return pod
}

var (
	portNumbers = []int32{53, 80, 81, 8080}
	nameList    = []string{"http", "dns", "metrics"}
	protocols   = []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}
)

// container returns a container with ports. A name may mean another number in another pod or container.
func (s source) container(n int) corev1.Container {
	container := corev1.Container{Name: fmt.Sprintf("c%d", n+1)}
	for _, name := range nameList {
		if s.one(2) {
			container.Ports = append(container.Ports, corev1.ContainerPort{Name: name,
				ContainerPort: oneOf(s, portNumbers...),
				Protocol:      oneOf(s, append(protocols, corev1.ProtocolTCP)...)})
		}
	}
	return container
}

// outside are addresses outside the cluster.
var outside = []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.200"), netip.MustParseAddr("203.0.113.7"),
	netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8:1::7")}

// ends returns all possible ends of connections, of one family.
func (c *Cluster) ends(is4 bool) (ends []End) {
	for i := range c.Pods {
		for _, a := range addressesOf(&c.Pods[i]) {
			if a.Is4() == is4 && !c.Pods[i].Spec.HostNetwork {
				ends = append(ends, End{a, i, -1})
			}
		}
	}
	for i, node := range c.Nodes {
		for _, a := range node.Management {
			if a.Is4() == is4 {
				ends = append(ends, End{a, -1, i})
			}
		}
		for _, a := range node.Addresses {
			if a.Is4() == is4 {
				ends = append(ends, End{a, -1, -1})
			}
		}
	}
	for _, a := range outside {
		if a.Is4() == is4 {
			ends = append(ends, End{a, -1, -1})
		}
	}
	return ends
}

// tuples returns random traffic.
func (s source) tuples(c *Cluster, n int) (tuples []Tuple) {
	byFamily := map[bool][]End{true: c.ends(true), false: c.ends(false)}
	pods := map[bool][]End{}
	for is4, ends := range byFamily {
		for _, e := range ends {
			if e.Pod >= 0 {
				pods[is4] = append(pods[is4], e)
			}
		}
	}
	for tries := 0; len(tuples) < n && tries < 10*n; tries++ {
		is4 := s.one(2)
		if len(pods[is4]) == 0 {
			continue
		}
		t := Tuple{From: oneOf(s, pods[is4]...), To: oneOf(s, pods[is4]...), Protocol: oneOf(s, protocols...),
			Port: uint16(oneOf(s, portNumbers...))}
		switch s.IntN(4) {
		case 0:
			t.From = oneOf(s, byFamily[is4]...)
		case 1:
			t.To = oneOf(s, byFamily[is4]...)
		}
		if s.one(8) {
			t.Port = uint16(1 + s.IntN(65535))
		}
		if (t.From.Pod < 0 && t.To.Pod < 0) || t.From.Address == t.To.Address || c.resident(t.From, t.To) {
			continue
		}
		tuples = append(tuples, t)
	}
	return tuples
}
