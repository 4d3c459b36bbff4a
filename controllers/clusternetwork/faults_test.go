package clusternetwork

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/invariant"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ovndb"
)

const testVersion = "v1"

// goodFacts returns the facts of a network of three nodes without a problem.
func goodFacts() statusInput {
	f := statusInput{plan: facts.Plan{Clusters: []ipam.Network{cluster("10.244.0.0/16", 24)}}, connected: true, version: testVersion,
		used: func(netip.Prefix) (int64, bool) { return 0, true }, agents: map[string]agentState{}}
	for i, name := range []string{"a", "b", "c"} {
		node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		nn := linked(name, "192.0.2.1", 1500)
		nn.Spec.PodSubnets = []networkv1alpha1.CIDR{networkv1alpha1.CIDR("10.244." + string(rune('0'+i)) + ".0/24")}
		nn.Status.Chassis, nn.Status.AgentVersion, nn.Status.OVSVersion, nn.Status.OVNVersion = name, testVersion, "3.5.0", "25.03.0"
		for _, kind := range []string{networkv1alpha1.ConditionReady, networkv1alpha1.ConditionOVSReady,
			networkv1alpha1.ConditionControllerReady,
			networkv1alpha1.ConditionTopologyReady, networkv1alpha1.ConditionManagementPortReady, networkv1alpha1.ConditionCNIReady,
			networkv1alpha1.ConditionGatewayReady, networkv1alpha1.ConditionInterfacesReady, networkv1alpha1.ConditionAddressesFree} {
			meta.SetStatusCondition(&nn.Status.Conditions,
				metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: networkv1alpha1.ReasonAsExpected})
		}
		f.nodes, f.networks, f.agents[name] = append(f.nodes, node), append(f.networks, nn), agentState{running: true}
	}
	return f
}

// fails makes a stage of nodes fail. Ready fails with it unless the stage is a note.
func (f *statusInput) fails(condition, reason, message string, nodes ...int) {
	for _, i := range nodes {
		conditions := &f.networks[i].Status.Conditions
		meta.SetStatusCondition(conditions, metav1.Condition{Type: condition, Status: metav1.ConditionFalse,
			Reason: reason, Message: message})
		switch condition {
		case networkv1alpha1.ConditionGatewayReady, networkv1alpha1.ConditionGatewayAccepted,
			networkv1alpha1.ConditionInterfacesReady, networkv1alpha1.ConditionAddressesFree:
		default:
			meta.SetStatusCondition(conditions, metav1.Condition{Type: networkv1alpha1.ConditionReady,
				Status: metav1.ConditionFalse, Reason: networkv1alpha1.ReasonNotReady, Message: message})
		}
	}
}

// A node that cannot register its chassis, because another node has its address, names that node. Chassis that are late are reported only
// while all nodes are ready.
func TestStatusNamesTheCause(t *testing.T) {
	f := goodFacts()
	f.networks[0].Status.EncapIP, f.networks[1].Status.EncapIP = "192.0.2.9", "192.0.2.9"
	f.late = time.Unix(1, 0)
	if got := status(network(), f).Problems; len(got) != 1 || got[0].Reason != networkv1alpha1.ReasonChangesNotInstalled {
		t.Errorf("problems %+v while all nodes are ready", got)
	}
	f.fails(networkv1alpha1.ConditionControllerReady, networkv1alpha1.ReasonWaitingForChassis, "not registered", 1)
	got := status(network(), f).Problems
	if len(got) != 1 || got[0].Object != "NodeNetwork/b" || !strings.Contains(got[0].Message, "node a has the same address 192.0.2.9") {
		t.Errorf("problems %+v, want one that names node a", got)
	}
}

// Each fault is named with its area, the object, the error and the next step, and every other area is OK.
func TestStatusNamesTheFault(t *testing.T) {
	const (
		unavailable, degraded, progressing = networkv1alpha1.StateUnavailable, networkv1alpha1.StateDegraded,
			networkv1alpha1.StateProgressing
		databases, control, ofNodes = networkv1alpha1.AreaDatabases, networkv1alpha1.AreaControlPlane, networkv1alpha1.AreaNodes
		rows, ofAddresses, ofDrift  = networkv1alpha1.AreaTopology, networkv1alpha1.AreaAddresses, networkv1alpha1.AreaDrift
		whole                       = "ClusterNetwork/default"
	)
	schema := &ovndb.SchemaError{}
	foreign := errors.New("the database belongs to the cluster x")
	for _, test := range []struct {
		fault  string
		inject func(*statusInput)
		area   networkv1alpha1.AreaName
		state  networkv1alpha1.AreaState
		reason string
		object string
	}{
		{"northbound database away", func(f *statusInput) { f.connected = false }, databases, unavailable,
			networkv1alpha1.ReasonDatabaseUnavailable, whole},
		{"northbound database on a full disk", func(f *statusInput) { f.connected, f.unwritable = false, true }, databases, unavailable,
			networkv1alpha1.ReasonDatabaseUnavailable, whole},
		{"schema too old", func(f *statusInput) {
			f.connected, f.refused, f.applied = false, schema, schema
		}, databases, unavailable, networkv1alpha1.ReasonDatabaseSchemaTooOld, whole},
		{"another cluster's database", func(f *statusInput) {
			f.refused, f.applied = foreign, foreign
		}, databases, unavailable, networkv1alpha1.ReasonDatabaseError, whole},
		{"southbound database away", func(f *statusInput) {
			f.fails(networkv1alpha1.ConditionControllerReady, networkv1alpha1.ReasonDatabaseUnavailable, "not connected", 0, 1, 2)
		}, databases, unavailable, networkv1alpha1.ReasonDatabaseUnavailable, whole},
		{"southbound database away for one node", func(f *statusInput) {
			f.fails(networkv1alpha1.ConditionControllerReady, networkv1alpha1.ReasonDatabaseUnavailable, "not connected", 1)
		}, ofNodes, degraded, networkv1alpha1.ReasonDatabaseUnavailable, "NodeNetwork/b"},
		{"ovn-northd silent", func(f *statusInput) {
			f.silent = "ovn-northd does not answer"
		}, control, unavailable, networkv1alpha1.ReasonNorthdSilent, whole},
		{"southbound database on a full disk", func(f *statusInput) { f.late = time.Unix(1, 0) }, control, degraded,
			networkv1alpha1.ReasonChangesNotInstalled, whole},
		{"agent of a former version", func(f *statusInput) {
			f.networks[2].Status.AgentVersion = "v0"
		}, control, progressing, networkv1alpha1.ReasonVersionsDiffer, "DaemonSet/weft-agent"},
		{"row refused", func(f *statusInput) {
			f.applied = errors.New("constraint violation")
		}, rows, degraded, networkv1alpha1.ReasonDatabaseError, whole},
		{"spec invalid", func(f *statusInput) { f.invalid = errors.New("bad") }, rows, degraded, networkv1alpha1.ReasonInvalidSpec, whole},
		{"networks held", func(f *statusInput) {
			f.invalid = &facts.HeldError{Message: "clusterNetwork 10.244.0.0/16 contains 10.244.3.4"}
		}, rows, degraded, networkv1alpha1.ReasonNetworkOverlapsNodes, whole},
		{"appended network held", func(f *statusInput) {
			f.held = "clusterNetwork 10.245.0.0/16 contains 10.245.3.4"
		}, rows, degraded, networkv1alpha1.ReasonNetworkOverlapsNodes, whole},
		{"API server in a network", func(f *statusInput) {
			f.plan.Clusters = []ipam.Network{cluster("10.244.0.0/16", 24)}
			f.apiServers = []discoveryv1.EndpointSlice{{Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.244.3.4"}}}}}
		}, rows, degraded, networkv1alpha1.ReasonNetworkOverlapsNodes, whole},
		{"node in a network", func(f *statusInput) {
			f.isIn(2, "10.244.0.0/16", "10.244.3.4")
		}, ofNodes, degraded, networkv1alpha1.ReasonNetworkOverlapsNodes, "Node/c"},
		{"node in a network, and so without one", func(f *statusInput) {
			f.isIn(2, "10.244.0.0/16", "10.244.3.4")
			f.networks = f.networks[:2]
		}, ofNodes, degraded, networkv1alpha1.ReasonNetworkOverlapsNodes, "Node/c"},
		{"gateway in a network", func(f *statusInput) {
			f.isIn(0, "10.244.0.0/16", "10.244.3.4")
			f.fails(networkv1alpha1.ConditionGatewayAccepted, networkv1alpha1.ReasonNetworkOverlapsNodes,
				"clusterNetwork 10.244.0.0/16 contains 10.244.3.4", 0)
		}, rows, degraded, networkv1alpha1.ReasonNetworkOverlapsNodes, "NodeNetwork/a"},
		{"node's rows refused", func(f *statusInput) {
			f.fails(networkv1alpha1.ConditionTopologyReady, networkv1alpha1.ReasonDatabaseRefused, "constraint violation", 0)
		}, rows, degraded, networkv1alpha1.ReasonDatabaseRefused, "NodeNetwork/a"},
		{"gateway's address is another's", func(f *statusInput) {
			f.fails(networkv1alpha1.ConditionGatewayAccepted, networkv1alpha1.ReasonAddressConflict, "192.0.2.1 is b's", 0)
		}, rows, degraded, networkv1alpha1.ReasonAddressConflict, "NodeNetwork/a"},
		{"links of different MTU", func(f *statusInput) { f.mtu = "links differ" }, rows, degraded, networkv1alpha1.ReasonMTUMismatch, whole},
		{"service networks differ", func(f *statusInput) { f.services = "they differ" }, rows, degraded,
			networkv1alpha1.ReasonServiceNetworkMismatch, whole},
		{"invariant violated", func(f *statusInput) {
			f.violations = []invariant.Violation{{Invariant: "UniqueMAC", Message: "twice"}}
		}, rows, degraded, networkv1alpha1.ReasonInvariantViolated, whole},
		{"subnets exhausted", func(f *statusInput) {
			f.plan.Clusters = []ipam.Network{cluster("10.244.0.0/23", 24)}
			f.networks[2].Spec.PodSubnets = nil
		}, ofAddresses, degraded, networkv1alpha1.ReasonSubnetsExhausted, whole},
		{"node full", func(f *statusInput) {
			f.fails(networkv1alpha1.ConditionAddressesFree, networkv1alpha1.ReasonAddressesExhausted, "full", 0)
		}, ofAddresses, degraded, networkv1alpha1.ReasonAddressesExhausted, "NodeNetwork/a"},
		{"drift standing", func(f *statusInput) {
			f.drift = &networkv1alpha1.DriftStatus{Total: 1, Standing: 1}
		}, ofDrift, degraded, networkv1alpha1.ReasonDrift, whole},
		{"kubelet silent", func(f *statusInput) {
			f.nodes[1].Status.Conditions[0].Status = corev1.ConditionUnknown
		}, ofNodes, degraded, networkv1alpha1.ReasonNodeLost, "Node/b"},
		{"node not reached through the network", func(f *statusInput) {
			f.networks[1].Spec.ManagementPort.Addresses = []networkv1alpha1.InterfaceAddress{"10.244.1.2/24"}
			f.unreached = []string{"b"}
		}, ofNodes, degraded, networkv1alpha1.ReasonTunnelSilent, "NodeNetwork/b"},
		{"kubelet silent, and so all of its node", func(f *statusInput) {
			f.networks[1].Spec.ManagementPort.Addresses = []networkv1alpha1.InterfaceAddress{"10.244.1.2/24"}
			f.unreached, f.nodes[1].Status.Conditions[0].Status = []string{"b"}, corev1.ConditionUnknown
		}, ofNodes, degraded, networkv1alpha1.ReasonNodeLost, "Node/b"},
		{"agent in back-off", func(f *statusInput) {
			f.agents["c"] = agentState{failing: "container agent: CrashLoopBackOff"}
		}, ofNodes, degraded, networkv1alpha1.ReasonAgentUnavailable, "Node/c"},
		{"agent starts", func(f *statusInput) {
			f.agents["c"] = agentState{}
		}, ofNodes, progressing, networkv1alpha1.ReasonAgentStarting, "Node/c"},
		{"agent's pod gone", func(f *statusInput) { delete(f.agents, "c") }, ofNodes, progressing,
			networkv1alpha1.ReasonAgentStarting, "Node/c"},
		{"new node", func(f *statusInput) {
			f.networks = f.networks[:2]
		}, ofNodes, progressing, networkv1alpha1.ReasonWaitingForAgent, "Node/c"},
		{"Open vSwitch's database away", func(f *statusInput) {
			f.fails(networkv1alpha1.ConditionOVSReady, networkv1alpha1.ReasonDatabaseUnavailable, "Open vSwitch does not answer", 0)
		}, ofNodes, degraded, networkv1alpha1.ReasonDatabaseUnavailable, "NodeNetwork/a"},
		{"ovs-vswitchd dead", func(f *statusInput) {
			f.fails(networkv1alpha1.ConditionOVSReady, networkv1alpha1.ReasonSwitchUnavailable, "does not answer", 0)
		}, ofNodes, degraded, networkv1alpha1.ReasonSwitchUnavailable, "NodeNetwork/a"},
		{"ovn-controller dead", func(f *statusInput) {
			f.fails(networkv1alpha1.ConditionControllerReady, networkv1alpha1.ReasonControllerUnavailable, "does not answer", 1)
		}, ofNodes, degraded, networkv1alpha1.ReasonControllerUnavailable, "NodeNetwork/b"},
		{"chassis not registered", func(f *statusInput) {
			f.fails(networkv1alpha1.ConditionControllerReady, networkv1alpha1.ReasonWaitingForChassis, "not registered", 1)
		}, ofNodes, progressing, networkv1alpha1.ReasonWaitingForChassis, "NodeNetwork/b"},
		{"management port refused by the kernel", func(f *statusInput) {
			f.fails(networkv1alpha1.ConditionManagementPortReady, networkv1alpha1.ReasonHostError, "permission denied", 1)
		}, ofNodes, degraded, networkv1alpha1.ReasonHostError, "NodeNetwork/b"},
		{"CNI configuration not writable", func(f *statusInput) {
			f.fails(networkv1alpha1.ConditionCNIReady, networkv1alpha1.ReasonHostError, "read-only file system", 1)
		}, ofNodes, degraded, networkv1alpha1.ReasonHostError, "NodeNetwork/b"},
		{"no link outside", func(f *statusInput) {
			f.fails(networkv1alpha1.ConditionGatewayReady, networkv1alpha1.ReasonNoUplink, "no default route", 1)
		}, ofNodes, degraded, networkv1alpha1.ReasonNoUplink, "NodeNetwork/b"},
		{"link moves", func(f *statusInput) {
			f.fails(networkv1alpha1.ConditionGatewayReady, networkv1alpha1.ReasonUplinkMoving, "it is being moved", 1)
		}, ofNodes, progressing, networkv1alpha1.ReasonUplinkMoving, "NodeNetwork/b"},
		{"move rolled back", func(f *statusInput) {
			f.networks[1].Status.Move = "eth0 Bridge"
			f.fails(networkv1alpha1.ConditionGatewayReady, networkv1alpha1.ReasonUplinkRolledBack, "no answer", 1)
		}, ofNodes, degraded, networkv1alpha1.ReasonUplinkRolledBack, whole},
		{"another network's CNI configuration", func(f *statusInput) {
			f.fails(networkv1alpha1.ConditionCNIReady, networkv1alpha1.ReasonOtherConfiguration, "00-other.conflist sorts before", 1)
		}, ofNodes, degraded, networkv1alpha1.ReasonOtherConfiguration, "NodeNetwork/b"},
		{"egress IP that no node carries", func(f *statusInput) {
			f.add(egressIP("good", metav1.ConditionTrue, networkv1alpha1.ReasonAsExpected),
				egressIP("lost", metav1.ConditionFalse, networkv1alpha1.ReasonNoAssignableNode))
		}, rows, degraded, networkv1alpha1.ReasonNoAssignableNode, "EgressIP/lost"},
		{"egress IP on a node that is silent", func(f *statusInput) {
			f.add(egressIP("held", metav1.ConditionUnknown, networkv1alpha1.ReasonNodesUnreachable), &networkv1alpha1.EgressIP{})
		}, rows, degraded, networkv1alpha1.ReasonNodesUnreachable, "EgressIP/held"},
		{"a zone's node without addresses", func(f *statusInput) {
			meta.SetStatusCondition(&f.networks[0].Status.Conditions, metav1.Condition{Type: networkv1alpha1.ConditionSubnetsFull,
				Status: metav1.ConditionTrue, Reason: networkv1alpha1.ReasonIPv4Exhausted, Message: "a pod waits"})
		}, ofAddresses, progressing, networkv1alpha1.ReasonIPv4Exhausted, "NodeNetwork/a"},
		{"interfaces of pods broken", func(f *statusInput) {
			f.fails(networkv1alpha1.ConditionInterfacesReady, networkv1alpha1.ReasonCheckFailed, "1 of 5", 1)
		}, ofNodes, degraded, networkv1alpha1.ReasonCheckFailed, "NodeNetwork/b"},
	} {
		t.Run(test.fault, func(t *testing.T) {
			f := goodFacts()
			test.inject(&f)
			got := status(network(), f)
			if len(got.Problems) != 1 {
				t.Fatalf("%d problems, want one: %+v", len(got.Problems), got.Problems)
			}
			p := got.Problems[0]
			if p.Area != test.area || p.State != test.state || p.Reason != test.reason || p.Object != test.object ||
				p.Message == "" || p.NextStep == "" || strings.Contains(p.NextStep, "NODE") {
				t.Errorf("it is reported as %+v", p)
			}
			for _, area := range got.Areas {
				if want := map[bool]networkv1alpha1.AreaState{true: test.state,
					false: networkv1alpha1.StateOK}[area.Name == test.area]; area.State != want || area.Message == "" {
					t.Errorf("area %s is %s (%s), want %s", area.Name, area.State, area.Message, want)
				}
			}
			wantConditions(t, got, map[string]bool{
				networkv1alpha1.ConditionAvailable:   test.state != unavailable,
				networkv1alpha1.ConditionDegraded:    test.state != progressing,
				networkv1alpha1.ConditionProgressing: test.state == progressing, networkv1alpha1.ConditionUpgradeable: false,
			})
		})
	}
}

// isIn gives a node an address in a network of pods.
func (f *statusInput) isIn(node int, network, address string) {
	f.plan.Clusters = []ipam.Network{cluster(network, 24)}
	f.nodes[node].Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
}

// add adds objects with conditions.
func (f *statusInput) add(objects ...client.Object) {
	for _, o := range objects {
		if read, known := objectOf(o); known {
			f.objects = append(f.objects, read)
		}
	}
}

func egressIP(name string, assigned metav1.ConditionStatus, reason string) *networkv1alpha1.EgressIP {
	e := &networkv1alpha1.EgressIP{ObjectMeta: metav1.ObjectMeta{Name: name}}
	meta.SetStatusCondition(&e.Status.Conditions, metav1.Condition{Type: networkv1alpha1.ConditionAssigned,
		Status: assigned, Reason: reason, Message: reason})
	return e
}

func network() *networkv1alpha1.ClusterNetwork {
	cn := &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	cn.Spec.ClusterNetwork = []networkv1alpha1.ClusterNetworkEntry{{CIDR: "10.244.0.0/16"}}
	cn.Spec.JoinSubnet = []networkv1alpha1.CIDR{"100.64.0.0/16", "fd98::/64"}
	return cn
}

func wantConditions(t *testing.T, got networkv1alpha1.ClusterNetworkStatus, want map[string]bool) {
	t.Helper()
	for kind, on := range want {
		c := meta.FindStatusCondition(got.Conditions, kind)
		if c == nil || (c.Status == metav1.ConditionTrue) != on || c.Reason == "" || c.Message == "" {
			t.Errorf("%s is %+v, want %v", kind, c, on)
		}
	}
}

func TestGoodNetworkHasNoProblem(t *testing.T) {
	got := status(network(), goodFacts())
	if len(got.Problems) != 0 {
		t.Errorf("problems %+v", got.Problems)
	}
	wantConditions(t, got, map[string]bool{networkv1alpha1.ConditionReady: true,
		networkv1alpha1.ConditionAvailable: true, networkv1alpha1.ConditionProgressing: false,
		networkv1alpha1.ConditionDegraded: false, networkv1alpha1.ConditionUpgradeable: true})
	if got := got.Computed; got.ClusterNetwork[0].HostPrefix != 24 || len(got.JoinSubnet) != 1 || got.MTU != 1442 {
		t.Errorf("computed is %+v", got)
	}
}

// The worst problem is first, in whatever order problems are found. Equal problems of several nodes are merged.
func TestWorstProblemIsFirst(t *testing.T) {
	f := goodFacts()
	f.mtu, f.connected = "links differ", false
	f.fails(networkv1alpha1.ConditionOVSReady, networkv1alpha1.ReasonSwitchUnavailable, "does not answer", 0, 2)
	f.networks[1].Status.AgentVersion = "v0"
	got := status(network(), f)
	var reasons []string
	for _, p := range got.Problems {
		reasons = append(reasons, p.Reason)
	}
	want := []string{networkv1alpha1.ReasonDatabaseUnavailable, networkv1alpha1.ReasonSwitchUnavailable,
		networkv1alpha1.ReasonMTUMismatch, networkv1alpha1.ReasonVersionsDiffer}
	if strings.Join(reasons, " ") != strings.Join(want, " ") {
		t.Errorf("reasons are %v, want %v", reasons, want)
	}
	if p := got.Problems[1]; p.Object != "NodeNetwork/a, NodeNetwork/c" || !strings.HasSuffix(p.Message, "and the same of 1 more") {
		t.Errorf("two nodes are reported as %+v", p)
	}
}

// A network without a ready node is not available, even if none has failed.
func TestNoReadyNodeIsNotAvailable(t *testing.T) {
	f := goodFacts()
	f.networks = nil
	wantConditions(t, status(network(), f), map[string]bool{networkv1alpha1.ConditionAvailable: false,
		networkv1alpha1.ConditionDegraded: false, networkv1alpha1.ConditionProgressing: true})
}

// A version is reported when the last node has it.
func TestVersionsAreOfAllNodes(t *testing.T) {
	cn, f := network(), goodFacts()
	agentOf := func() (found string) {
		cn.Status = status(cn, f)
		for _, v := range cn.Status.Versions {
			if v.Name == "agent" {
				found = v.Version
			}
		}
		return found
	}
	if got := agentOf(); got != testVersion {
		t.Fatalf("agents are of version %q", got)
	}
	f.version = "v2"
	for i := range f.networks {
		f.networks[i].Status.AgentVersion = "v2"
		if got, want := agentOf(), map[bool]string{true: "v2", false: testVersion}[i == len(f.networks)-1]; got != want {
			t.Errorf("%d of 3 have v2: version %q, want %q", i+1, got, want)
		}
	}
}
