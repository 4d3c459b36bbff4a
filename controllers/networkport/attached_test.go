package networkport_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/podcondition"
	"github.com/weft-network/weft/pkg/unit"
	"github.com/weft-network/weft/test/kindtest"
)

// message returns the message of the condition PodNetworksAllocated of the pod demo/web if the condition is False.
func message(b *kindtest.Bed) string {
	pod := kindtest.Get(b, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web"}})
	if c := podcondition.Find(pod, networkv1alpha1.PodNetworksAllocated); c != nil && c.Status == corev1.ConditionFalse {
		return c.Message
	}
	return ""
}

// request changes the requests of the pod demo/web.
func request(b *kindtest.Bed, pod *corev1.Pod, text string) {
	pod.Annotations[networks.Annotation] = text
	b.Update(pod)
}

// edit changes the Network blue.
func edit(b *kindtest.Bed, change func(*networkv1alpha1.NetworkSpec)) {
	blue := kindtest.Get(b, &networkv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Name: "blue"}})
	change(&blue.Spec)
	b.Update(blue)
}

func only(team string) func(*networkv1alpha1.NetworkSpec) {
	return func(spec *networkv1alpha1.NetworkSpec) {
		spec.Namespaces = &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}}
	}
}

// spec.namespaces selects the namespaces of pods. The namespace of the definition that a pod names does not matter.
func TestANetworkSelectsTheNamespacesOfPods(t *testing.T) {
	for name, c := range map[string]struct {
		selected, definition string
		granted              bool
	}{
		"selected":                             {"red", "demo", true},
		"selected, by a definition of another": {"red", "other", true},
		"not selected":                         {"green", "demo", false},
		"not selected, by a definition of a selected":  {"green", "other", false},
		"a selector that selects no namespace at all":  {"none", "other", false},
		"selected, by a definition that is not there":  {"red", "absent", false},
		"not selected, by an absent one of a selected": {"green", "absent", false},
	} {
		t.Run(name, func(t *testing.T) {
			b, pod := selectedBed(t)
			b.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other", Labels: map[string]string{"team": "green"}}})
			definition := &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "blue"}}
			definition.Spec.Config = networks.ConfigOf("blue")
			b.Create(definition)
			edit(b, only(c.selected))
			request(b, pod, c.definition+"/blue@x")
			outcome := b.Reconcile("demo", "web")
			if granted := len(outcome.Units[web]) > 0; granted != c.granted || c.granted != (message(b) == "") {
				t.Errorf("granted: %t, want %t: %q", granted, c.granted, message(b))
			}
		})
	}
}

// What is narrowed or edited takes no interface from a running pod, but gives none to others.
func TestAttachmentsStay(t *testing.T) {
	definition := func(config string, owned bool) func(*kindtest.Bed, *corev1.Pod) {
		return func(b *kindtest.Bed, _ *corev1.Pod) {
			nad := kindtest.Get(b, &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "blue"}})
			blue := kindtest.Get(b, &networkv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Name: "blue"}})
			if nad.Spec.Config = config; owned {
				nad.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(blue, networkv1alpha1.GroupVersion.WithKind("Network"))}
			}
			b.Update(nad)
		}
	}
	const macvlan = `{"cniVersion":"1.0.0","type":"macvlan","master":"eth0"}`
	for name, c := range map[string]struct {
		change func(*kindtest.Bed, *corev1.Pod)
		// joins is set if another pod can be attached after the change.
		joins bool
	}{
		"spec.namespaces selects others": {change: func(b *kindtest.Bed, _ *corev1.Pod) { edit(b, only("green")) }},
		"spec.namespaces is omitted": {change: func(b *kindtest.Bed, _ *corev1.Pod) {
			edit(b, func(spec *networkv1alpha1.NetworkSpec) { spec.Namespaces = nil })
		}},
		"the definition is another plugin's": {change: definition(macvlan, false)},
		"the definition cannot be read":      {change: definition("{", false)},
		"the definition is gone": {change: func(b *kindtest.Bed, _ *corev1.Pod) {
			b.Delete(&nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "blue"}})
		}},
		"Weft's definition is edited to another plugin's":  {change: definition(macvlan, true), joins: true},
		"Weft's definition is edited to another Network's": {change: definition(networks.ConfigOf("green"), true), joins: true},
		"Weft's definition cannot be read":                 {change: definition("{", true), joins: true},
	} {
		t.Run(name, func(t *testing.T) {
			b, pod := selectedBed(t)
			before := b.Reconcile("demo", "web").Units[web]
			if len(before) == 0 {
				t.Fatal("the pod is not attached")
			}
			c.change(b, pod)
			for range 2 {
				after := b.Reconcile("demo", "web")
				if lines := after.Units[web]; !slices.Equal(lines, before) {
					t.Errorf("the pod has %q, before %q", lines, before)
				}
			}
			if n, _ := attachments(b); n != 1 {
				t.Errorf("%d attachments", n)
			}
			other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "other", UID: "u2",
				Annotations: map[string]string{networks.Annotation: "blue"}}}
			other.Spec.NodeName = "n1"
			b.Create(other)
			b.Reconcile("demo", "other")
			if n, _ := attachments(b); (n == 2) != c.joins {
				t.Errorf("%d attachments with another pod, which can join: %t", n, c.joins)
			}
		})
	}
}

// report sets the annotation network-status of a pod, as its node's agent does.
func report(pod *corev1.Pod, interfaces ...nadv1.NetworkStatus) {
	text, _ := json.Marshal(append([]nadv1.NetworkStatus{{Name: "weft", Interface: "eth0", Default: true}}, interfaces...))
	pod.Annotations[nadv1.NetworkStatusAnnot] = string(text)
	pod.Status.PodIPs = []corev1.PodIP{{IP: "10.244.0.3"}}
}

// restarted returns a Bed whose operator and database have lost what they knew, and that has the objects of another.
func restarted(t *testing.T, from *kindtest.Bed, pods ...*corev1.Pod) *kindtest.Bed {
	t.Helper()
	b, pod := selectedBed(t)
	b.Delete(pod)
	for _, p := range pods {
		p = p.DeepCopy()
		p.ResourceVersion = ""
		b.Create(p)
	}
	blue := kindtest.Get(from, &networkv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Name: "blue"}})
	edit(b, func(spec *networkv1alpha1.NetworkSpec) { *spec = blue.Spec })
	return b
}

// An operator that starts with an empty database gives each pod the addresses and the MAC that its interface has.
func TestReportedAddressesAreRestored(t *testing.T) {
	net1 := nadv1.NetworkStatus{Name: "demo/blue", Interface: "net1", Mac: "0a:58:0a:64:00:17", IPs: []string{"10.100.0.23", "fd00:100::17"}}
	change := func(change func(*nadv1.NetworkStatus)) nadv1.NetworkStatus {
		changed := net1
		change(&changed)
		return changed
	}
	const first, reported = "10.100.0.1 ", "10.100.0.23 "
	for name, c := range map[string]struct {
		request string
		status  nadv1.NetworkStatus
		prepare func(*kindtest.Bed, *corev1.Pod)
		want    string // in the unit
		event   bool
	}{
		"reported": {request: "blue", status: net1, want: "0a:58:0a:64:00:17 10.100.0.23 fd00:100::17"},
		"with a MAC": {request: "blue", want: "02:00:00:00:00:09 10.100.0.23 ",
			status: change(func(s *nadv1.NetworkStatus) { s.Mac = "02:00:00:00:00:09" })},
		"excluded since": {request: "blue", status: net1, want: reported, prepare: exclude("10.100.0.16/28")},
		"not selected": {request: "blue", status: net1, want: reported,
			prepare: func(b *kindtest.Bed, _ *corev1.Pod) { edit(b, only("green")) }},
		"another request": {request: "blue@data", status: net1, want: first},
		"another definition": {request: "blue", want: first,
			status: change(func(s *nadv1.NetworkStatus) { s.Name = "demo/green" })},
		"in no subnet": {request: "blue", want: first, event: true,
			status: change(func(s *nadv1.NetworkStatus) { s.IPs = []string{"192.0.2.1"} })},
		"unreadable": {request: "blue", want: first, event: true,
			status: change(func(s *nadv1.NetworkStatus) { s.IPs = []string{"x"} })},
		"its definition is gone": {request: "blue", status: net1, want: reported, prepare: func(b *kindtest.Bed, _ *corev1.Pod) {
			b.Delete(&nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "blue"}})
		}},
		"by its author, without a sandbox": {request: "blue", status: net1, want: first, prepare: func(b *kindtest.Bed, pod *corev1.Pod) {
			pod = kindtest.Get(b, pod)
			pod.Status.PodIPs = nil
			b.Update(pod)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			from, pod := selectedBed(t)
			pod.Annotations[networks.Annotation] = c.request
			report(pod, c.status)
			b := restarted(t, from, pod)
			if c.prepare != nil {
				c.prepare(b, pod)
			}
			outcome := b.Reconcile("demo", "web")
			if text := strings.Join(outcome.Units[web], "\n"); !strings.Contains(text, c.want) {
				t.Errorf("the pod has\n%s\nwant %q; condition %q", text, c.want, message(b))
			}
			named := func(event string) bool {
				return strings.Contains(event, "NetworkAddressNotRestored") && strings.Contains(event, "net1")
			}
			if slices.ContainsFunc(outcome.Events, named) != c.event {
				t.Errorf("events %q, want one: %t", outcome.Events, c.event)
			}
		})
	}
}

func exclude(cidr networkv1alpha1.CIDR) func(*kindtest.Bed, *corev1.Pod) {
	return func(b *kindtest.Bed, _ *corev1.Pod) {
		edit(b, func(spec *networkv1alpha1.NetworkSpec) { spec.ExcludeSubnets = []networkv1alpha1.CIDR{cidr} })
	}
}

// The first pod that is reconciled after a loss takes no address that another pod reports.
func TestReportedAddressesAreRestoredFirst(t *testing.T) {
	from, newPod := selectedBed(t)
	running := newPod.DeepCopy()
	running.Name, running.UID = "running", "u2"
	report(running, nadv1.NetworkStatus{Name: "demo/blue", Interface: "net1", Mac: "0a:58:0a:64:00:01",
		IPs: []string{"10.100.0.1", "fd00:100::1"}})
	b := restarted(t, from, newPod, running)
	if text := strings.Join(b.Reconcile("demo", "web").Units[web], "\n"); !strings.Contains(text, "10.100.0.2 ") {
		t.Errorf("the new pod has\n%s", text)
	}
}

// A database from a backup has ports of pods that are gone. A running pod that reports their address keeps it.
func TestAReportPrecedesThePortOfAGonePod(t *testing.T) {
	ports := existingPorts(t)
	ports[0].ExternalIDs[unit.OwnerKey], ports[0].Name = "podports/demo/old", "blue_demo_old_net1"
	ports[0].Options[names.InterfaceVersion] = "of a pod that is gone"
	from, pod := selectedBed(t)
	report(pod, nadv1.NetworkStatus{Name: "demo/blue", Interface: "net1", Mac: "0a:58:0a:64:00:01",
		IPs: []string{"10.100.0.1", "fd00:100::1"}})
	b := restarted(t, from, pod)
	b.Database.ExistingPorts = ports
	if text := strings.Join(b.Reconcile("demo", "web").Units[web], "\n"); !strings.Contains(text, "10.100.0.1 ") {
		t.Errorf("the pod has\n%s", text)
	}
}

// A Localnet Network gives no address of a known machine on its segment, and a request for one names the machine.
func TestMachinesOnASegmentKeepTheirAddresses(t *testing.T) {
	machines := func() []client.Object {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n7"}}
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.100.0.1"},
			{Type: corev1.NodeHostName, Address: "n7"}}
		nn := &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "n8"}}
		nn.Status.Gateway = &networkv1alpha1.NodeGatewayStatus{Addresses: []networkv1alpha1.InterfaceAddress{"10.100.0.2/24"},
			NextHops: []networkv1alpha1.IP{"10.100.0.3"}, MACAddress: "52:54:00:00:00:08",
			FurtherLinks: []networkv1alpha1.NodeLink{{Name: "eth1", MACAddress: "52:54:00:00:01:08"}}}
		nn.Status.PhysicalNetworks = []networkv1alpha1.NodePhysicalNetworkStatus{{Name: "dc", MACAddress: "52:54:00:00:02:08"}}
		nn.Status.Probed = []networkv1alpha1.ProbedAddress{{Address: "10.100.0.20"}, {Address: "10.100.0.21", MACAddress: "52:54:00:00:00:fe"},
			{Address: "10.100.0.22", MACAddress: "52:54:00:00:00:08"}}
		apiServer := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes",
			Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}}}
		apiServer.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"10.100.0.4"}}}
		route := &networkv1alpha1.ExternalRoute{ObjectMeta: metav1.ObjectMeta{Name: "r"}}
		route.Spec.NextHops.Static = []networkv1alpha1.StaticNextHop{{Address: "10.100.0.5"}}
		peer := &networkv1alpha1.BGPPeer{ObjectMeta: metav1.ObjectMeta{Name: "tor"}}
		peer.Spec.PeerAddress = "10.100.0.6"
		egress := &networkv1alpha1.EgressIP{ObjectMeta: metav1.ObjectMeta{Name: "out"}}
		egress.Spec.EgressIPs = []networkv1alpha1.EgressAddress{"10.100.0.7"}
		balancers := &networkv1alpha1.LoadBalancerPool{ObjectMeta: metav1.ObjectMeta{Name: "pool"}}
		balancers.Status.InUse = []networkv1alpha1.IP{"10.100.0.8"}
		return []client.Object{node, nn, apiServer, route, peer, egress, balancers}
	}
	bed := func(t *testing.T) (*kindtest.Bed, *corev1.Pod) {
		b, pod := selectedBed(t)
		for _, machine := range machines() {
			b.Create(machine)
		}
		b.Create(&networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
		nn := kindtest.Get(b, &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
		nn.Status.PhysicalNetworks = []networkv1alpha1.NodePhysicalNetworkStatus{{Name: "dc", Ready: true}}
		b.Update(nn)
		return b, pod
	}
	localnet := func(spec *networkv1alpha1.NetworkSpec) {
		spec.Topology, spec.PhysicalNetwork = networkv1alpha1.TopologyLocalnet, "dc"
	}
	for _, c := range []struct{ topology, request, want, refused string }{
		{"Localnet", `blue`, "10.100.0.9 ", ""},
		{"Layer2", `blue`, "10.100.0.1 ", ""}, // pods alone are on it
		{"Localnet", `[{"name":"blue","ips":["10.100.0.1"]}]`, "", "10.100.0.1 belongs to node n7"},
		{"Localnet", `[{"name":"blue","ips":["10.100.0.2"]}]`, "", "10.100.0.2 belongs to node n8"},
		{"Localnet", `[{"name":"blue","ips":["10.100.0.3"]}]`, "", "10.100.0.3 belongs to a router that node n8 sends to"},
		{"Localnet", `[{"name":"blue","ips":["10.100.0.4"]}]`, "", "10.100.0.4 belongs to the Kubernetes API server"},
		{"Localnet", `[{"name":"blue","ips":["10.100.0.5"]}]`, "", "10.100.0.5 belongs to a router of ExternalRoute r"},
		{"Localnet", `[{"name":"blue","ips":["10.100.0.6"]}]`, "", "10.100.0.6 belongs to the router of BGPPeer tor"},
		{"Localnet", `[{"name":"blue","ips":["10.100.0.7"]}]`, "", "10.100.0.7 belongs to EgressIP out"},
		{"Localnet", `[{"name":"blue","ips":["10.100.0.8"]}]`, "", "10.100.0.8 belongs to LoadBalancerPool pool"},
		{"Localnet", `[{"name":"blue","ips":["10.100.0.10"]}]`, "10.100.0.10 ", ""},
		{"Localnet", `[{"name":"blue","mac":"52:54:00:00:00:08"}]`, "", "requested MAC 52:54:00:00:00:08 belongs to node n8"},
		{"Localnet", `[{"name":"blue","mac":"52-54-00-00-01-08"}]`, "", "requested MAC 52:54:00:00:01:08 belongs to node n8"},
		{"Localnet", `[{"name":"blue","mac":"52:54:00:00:02:08"}]`, "", "requested MAC 52:54:00:00:02:08 belongs to node n8"},
		{"Localnet", `[{"name":"blue","mac":"52:54:00:00:00:fe"}]`, "", "52:54:00:00:00:fe belongs to the host that answers for 10.100.0.21"},
		{"Localnet", `[{"name":"blue","mac":"52:54:00:00:00:07"}]`, "52:54:00:00:00:07", ""},
		{"Layer2", `[{"name":"blue","mac":"52:54:00:00:00:08"}]`, "52:54:00:00:00:08", ""}, // pods alone are on it
		{"Localnet without addresses", `[{"name":"blue","mac":"52:54:00:00:00:08"}]`, "", "requested MAC 52:54:00:00:00:08 belongs to node n8"},
		{"Localnet without addresses", `[{"name":"blue","mac":"52:54:00:00:00:07"}]`, "52:54:00:00:00:07", ""},
	} {
		t.Run(c.topology+c.request, func(t *testing.T) {
			b, pod := bed(t)
			if c.topology != "Layer2" {
				edit(b, localnet)
			}
			if c.topology == "Localnet without addresses" {
				edit(b, func(spec *networkv1alpha1.NetworkSpec) { spec.Subnets, spec.IPAM = nil, networkv1alpha1.IPAMNone })
			}
			request(b, pod, c.request)
			outcome := b.Reconcile("demo", "web")
			text := strings.Join(outcome.Units[web], "\n")
			if !strings.Contains(text, c.want) || !strings.Contains(message(b), c.refused) || (c.refused == "") != (message(b) == "") {
				t.Errorf("the pod has\n%s\nwant %q; condition %q, want %q", text, c.want, message(b), c.refused)
			}
		})
	}
	t.Run("an attached pod keeps its address", func(t *testing.T) {
		b, pod := bed(t)
		edit(b, localnet)
		before := b.Reconcile("demo", "web").Units[web]
		node := kindtest.Get(b, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n7"}})
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.100.0.9"}}
		b.Update(node)
		if after := b.Reconcile(pod.Namespace, pod.Name).Units[web]; !slices.Equal(before, after) || message(b) != "" {
			t.Errorf("the pod has %q, before %q: %s", after, before, message(b))
		}
	})
	t.Run("an attached pod keeps its MAC", func(t *testing.T) {
		b, pod := bed(t)
		edit(b, localnet)
		request(b, pod, `[{"name":"blue","mac":"52:54:00:00:00:09"}]`)
		before := b.Reconcile("demo", "web").Units[web]
		nn := kindtest.Get(b, &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "n8"}})
		nn.Status.Gateway.MACAddress = "52:54:00:00:00:09"
		b.Update(nn)
		if after := b.Reconcile(pod.Namespace, pod.Name).Units[web]; !slices.Equal(before, after) || message(b) != "" ||
			!strings.Contains(strings.Join(after, "\n"), "52:54:00:00:00:09") {
			t.Errorf("the pod has %q, before %q: %s", after, before, message(b))
		}
	})
}

// An allocator returns the user of an address that was excluded since.
func TestUserOfAnAddress(t *testing.T) {
	b, _ := selectedBed(t)
	b.Reconcile("demo", "web")
	exclude("10.100.0.0/28")(b, nil)
	b.Reconcile("demo", "web")
	addresses := b.Env.NetworkAddresses.Of("blue")
	_, got, _ := addresses.Get(addresses.Owners("*")[0])
	if user := addresses.UserOfAddress(got.Addresses[0].Addr()); user.String() != "pod demo/web" {
		t.Errorf("%v is of %q", got.Addresses, user)
	}
	if user := alloc.New(time.Now).UserOfAddress(got.Addresses[0].Addr()); user != "" {
		t.Errorf("in an empty allocator %v is of %q", got.Addresses, user)
	}
}
