package histories

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// zoned makes the plans of all histories include a zone.
var zoned bool

const (
	// theZone is the zone of the histories with -zones.
	theZone kind.Zone = "east"
	// zoneLabel is the label of the zone's nodes.
	zoneLabel = "part"
)

// inZones insert the further steps of a divided cluster.
var inZones = []func(Plan) Plan{withServices, withFirewalls, withEgressIPs, withPolicies, withLogging, withClusterPolicies, withScenarios,
	withLoadBalancers, withQoS, withBGP, withMulticast, withRoutes, withLeaving, withNetworks, withMultiPolicies, withClaims,
	withNetworkScenarios, withLocalnets, withFloating, withSchedulers, withZone}

// zoneChoices are the steps of a divided cluster: of administrators, of weft-operands, and of the zone's operator and database.
var zoneChoices = []choice{
	{3, func(r *rand.Rand) Step {
		return Step{Do: "zones", What: oneOf(r, string(theZone), string(theZone), "no")}
	}},
	{12, func(r *rand.Rand) Step {
		return Step{Do: "zone-node", Name: aNode(r), What: oneOf(r, string(theZone), string(theZone), "no")}
	}},
	{5, func(r *rand.Rand) Step { return Step{Do: "zone-workloads", What: oneOf(r, "ready", "ready", "down")} }},
	{4, func(r *rand.Rand) Step { return Step{Do: "kubelet", Name: aPod(r)} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "away", Zone: theZone, N: 1 + r.IntN(6)} }},
	{1, func(r *rand.Rand) Step { return Step{Do: "away", N: 1 + r.IntN(6)} }},
	{14, func(r *rand.Rand) Step { return inTheZone(draw(r, faulty)) }},
	{4, func(r *rand.Rand) Step { return inTheZone(draw(r, foreignWrites)) }},
}

func inTheZone(s Step) Step {
	s.Zone = theZone
	return s
}

// withZone inserts the steps of a divided cluster into every history. Most histories have the zone from their start.
func withZone(p Plan) Plan {
	r := rand.New(rand.NewPCG(p.Seed, 28))
	p.Zones = true
	if r.IntN(4) > 0 {
		steps := []Step{{Do: "zones", What: string(theZone)}, {Do: "zone-workloads", What: "ready"}}
		for _, name := range []string{"n0", "n1", "n2"} {
			if r.IntN(2) == 0 {
				steps = append(steps, Step{Do: "zone-node", Name: name, What: string(theZone)})
			}
		}
		p.Steps = slices.Insert(p.Steps, min(len(p.Steps), 4+r.IntN(8)), steps...)
	}
	p = sprinkled(p, r, 10+r.IntN(20), zoneChoices)
	if p.Shape == tightShape && r.IntN(2) == 0 {
		p.Steps = slices.Insert(p.Steps, r.IntN(len(p.Steps)+1), fullInTheZone(r)...)
	}
	return p
}

// fullInTheZone fills a node of the zone between two quiet points. The administrator appends a network before, after or never.
func fullInTheZone(r *rand.Rand) []Step {
	node := aNode(r)
	steps := []Step{{Do: "quiet"}, {Do: "zones", What: string(theZone)}, {Do: "zone-workloads", What: "ready"}, {Do: "node", Name: node},
		{Do: "zone-node", Name: node, What: string(theZone)}}
	steps = append(steps, filled(r, node, "b/z", theZone)...)
	if at := r.IntN(2 * len(steps)); at < len(steps) {
		steps = slices.Insert(steps, max(1, at), Step{Do: "append-network"})
	}
	switch r.IntN(4) {
	case 0:
		steps = append(steps, Step{Do: "restart", Zone: theZone}, Step{Do: "wait", N: 40})
	case 1:
		steps = append(steps, Step{Do: "zone-node", Name: node, What: "no"}, Step{Do: "wait", N: 40})
	}
	return append(steps, Step{Do: "quiet"})
}

// doZone executes an administrator's changes to the zones, and changes of the zone's workloads.
func (w *world) doZone(ctx context.Context, s Step) (handled bool, err error) {
	if strings.HasPrefix(s.Do, "zone") {
		w.attachments = nil // a node that enters a zone takes its pods off Networks
	}
	switch s.Do {
	case "zones":
		w.zones = nil
		if s.What != "no" {
			w.zones = []networkv1alpha1.Zone{{Name: networkv1alpha1.ZoneName(theZone), NodeSelector: map[string]string{zoneLabel: s.What}}}
		}
		err = w.changeNetwork(ctx, func(cn *networkv1alpha1.ClusterNetwork) { cn.Spec.Zones = w.zones })
		return true, errors.Join(err, w.operands(ctx))
	case "zone-node":
		s.Name = "/" + s.Name
		return true, w.tag(ctx, s, &corev1.Node{}, zoneLabel)
	case "zone-workloads":
		w.zoneDown = s.What == "down"
		return true, w.operands(ctx)
	}
	return false, nil
}

// operands writes the zones' states to the ClusterNetwork's status, as weft-operands does.
func (w *world) operands(ctx context.Context) error {
	cn := &networkv1alpha1.ClusterNetwork{}
	if err := w.api.Get(ctx, types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, cn); err != nil {
		return client.IgnoreNotFound(err)
	}
	var now []networkv1alpha1.ZoneStatus
	for _, z := range cn.Spec.Zones {
		state := networkv1alpha1.ZoneStatus{Name: z.Name, Node: "n0", Addresses: []networkv1alpha1.IP{"192.0.2.9"}, Ready: !w.zoneDown}
		if w.zoneDown {
			state.Message = "the operator has no pod yet"
		}
		now = append(now, state)
	}
	if equality.Semantic.DeepEqual(cn.Status.Zones, now) {
		return nil
	}
	before := cn.DeepCopy()
	cn.Status.Zones = now
	return client.IgnoreNotFound(w.api.Status().Patch(ctx, cn, client.MergeFrom(before)))
}

// isDivided reports whether a node is in a zone.
func (w *world) isDivided(ctx context.Context) bool {
	var networks networkv1alpha1.NodeNetworkList
	err := w.api.List(ctx, &networks)
	return err == nil && slices.ContainsFunc(networks.Items, func(nn networkv1alpha1.NodeNetwork) bool { return nn.Spec.Zone != "" })
}

// serving returns the history as seen from the database that serves a pod's node.
func (w *world) serving(ctx context.Context, name string) *world {
	var pod corev1.Pod
	var nn networkv1alpha1.NodeNetwork
	if len(w.sites) == 1 || w.api.Get(ctx, podKey(name), &pod) != nil ||
		w.api.Get(ctx, types.NamespacedName{Name: pod.Spec.NodeName}, &nn) != nil {
		return w
	}
	return w.at(kind.Zone(nn.Spec.Zone))
}

// checkApart checks that no pod has a port in two databases, and that no two pods have one address.
func (w *world) checkApart() error {
	ports, addresses := map[string]kind.Zone{}, map[netip.Addr]string{}
	return w.everywhere(func(w *world) error {
		rows, _ := w.mirror.snapshot()
		for id, r := range rows["Logical_Switch_Port"] {
			pod := ownerOf(r)
			if unit.Key(pod).Kind() != topology.KindPod || w.disowned[id] {
				continue
			}
			if zone, ok := ports[pod]; ok && zone != w.cluster.zone {
				return fmt.Errorf("%s has a port in zone %q, too", pod, zone)
			}
			ports[pod] = w.cluster.zone
			port, err := parsePort(id, r)
			if err != nil {
				return fmt.Errorf("port of %s: %w", pod, err)
			}
			for _, a := range port.addresses {
				if other, ok := addresses[a]; ok && other != pod {
					return fmt.Errorf("%s has address %s of %s", pod, a, other)
				}
				addresses[a] = pod
			}
		}
		return nil
	})
}

// decides reports whether the database's operator decides for the whole cluster.
func (o *oracle) decides() bool { return !o.zone.Follows() }

// elsewhere reports whether another database has a node's rows.
func (o *oracle) elsewhere(node string) bool {
	nn := o.networks[node]
	return nn != nil && kind.Zone(nn.Spec.Zone) != o.zone
}

// ownPart returns what a database has of the units of a node.
func (o *oracle) ownPart(node string) func(unit.Unit) unit.Unit {
	if o.elsewhere(node) {
		return topology.Elsewhere
	}
	return func(u unit.Unit) unit.Unit { return u }
}

// reach sets how the gateway of a node elsewhere is reached.
func (o *oracle) reach(gateway *facts.Gateway, nn *networkv1alpha1.NodeNetwork) {
	if o.elsewhere(nn.Name) {
		zone, _ := o.plan.Transit(o.cn, networkv1alpha1.ZoneName(o.zone))
		gateway.ReachBy(zone, nn)
	}
}

// expectTransit expects the rows that connect the zones, and checks the remote ports without the builder.
func (o *oracle) expectTransit() {
	zone, zoned := o.plan.Transit(o.cn, networkv1alpha1.ZoneName(o.zone))
	remote := map[string]string{} // node -> chassis
	if zoned {
		o.units = append(o.units, topology.TransitUnit(zone))
	}
	for _, name := range slices.Sorted(maps.Keys(o.networks)) {
		nn := o.networks[name]
		read, ok, err := facts.ParseTransitNode(nn, zone, o.elsewhere(name))
		if err != nil {
			o.complain("NodeNetwork %s: %w", name, err)
		}
		if !zoned || !ok || err != nil || o.nodes[name] == nil || o.claimedTwice(nn) {
			continue
		}
		if o.units = append(o.units, topology.TransitNodeUnit(read)); read.Elsewhere {
			remote[name] = nn.Status.Chassis
		}
	}
	o.checkRemotes(remote)
}

// claimedTwice reports whether another node has the chassis of a node elsewhere.
func (o *oracle) claimedTwice(nn *networkv1alpha1.NodeNetwork) bool {
	for name, other := range o.networks {
		if name != nn.Name && other.Status.Chassis == nn.Status.Chassis && o.elsewhere(nn.Name) {
			return true
		}
	}
	return false
}

// checkRemotes checks that each node elsewhere, and nothing else, has a remote port with its chassis.
func (o *oracle) checkRemotes(want map[string]string) {
	have := map[string]string{}
	for _, r := range o.rows["Logical_Switch_Port"] {
		if owner := unit.Key(ownerOf(r)); owner.Kind() == topology.KindTransitNode && oneAtom(r["type"]) == names.RemotePort {
			have[owner.Name()] = mapOf(r["options"])[names.RequestedChassis]
		}
	}
	if !maps.Equal(have, want) {
		o.complain("the nodes elsewhere have remote ports with the chassis %v, want %v", have, want)
	}
}

// expectPodElsewhere expects the addresses of a pod of another zone in the sets that select the pod. The addresses count as used if they
// are the node's.
func (o *oracle) expectPodElsewhere(pod *corev1.Pod, node facts.Node) {
	addresses := reported(pod)
	if len(addresses) == 0 {
		return
	}
	o.units = append(o.units, topology.PodElsewhereUnit(topology.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: interfaceUID(pod),
		Node: node.Name, Addresses: addresses, MAC: ipam.MAC(addresses), Selected: o.selectedBy(pod),
		EgressIP: facts.SelectEgress(o.egress, o.services, pod.Namespace, o.labels[pod.Namespace], pod.Labels)}))
	name := pod.Namespace + "/" + pod.Name
	taken := func(a netip.Addr) bool { return o.used[a] != "" }
	if within(addresses, node.Subnets) && !slices.ContainsFunc(addresses, taken) {
		for _, a := range addresses {
			o.used[a] = name
		}
	}
}

// heldBy returns the addresses that a pod has for the database's operator: its port's, or elsewhere its status'.
func (o *oracle) heldBy(pod *corev1.Pod) []netip.Addr {
	if !o.elsewhere(pod.Spec.NodeName) {
		port, _ := findPort(o.rows, pod)
		return port.addresses
	}
	addresses := reported(pod)
	if len(addresses) == 0 || o.used[addresses[0]] != pod.Namespace+"/"+pod.Name {
		return nil
	}
	return addresses
}
