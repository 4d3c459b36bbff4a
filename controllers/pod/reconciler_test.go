package pod

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/ovn-kubernetes/libovsdb/model"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
	"github.com/weft-network/weft/test/kindtest"
)

var web = topology.PodKey("demo", "web")

// aPod is the pod demo/web on the node n1.
func aPod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web", UID: "uid-web"}}
	p.Spec.NodeName = "n1"
	for _, c := range change {
		c(p)
	}
	return p
}

// annotated sets annotations: key, value, key, value.
func annotated(pairs ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Annotations = map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			p.Annotations[pairs[i]] = pairs[i+1]
		}
	}
}

func withHostPort(port corev1.ContainerPort) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers = []corev1.Container{{Name: "web", Ports: []corev1.ContainerPort{port}}}
	}
}

// onNode is the NodeNetwork of n1 with these subnets of pods, and with a chassis.
func onNode(subnets ...networkv1alpha1.CIDR) *networkv1alpha1.NodeNetwork {
	nn := &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	nn.Spec.NodeID, nn.Spec.MTU, nn.Spec.PodSubnets = 1, 1400, subnets
	nn.Spec.ManagementPort.MACAddress = "0a:58:0a:f4:00:02"
	nn.Status.Chassis = "chassis-n1"
	return nn
}

// on4 is a pod, and its node with IPv4.
func on4(change ...func(*corev1.Pod)) []client.Object {
	return []client.Object{onNode("10.244.0.0/24"), aPod(change...)}
}

// port returns the text of the pod's port with an address, "<MAC> <IP>...", and of its place in its switch and
// namespace.
func port(addresses string, more ...string) []string { return portWith("", addresses, more...) }

// portWith is port with one more pair among external_ids.
func portWith(pair, addresses string, more ...string) []string {
	if pair != "" {
		pair = " " + pair
	}
	return slices.Concat([]string{
		fmt.Sprintf("LogicalSwitchPort demo_web addresses=[%s] external_ids=map[namespace:demo pod:true%s] options=map["+
			"iface-id-ver:uid-web requested-chassis:chassis-n1 requested-tnl-key:16] port_security=[%[1]s]", addresses, pair),
		"Logical_Switch n1: ports += demo_web",
		"Port_Group namespace_demo: ports += demo_web (optional)",
	}, more)
}

func applied(lines []string) map[unit.Key][]string { return map[unit.Key][]string{web: lines} }

const (
	v4 = "0a:58:0a:f4:00:03 10.244.0.3"
	v6 = "0a:58:91:0e:a9:96 fd01:0:0:1::3"
)

// counts is the request to count the addresses in use. Each assignment and release of an address makes it.
var counts = []string{"network default"}

func TestReconcile(t *testing.T) {
	rejected := &ovndb.RejectedError{Unit: web, Err: errors.New("constraint violation")}
	condition := func(kind corev1.PodConditionType, reason, message string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
				Type: kind, Status: corev1.ConditionFalse, Reason: reason, Message: message})
		}
	}
	ofKubelet := "host port TCP/10250 is reserved for kubelet"
	foreign := "host port TCP/8443 is not served at 192.0.2.2, which is no address of node n1"
	ofService := "host port TCP/30080 is the node port of service demo/front"
	badPolicy := "invalid request: annotation network.weft.dev/ip-release-policy: \"Nevr\" is not a release policy: Pod, Immutable or Never"
	bad := read(aPod(annotated(networkv1alpha1.IngressBandwidthAnnotation, "bad")))
	badLimit := bad.unreadable()
	for name, c := range map[string]struct {
		objects []client.Object
		fails   error // of the database
		want    kindtest.Outcome
		// conditions are the pod's conditions afterwards: "<type> <status> <reason>: <message>".
		conditions []string
	}{
		"IPv4": {
			objects: on4(),
			want:    kindtest.Outcome{Units: applied(port(v4)), Enqueued: counts},
		},
		"IPv6": {
			objects: []client.Object{onNode("fd01:0:0:1::/64"), aPod()},
			want:    kindtest.Outcome{Units: applied(port(v6)), Enqueued: counts},
		},
		"dual stack": {
			objects: []client.Object{onNode("10.244.0.0/24", "fd01:0:0:1::/64"), aPod()},
			want:    kindtest.Outcome{Units: applied(port(v4 + " fd01:0:0:1::3")), Enqueued: counts},
		},
		"a pod that is not scheduled": {
			objects: on4(func(p *corev1.Pod) { p.Spec.NodeName = "" }),
			want:    kindtest.Outcome{Units: applied(nil)},
		},
		"a pod in the host's network": {
			objects: on4(func(p *corev1.Pod) { p.Spec.HostNetwork = true }),
			want:    kindtest.Outcome{Units: applied(nil)},
		},
		"a pod that has ended": {
			objects: on4(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
			want:    kindtest.Outcome{Units: applied(nil)},
		},
		"a pod that does not exist": {
			objects: []client.Object{onNode("10.244.0.0/24")},
			want:    kindtest.Outcome{Units: applied(nil)},
		},
		"a node without a network": {
			objects: []client.Object{aPod()},
			want:    kindtest.Outcome{Units: applied(nil)},
		},
		"requested addresses": {
			objects: on4(annotated(networkv1alpha1.RequestedIPsAnnotation, "10.244.0.77",
				networkv1alpha1.RequestedMACAnnotation, "02:00:00:00:00:77")),
			want: kindtest.Outcome{Units: applied(port("02:00:00:00:00:77 10.244.0.77")), Enqueued: counts},
		},
		"a requested address that cannot be read": {
			objects: on4(annotated(networkv1alpha1.RequestedIPsAnnotation, "bad")),
			want: kindtest.Outcome{Units: applied(nil), Events: []string{"Warning FailedAddressAllocation Pod demo/web: " +
				`invalid request: annotation network.weft.dev/requested-ips: ParseAddr("bad"): unable to parse IP`},
				Writes: []string{"patch status Pod demo/web"}},
			conditions: []string{"network.weft.dev/RequestsGranted False InvalidRequest: invalid request: annotation " +
				`network.weft.dev/requested-ips: ParseAddr("bad"): unable to parse IP`},
		},
		"a requested address outside of the node's subnets": {
			objects: on4(annotated(networkv1alpha1.RequestedIPsAnnotation, "10.244.9.9")),
			want: kindtest.Outcome{Units: applied(nil), Events: []string{"Warning FailedAddressAllocation Pod demo/web: " +
				"node n1: requested address 10.244.9.9 is not available: no pod can have it in 10.244.0.0/24"},
				Writes: []string{"patch status Pod demo/web"}},
			conditions: []string{"network.weft.dev/RequestsGranted False AddressUnavailable: " +
				"node n1: requested address 10.244.9.9 is not available: no pod can have it in 10.244.0.0/24"},
		},
		"an IPPool that does not exist": {
			objects: on4(annotated(networkv1alpha1.IPPoolAnnotation, "absent")),
			want: kindtest.Outcome{Units: applied(nil), Writes: []string{"patch status Pod demo/web"}, Events: []string{
				"Warning FailedAddressAllocation Pod demo/web: IPPool absent: there is no IPPool of this name"}},
			conditions: []string{"network.weft.dev/RequestsGranted False AddressUnavailable: IPPool absent: there is no IPPool of this name"},
		},
		"a release policy that cannot be read": {
			objects: on4(annotated(networkv1alpha1.IPPoolAnnotation, "web", networkv1alpha1.ReleasePolicyAnnotation, "Nevr")),
			want: kindtest.Outcome{Units: applied(nil), Writes: []string{"patch status Pod demo/web"}, Events: []string{
				"Warning FailedAddressAllocation Pod demo/web: " + badPolicy}},
			conditions: []string{"network.weft.dev/RequestsGranted False InvalidRequest: " + badPolicy},
		},
		"a request that is granted after it was denied": {
			objects:    on4(condition(networkv1alpha1.PodRequestsGranted, networkv1alpha1.ReasonAddressUnavailable, "there is none")),
			want:       kindtest.Outcome{Units: applied(port(v4)), Enqueued: counts, Writes: []string{"patch status Pod demo/web"}},
			conditions: []string{"network.weft.dev/RequestsGranted True AsExpected: "},
		},
		"a limit that cannot be read": {
			objects: on4(annotated(networkv1alpha1.IngressBandwidthAnnotation, "bad")),
			want: kindtest.Outcome{Units: applied(nil), Events: []string{"Warning InvalidBandwidth Pod demo/web: " + badLimit.Error()},
				Writes: []string{"patch status Pod demo/web"}},
			conditions: []string{"network.weft.dev/RequestsGranted False InvalidRequest: " + badLimit.Error()},
		},
		"limits": {
			objects: on4(annotated(networkv1alpha1.IngressBandwidthAnnotation, "10M",
				networkv1alpha1.EgressBandwidthAnnotation, "5M")),
			want: kindtest.Outcome{Units: applied(port(v4,
				`QoS outport == "demo_web" bandwidth=map[burst:8000 rate:10000] direction=to-lport `+
					`match=outport == "demo_web" priority=2000`,
				`QoS inport == "demo_web" bandwidth=map[burst:4000 rate:5000] direction=from-lport `+
					`match=inport == "demo_web" priority=2000`,
				`Logical_Switch n1: qos_rules += outport == "demo_web"`,
				`Logical_Switch n1: qos_rules += inport == "demo_web"`)), Enqueued: counts},
		},
		"a host port": {
			objects: on4(withHostPort(corev1.ContainerPort{HostPort: 8080, ContainerPort: 80})),
			want: kindtest.Outcome{Units: applied(portWith("weft.dev/host-ports:tcp/:8080/80", v4,
				"LoadBalancer Pod_demo/web_TCP_hostport_template_IPv4 "+
					"external_ids=map[k8s.ovn.org/kind:Pod k8s.ovn.org/owner:demo/web] options=map[address-family:ipv4 "+
					"event:false hairpin_snat_ip:169.254.169.5 fd69::5 neighbor_responder:none reject:true skip_snat:true "+
					"template:true] protocol=tcp vips=map[^NODEIP_IPv4_0:8080:10.244.0.3:80]",
				"Load_Balancer_Group node/n1: load_balancer += Pod_demo/web_TCP_hostport_template_IPv4")),
				Enqueued: counts},
		},
		"a reserved host port": {
			objects: on4(withHostPort(corev1.ContainerPort{HostPort: 10250, ContainerPort: 80})),
			want: kindtest.Outcome{Units: applied(port(v4)), Enqueued: counts,
				Events: []string{"Warning ReservedHostPort Pod demo/web: " + ofKubelet},
				Writes: []string{"patch status Pod demo/web"}},
			conditions: []string{"network.weft.dev/HostPortsReady False Reserved: " + ofKubelet},
		},
		"a host port at an address of another node": {
			objects: on4(withHostPort(corev1.ContainerPort{HostPort: 8443, ContainerPort: 80, HostIP: "192.0.2.2"})),
			want: kindtest.Outcome{Units: applied(port(v4)), Enqueued: counts,
				Events: []string{"Warning ReservedHostPort Pod demo/web: " + foreign},
				Writes: []string{"patch status Pod demo/web"}},
			conditions: []string{"network.weft.dev/HostPortsReady False Reserved: " + foreign},
		},
		"a host port of a service": {
			objects: append(on4(withHostPort(corev1.ContainerPort{HostPort: 30080, ContainerPort: 80})), &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "front"}, Spec: corev1.ServiceSpec{
					ClusterIPs: []string{"10.96.0.10"}, Ports: []corev1.ServicePort{{Port: 80, NodePort: 30080}}}}),
			want: kindtest.Outcome{Units: applied(port(v4)), Enqueued: counts,
				Events: []string{"Warning ReservedHostPort Pod demo/web: " + ofService},
				Writes: []string{"patch status Pod demo/web"}},
			conditions: []string{"network.weft.dev/HostPortsReady False Reserved: " + ofService},
		},
		"a host port on an address that cannot be read": {
			objects: on4(withHostPort(corev1.ContainerPort{HostPort: 8080, ContainerPort: 80, HostIP: "bad"})),
			want: kindtest.Outcome{Units: applied(port(v4)), Enqueued: counts,
				Events: []string{`Warning InvalidHostPort Pod demo/web: container web, host port 8080: "bad" is not an IP address`},
				Writes: []string{"patch status Pod demo/web"}},
			conditions: []string{`network.weft.dev/HostPortsReady False InvalidRequest: container web, host port 8080: "bad" is not an IP address`},
		},
		"the database refuses it": {
			objects: on4(),
			fails:   rejected,
			want: kindtest.Outcome{Units: applied(port(v4)), Enqueued: counts, Err: rejected.Error(),
				Events: []string{"Warning FailedPortCreation Pod demo/web: " + rejected.Error()},
				Writes: []string{"patch status Pod demo/web"}},
			conditions: []string{"network.weft.dev/PortReady False DatabaseRefused: constraint violation"},
		},
		"the database takes it after it refused it": {
			objects: on4(
				condition(networkv1alpha1.PodPortReady, networkv1alpha1.ReasonDatabaseRefused, "constraint violation"),
				condition(networkv1alpha1.PodHostPortsReady, networkv1alpha1.ReasonReserved, ofKubelet)),
			want: kindtest.Outcome{Units: applied(port(v4)), Enqueued: counts,
				Writes: []string{"patch status Pod demo/web"}},
			conditions: []string{
				"network.weft.dev/PortReady True AsExpected: ", "network.weft.dev/HostPortsReady True AsExpected: ",
			},
		},
		"the database is away": { // the engine applies the unit later
			objects: on4(),
			fails:   &ovndb.PendingError{Unit: web, Reason: "database is not connected"},
			want:    kindtest.Outcome{Units: applied(port(v4)), Enqueued: counts},
		},
		"a record is requested": {
			objects: on4(annotated(networkv1alpha1.PodRecordAnnotation, "true")),
			want:    kindtest.Outcome{Units: applied(port(v4)), Enqueued: counts, Writes: []string{"patch Pod demo/web"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, c.objects...)
			if c.fails != nil {
				b.Database.Refusals[web] = c.fails
			}
			kindtest.Expect(t, c.want, b.Reconcile("demo", "web"))
			if c.conditions != nil {
				expectConditions(t, b, c.conditions)
			}
			// A second reconciliation writes nothing. It reports only errors in the specification again.
			again := kindtest.Outcome{Units: c.want.Units, Err: c.want.Err}
			for _, event := range c.want.Events {
				if !strings.Contains(event, "ReservedHostPort") {
					again.Events = append(again.Events, event)
				}
			}
			kindtest.Expect(t, again, b.Reconcile("demo", "web"))
		})
	}
}

func newBed(t *testing.T, objects ...client.Object) *kindtest.Bed {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}
	b := kindtest.New(t, Kinds, topology.KindPod, nil, append(objects, namespace)...)
	b.Seed(topology.NodeUnit(facts.Node{Name: "n1", Chassis: "chassis-n1"}))
	group := unit.UUID(nbdb.PortGroupTable, names.NamespacePorts("demo"))
	seedRow(b, &nbdb.PortGroup{UUID: group, Name: "namespace_demo"})
	return b
}

// seedRow puts a row into the database, so that texts of units have its name.
func seedRow(b *kindtest.Bed, row model.Model) {
	b.Seed(unit.Unit{Key: unit.NewKey("test", fmt.Sprint(row)), Rows: []unit.Row{{Model: row}}})
}

func expectConditions(t *testing.T, b *kindtest.Bed, want []string) {
	t.Helper()
	var have []string
	for _, c := range kindtest.Get(b, aPod()).Status.Conditions {
		have = append(have, fmt.Sprintf("%s %s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	if !slices.Equal(have, want) {
		t.Errorf("conditions %q, want %q", have, want)
	}
}

// A namespace whose labels change enqueues its pods only if there were EgressIPs.
func TestNamespaceChanged(t *testing.T) {
	b := newBed(t, onNode("10.244.0.0/24"), aPod())
	r := b.Kinds[0].Reconciler.(*Reconciler)
	named := func(labels, annotations map[string]string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "demo", Labels: labels, Annotations: annotations}}
	}
	expect := func(when string, after *metav1.PartialObjectMetadata, want bool) {
		t.Helper()
		if got := r.namespaceChanged(named(nil, nil), after); got != want {
			t.Errorf("%s: concerns the pods: %t, want %t", when, got, want)
		}
	}
	red := named(map[string]string{"team": "red"}, nil)
	expect("labels", red, false)
	expect("records", named(nil, map[string]string{networkv1alpha1.PodRecordAnnotation: "true"}), true)
	b.Create(&networkv1alpha1.EgressIP{ObjectMeta: metav1.ObjectMeta{Name: "e"}})
	b.Reconcile("demo", "web")
	expect("labels beside an EgressIP", red, true)
}

// The labels of a namespace decide which groups its pods join, without a reconciliation of the pods.
func TestRelabelledNamespace(t *testing.T) {
	host := aPod(func(p *corev1.Pod) { p.Name, p.Spec.HostNetwork = "host", true })
	b := newBed(t, onNode("10.244.0.0/24"), aPod(), host)
	r := b.Kinds[0].Reconciler.(*Reconciler)
	var namespace corev1.Namespace
	if err := b.Env.Client.Get(t.Context(), types.NamespacedName{Name: "demo"}, &namespace); err != nil {
		t.Fatal(err)
	}
	before := &metav1.PartialObjectMetadata{ObjectMeta: namespace.ObjectMeta}
	namespace.Labels = map[string]string{"team": "red"}
	if err := b.Env.Client.Update(t.Context(), &namespace); err != nil {
		t.Fatal(err)
	}
	selectors := &relabels{Selectors: r.Selectors}
	r.Selectors = selectors
	after := &metav1.PartialObjectMetadata{ObjectMeta: namespace.ObjectMeta}
	r.relabelled(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: after}, nil)
	r.relabelled(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: before}, nil)
	if want := []string{"demo/web of map[team:red]"}; !slices.Equal(selectors.pods, want) {
		t.Errorf("pods %v, want %v", selectors.pods, want)
	}
}

// relabels records the pods that Relabel lists.
type relabels struct {
	Selectors
	pods []string
}

func (r *relabels) Relabel(
	ctx context.Context, _, _ labels.Set, pods func(context.Context) ([]facts.SelectedPod, error),
) error {
	found, err := pods(ctx)
	for _, pod := range found {
		r.pods = append(r.pods, fmt.Sprintf("%s/%s of %v", pod.Namespace, pod.Name, map[string]string(pod.NamespaceLabels)))
	}
	return err
}

// A deleted pod loses its port and its address, and a pod that waits for an address of its node gets it.
func TestDeletion(t *testing.T) {
	pod := aPod()
	b := newBed(t, onNode("10.244.0.0/29"), pod) // the node has four addresses for pods
	b.Reconcile("demo", "web")
	exhausted := "node n1: exhausted: no free address in 10.244.0.0/29, all 4 are in use"
	for i := range 4 {
		other := aPod(func(p *corev1.Pod) {
			p.Name, p.UID = fmt.Sprint("other-", i), types.UID(fmt.Sprint("uid-", i))
		})
		b.Create(other)
		have := b.Reconcile("demo", other.Name)
		if i < 3 {
			continue
		}
		kindtest.Expect(t, kindtest.Outcome{
			Units:    map[unit.Key][]string{topology.PodKey("demo", "other-3"): nil},
			Events:   []string{"Warning FailedAddressAllocation Pod demo/other-3: " + exhausted},
			Enqueued: []string{"node n1", "pod demo/other-3"},
		}, have)
		again := b.Reconcile("demo", other.Name) // the node may have got a subnet meanwhile
		if want := []string{"patch status Pod demo/other-3"}; !slices.Equal(again.Writes, want) {
			t.Errorf("the second attempt writes %q, want %q", again.Writes, want)
		}
	}
	b.Delete(pod)
	want := kindtest.Outcome{Units: applied(nil), Enqueued: []string{"network default", "pod demo/other-3"}}
	kindtest.Expect(t, want, b.Reconcile("demo", "web"))
	kindtest.Expect(t, kindtest.Outcome{Units: applied(nil)}, b.Reconcile("demo", "web"))
}

// A pod that was recreated under the same name gets a port of its own, because the previous port belongs to another
// UID. The address of the previous pod is free.
func TestRecreation(t *testing.T) {
	pod := aPod()
	b := newBed(t, onNode("10.244.0.0/24"), pod)
	b.Reconcile("demo", "web")
	b.Delete(pod)
	b.Create(aPod(func(p *corev1.Pod) { p.UID = "uid-later" }))
	have := b.Reconcile("demo", "web")
	ports := kindtest.Pick(have.Units[web], "LogicalSwitchPort")
	if want := "iface-id-ver:uid-later"; len(ports) != 1 || !strings.Contains(ports[0], want) {
		t.Errorf("ports %q, want one with %s", ports, want)
	}
	if _, _, held := b.Env.Addresses.Get("demo/web/uid-web"); held {
		t.Error("the previous pod still has its address")
	}
	b.ExpectSettled("demo", "web")
}

// A start gives a pod the address that its port in the database has, and a running pod without a port the address that it
// reports.
func TestStartRestoresAddresses(t *testing.T) {
	existing := &nbdb.LogicalSwitchPort{Name: "demo_web", Addresses: []string{"0a:58:0a:f4:00:2a 10.244.0.42"},
		ExternalIDs: map[string]string{unit.OwnerKey: string(web)},
		Options: map[string]string{
			"iface-id-ver": "uid-web", "requested-chassis": "chassis-n1", "requested-tnl-key": "16"}}
	kept := kindtest.Outcome{Units: applied(port("0a:58:0a:f4:00:2a 10.244.0.42"))}
	t.Run("of the port", func(t *testing.T) {
		b := newBed(t, onNode("10.244.0.0/24"), aPod())
		b.Database.ExistingPorts = []*nbdb.LogicalSwitchPort{existing}
		kindtest.Expect(t, kept, b.Reconcile("demo", "web"))
	})
	t.Run("of the port, but with the MAC that follows from it", func(t *testing.T) {
		b := newBed(t, onNode("10.244.0.0/24"), aPod())
		changed := *existing
		changed.Addresses = []string{"02:00:00:00:00:01 10.244.0.42"}
		b.Database.ExistingPorts = []*nbdb.LogicalSwitchPort{&changed}
		kindtest.Expect(t, kept, b.Reconcile("demo", "web"))
	})
	t.Run("of the port, while the node has no chassis", func(t *testing.T) {
		nn := onNode("10.244.0.0/24")
		nn.Status.Chassis = ""
		b := newBed(t, nn, aPod())
		b.Database.ExistingPorts = []*nbdb.LogicalSwitchPort{existing}
		kindtest.Expect(t, kept, b.Reconcile("demo", "web"))
	})
	t.Run("of the pod, if its port was changed to another pod's address", func(t *testing.T) {
		victim := aPod(func(p *corev1.Pod) { p.Name, p.UID = "victim", "uid-victim" })
		damaged := aPod(func(p *corev1.Pod) { p.Status.PodIPs = []corev1.PodIP{{IP: "10.244.0.47"}} })
		of := func(p *corev1.Pod, slot, has string, from ...string) *nbdb.LogicalSwitchPort {
			return &nbdb.LogicalSwitchPort{Name: "demo_" + p.Name, Addresses: []string{has}, PortSecurity: from,
				ExternalIDs: map[string]string{unit.OwnerKey: string(topology.PodKey("demo", p.Name))},
				Options:     map[string]string{"iface-id-ver": string(p.UID), "requested-tnl-key": slot}}
		}
		whole := existing.Addresses[0]
		b := newBed(t, onNode("10.244.0.0/24"), damaged, victim)
		b.Database.ExistingPorts = []*nbdb.LogicalSwitchPort{
			of(damaged, "17", whole, "0a:58:0a:f4:00:2f 10.244.0.47"), of(victim, "16", whole, whole)}
		b.Reconcile("demo", "web")
		for uid, address := range map[alloc.Owner]string{"demo/web/uid-web": "10.244.0.47/24", "demo/victim/uid-victim": "10.244.0.42/24"} {
			if _, got, _ := b.Env.Addresses.Get(uid); len(got.Addresses) != 1 || got.Addresses[0].String() != address {
				t.Errorf("%s has %v, want %s", uid, got.Addresses, address)
			}
		}
	})
	t.Run("of the pod", func(t *testing.T) {
		running := aPod(func(p *corev1.Pod) { p.Status.PodIPs = []corev1.PodIP{{IP: "10.244.0.43"}} })
		b := newBed(t, onNode("10.244.0.0/24"), running)
		want := kindtest.Outcome{Units: applied(port("0a:58:0a:f4:00:2b 10.244.0.43"))}
		kindtest.Expect(t, want, b.Reconcile("demo", "web"))
	})
	t.Run("a port of a pod that is gone keeps its address until it is swept", func(t *testing.T) {
		b := newBed(t, on4(annotated(networkv1alpha1.RequestedIPsAnnotation, "10.244.0.42"))...)
		gone := *existing
		gone.ExternalIDs = map[string]string{unit.OwnerKey: string(topology.PodKey("demo", "gone"))}
		b.Database.ExistingPorts = []*nbdb.LogicalSwitchPort{&gone}
		kindtest.Expect(t, kindtest.Outcome{
			Units: applied(nil),
			Events: []string{"Warning FailedAddressAllocation Pod demo/web: " +
				"node n1: requested address 10.244.0.42 is not available: it is in use"},
			Writes: []string{"patch status Pod demo/web"},
		}, b.Reconcile("demo", "web"))
	})
}

// A pod that reports other addresses than its port's has them from another zone's operator: the report may come after its node has
// changed its zone.
func TestAPodGetsTheAddressThatItReports(t *testing.T) {
	pod := aPod()
	b := newBed(t, onNode("10.244.0.0/24"), pod)
	b.Reconcile("demo", "web")
	at := slices.IndexFunc(b.Kinds, func(k *kind.Kind) bool { return k.Name == topology.KindPod })
	for address, passes := range map[string]bool{"10.244.0.3": false, "10.244.0.43": true, "10.245.0.3": false} {
		silent := pod.DeepCopy()
		silent.Status.PodIPs = nil
		pod.Status.PodIPs = []corev1.PodIP{{IP: address}}
		if got := b.Kinds[at].Watches[1].Predicates[0].Update(event.UpdateEvent{ObjectOld: silent, ObjectNew: pod}); got != passes {
			t.Errorf("the report of %s passes: %t", address, got)
		}
	}
	pod.Status.PodIPs = []corev1.PodIP{{IP: "10.244.0.43"}}
	b.Update(pod)
	kindtest.Expect(t, kindtest.Outcome{Units: applied(port("0a:58:0a:f4:00:2b 10.244.0.43")), Enqueued: []string{"network default"}},
		b.Reconcile("demo", "web"))
	b.ExpectSettled("demo", "web")
}

// A pod of another zone reports an address of a subnet that this operator learns later. It has the address when its node enters.
func TestAPodElsewhereWaitsForItsSubnet(t *testing.T) {
	nn := onNode("10.244.0.0/24")
	nn.Spec.Zone = "east"
	pod := aPod(func(p *corev1.Pod) { p.Status.PodIPs = []corev1.PodIP{{IP: "10.245.0.3"}} })
	b := newBed(t, nn, pod)
	b.Reconcile("demo", "web")
	if _, got, ok := b.Env.Addresses.Get("demo/web/uid-web"); ok {
		t.Fatalf("it has %v of an unknown subnet", got)
	}
	b.Env.Addresses.SetNode("n1", []netip.Prefix{netip.MustParsePrefix("10.244.0.0/24"), netip.MustParsePrefix("10.245.0.0/24")}, nil)
	at := slices.IndexFunc(b.Kinds, func(k *kind.Kind) bool { return k.Name == topology.KindPod })
	r, _ := b.Kinds[at].Reconciler.(*Reconciler)
	if woken := r.state.waiters.Wake(kind.Awaited{Node: "n1"}); len(woken) != 1 || woken[0].Name != "web" {
		t.Errorf("the subnet enqueues %v", woken)
	}
	b.Reconcile("demo", "web")
	if _, got, ok := b.Env.Addresses.Get("demo/web/uid-web"); !ok || got.Addresses[0].String() != "10.245.0.3/24" {
		t.Errorf("it has %v", got)
	}
}

// A pod gets the address that it reports only when the pod that has it is gone.
func TestAPodDoesNotGetTheAddressOfAnother(t *testing.T) {
	nn := onNode("10.244.0.0/24")
	other := aPod(func(p *corev1.Pod) {
		p.Name, p.UID, p.Status.PodIPs = "other", "uid-other", []corev1.PodIP{{IP: "10.244.0.43"}}
	})
	pod := aPod()
	b := newBed(t, nn, pod)
	b.Reconcile("demo", "web")
	b.Create(other)
	b.Reconcile("demo", "other")
	pod.Status.PodIPs = other.Status.PodIPs
	b.Update(pod)
	kindtest.Expect(t, kindtest.Outcome{Units: applied(port(v4))}, b.Reconcile("demo", "web"))
	b.Delete(other)
	if have := b.Reconcile("demo", "other"); !slices.Contains(have.Enqueued, "pod demo/web") {
		t.Errorf("the end of the other pod enqueued %v", have.Enqueued)
	}
	kindtest.Expect(t, kindtest.Outcome{Units: applied(port("0a:58:0a:f4:00:2b 10.244.0.43")), Enqueued: []string{"network default"}},
		b.Reconcile("demo", "web"))
}

// A port that cannot be read has no claim on its address. When its pod finds no free address, the port goes, because its
// address may belong to another pod.
func TestUnreadablePortOfAPodWithoutAddressGoes(t *testing.T) {
	objects := []client.Object{onNode("10.244.0.0/29"), aPod()}
	for i := range 4 {
		objects = append(objects, aPod(func(p *corev1.Pod) {
			p.Name, p.UID = fmt.Sprint("other-", i), types.UID(fmt.Sprint("uid-", i))
			p.Status.PodIPs = []corev1.PodIP{{IP: fmt.Sprint("10.244.0.", 3+i)}}
		}))
	}
	b := newBed(t, objects...)
	b.Database.ExistingPorts = []*nbdb.LogicalSwitchPort{{Name: "demo_web", Addresses: []string{"0a:58:0a:f4:00:03 10.244.0.3"},
		ExternalIDs: map[string]string{unit.OwnerKey: string(web)}}}
	waits := []string{"Warning FailedAddressAllocation Pod demo/web: " +
		"node n1: exhausted: no free address in 10.244.0.0/29, all 4 are in use"}
	kindtest.Expect(t, kindtest.Outcome{Units: applied(nil), Events: waits, Enqueued: []string{"node n1", "pod demo/web"}},
		b.Reconcile("demo", "web"))
}

// A pod whose node loses its NodeNetwork's chassis keeps its port on the previous chassis.
func TestNodeWithoutChassis(t *testing.T) {
	nn := onNode("10.244.0.0/24")
	b := newBed(t, nn, aPod())
	b.Reconcile("demo", "web")
	nn.Status.Chassis = ""
	b.Update(nn)
	kindtest.Expect(t, kindtest.Outcome{Units: applied(port(v4))}, b.Reconcile("demo", "web"))
}

// Selectors of policies and of EgressIPs that select a pod add its port and addresses to their groups and sets.
func TestSelectedPod(t *testing.T) {
	egress := &networkv1alpha1.EgressIP{ObjectMeta: metav1.ObjectMeta{Name: "out"}}
	b := newBed(t, onNode("10.244.0.0/24"), aPod(), egress)
	selector := facts.PodSelector{Namespace: "demo", Pods: labels.Everything()}
	group := topology.PodGroupKey(selector)
	want := map[unit.Key]facts.PodSelector{group: selector}
	if err := b.Env.Selectors.Use(t.Context(), "networkpolicy/demo/p", want, nil); err != nil {
		t.Fatal(err)
	}
	addresses := unit.UUID(nbdb.AddressSetTable, names.EgressIPPods("out", "IPv4"))
	seedRow(b, &nbdb.AddressSet{UUID: addresses, Name: "addresses of out"})
	b.Seed(topology.PodGroupUnit(group))
	kindtest.Expect(t, kindtest.Outcome{Enqueued: counts, Units: applied(port(v4,
		"Address_Set addresses of out: addresses += 10.244.0.3 (optional)",
		"Port_Group egress_pods: ports += demo_web (optional)",
		"Port_Group pods_40b880b012fec73ecc7c: ports += demo_web (optional)",
	))}, b.Reconcile("demo", "web"))
}

// The record of a pod has the settings of its interface.
func TestRecord(t *testing.T) {
	nn := onNode("10.244.0.0/24", "fd01:0:0:1::/64")
	nn.Spec.Gateways = []networkv1alpha1.IP{"10.244.0.1", "fd01:0:0:1::1"}
	b := newBed(t, nn, aPod(annotated(networkv1alpha1.PodRecordAnnotation, "true")))
	b.Reconcile("demo", "web")
	want := `{"version":"v1","networks":[{"name":"default","default":true,"interface":"eth0","interfaceID":"demo_web",` +
		`"podUID":"uid-web","macAddress":"0a:58:0a:f4:00:03","addresses":["10.244.0.3/24","fd01:0:0:1::3/64"],` +
		`"gateways":["10.244.0.1","fd01:0:0:1::1"],"mtu":1400}]}`
	if have := kindtest.Get(b, aPod()).Annotations[networkv1alpha1.PodNetworksAnnotation]; have != want {
		t.Errorf("record\n%s\nwant\n%s", have, want)
	}
	// A record that another program has changed is written again.
	pod := kindtest.Get(b, aPod())
	pod.Annotations[networkv1alpha1.PodNetworksAnnotation] = "changed"
	b.Update(pod)
	if have := b.Reconcile("demo", "web").Writes; !slices.Equal(have, []string{"patch Pod demo/web"}) {
		t.Errorf("writes %q, want the record", have)
	}
	b.ExpectSettled("demo", "web")
}

// A reconciliation whose cache lacks the condition of the one before does not end the condition. The update that brings it reconciles the
// pod again.
func TestAConditionIsReadAgain(t *testing.T) {
	for _, kind := range []corev1.PodConditionType{
		networkv1alpha1.PodPortReady, networkv1alpha1.PodRequestsGranted, networkv1alpha1.PodHostPortsReady,
	} {
		before := aPod()
		after := before.DeepCopy()
		after.Status.Conditions = append(after.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, Reason: "Why"})
		if !portChanged(before, after) || portChanged(after, after.DeepCopy()) {
			t.Errorf("the update that brings condition %s passes: %t", kind, portChanged(before, after))
		}
	}
	foreign := aPod()
	foreign.Status.Conditions = append(foreign.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
	if portChanged(aPod(), foreign) {
		t.Error("a condition of kubelet passes")
	}
}
