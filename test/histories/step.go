package histories

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/weft-network/weft/controllers/kind"
)

// Step is one event of a history. A step without effect in the present state (such as deleting a missing pod) does
// nothing, so that steps can be removed from a plan.
type Step struct {
	Do   string `json:"do"`
	Name string `json:"name,omitempty"` // its object: a pod "a/p0", a node "n1", a resource "pods"
	Node string `json:"node,omitempty"` // the pod's node; empty: not scheduled
	What string `json:"what,omitempty"` // a variant
	N    int    `json:"n,omitempty"`    // a number: of commit points, of a row

	Zone kind.Zone `json:"zone,omitempty"` // whose operator or database it concerns
}

// Plan is a history before it runs.
type Plan struct {
	Seed  uint64 `json:"seed"`
	Shape int    `json:"shape"`           // the networks, an index of shapes
	Zones bool   `json:"zones,omitempty"` // the cluster may be divided
	Steps []Step `json:"steps"`
}

// choice is a step with its weight.
type choice struct {
	weight int
	step   func(r *rand.Rand) Step
}

const (
	nodeCount = 5
	podCount  = 7 // in each of two namespaces
)

func aNode(r *rand.Rand) string { return fmt.Sprintf("n%d", r.IntN(nodeCount)) }

func aPod(r *rand.Rand) string { return fmt.Sprintf("%c/p%d", 'a'+rune(r.IntN(2)), r.IntN(podCount)) }

// oneOf draws a name. Names that occur several times are more likely.
func oneOf(r *rand.Rand, names ...string) string { return names[r.IntN(len(names))] }

var apiFaults = []string{string(conflict), string(cutBefore), string(cutAfter), string(crashBefore), string(crashAfter)}

var wireFaults = []string{string(cutBefore), string(cutAfter), string(crashBefore), string(crashAfter), string(hold)}

// all are the resources that the operator watches.
var all = slices.Concat(watched, []string{"services", "endpointslices", firewalls, "egressips", "loadbalancerpools",
	"bgppeers", egressQoSes, externalRoutes, "bgpadvertisements", policies, podNetworks,
	definitions, clusterPolicies, multiPolicies, claims, ippools, floatingIPs, "deployments", "statefulsets"})

// watched are the resources whose faults are drawn with the steps of pods and nodes. Resources that occur several
// times are more likely.
var watched = []string{"pods", "pods", "nodes", "nodenetworks", "nodenetworks", "clusternetworks", "namespaces"}

// choices are all steps: first actions of people and nodes, then faults, then foreign writes to the database.
var choices = slices.Concat(actions, faulty, foreignWrites)

var actions = []choice{
	{20, func(r *rand.Rand) Step { return Step{Do: "pod", Name: aPod(r), Node: aNode(r), What: podVariant(r)} }},
	{8, func(r *rand.Rand) Step { return Step{Do: "delete-pod", Name: aPod(r)} }},
	{6, func(r *rand.Rand) Step {
		return Step{Do: "renew-pod", Name: aPod(r), Node: aNode(r), What: podVariant(r)}
	}},
	{3, func(r *rand.Rand) Step { return Step{Do: "schedule", Name: aPod(r), Node: aNode(r)} }},
	{3, func(r *rand.Rand) Step {
		return Step{Do: "end-pod", Name: aPod(r), What: oneOf(r, "Succeeded", "Failed")}
	}},
	{8, func(r *rand.Rand) Step { return Step{Do: "kubelet", Name: aPod(r)} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "ask-record", Name: aPod(r)} }},
	{1, func(r *rand.Rand) Step {
		return Step{Do: "ask-records", Name: oneOf(r, "a", "b"), What: oneOf(r, "true", "false")}
	}},
	{6, func(r *rand.Rand) Step { return Step{Do: "node", Name: aNode(r)} }},
	{3, func(r *rand.Rand) Step { return Step{Do: "delete-node", Name: aNode(r)} }},
	{3, func(r *rand.Rand) Step { return Step{Do: "renew-node", Name: aNode(r)} }},
	{8, func(r *rand.Rand) Step {
		return Step{Do: "agent", Name: aNode(r), What: oneOf(r, "", "", "", "unready", "renamed"), N: r.IntN(3)}
	}},
	{1, func(r *rand.Rand) Step { return Step{Do: "mute", Name: aNode(r)} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "collect"} }},
	{1, func(r *rand.Rand) Step { return Step{Do: "delete-nodenetwork", Name: aNode(r)} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "network"} }},
	{1, func(r *rand.Rand) Step { return Step{Do: "delete-network"} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "append-network"} }},
	{1, func(r *rand.Rand) Step { return Step{Do: "remove-network", N: r.IntN(2)} }},
	{1, func(r *rand.Rand) Step {
		return []Step{{Do: "mtu"}, {Do: "mtu", N: 1300}, {Do: "mtu", N: 1400}, {Do: "encrypt", What: "IPsec"}, {Do: "encrypt", What: "IPsec"},
			{Do: "encrypt", What: "None"}}[r.IntN(6)]
	}},
	{1, func(r *rand.Rand) Step { return Step{Do: "records", What: oneOf(r, "OnRequest", "Always")} }},
}

var faulty = []choice{
	{6, func(r *rand.Rand) Step { return Step{Do: "delay", Name: oneOf(r, watched...)} }},
	{4, func(r *rand.Rand) Step { return Step{Do: "deliver", Name: oneOf(r, watched...)} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "lose", Name: oneOf(r, watched...)} }},
	{1, func(r *rand.Rand) Step { return Step{Do: "double", Name: oneOf(r, watched...)} }},
	{9, func(r *rand.Rand) Step { return Step{Do: "api", What: oneOf(r, apiFaults...), N: r.IntN(4)} }},
	{10, func(r *rand.Rand) Step { return Step{Do: "wire", What: oneOf(r, wireFaults...), N: r.IntN(4)} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "late-rows", N: 1 + r.IntN(3)} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "disconnect"} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "kill-server", N: r.IntN(4)} }},
	{1, func(r *rand.Rand) Step { return Step{Do: "empty"} }},
	{3, func(r *rand.Rand) Step { return Step{Do: "crash"} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "restart"} }},
	{3, func(r *rand.Rand) Step { return Step{Do: "stale", N: 1 + r.IntN(12)} }},
	{1, func(r *rand.Rand) Step { return Step{Do: "wake"} }},
	{9, func(r *rand.Rand) Step { return Step{Do: "wait", N: 1 + r.IntN(6)} }},
}

var foreignWrites = []choice{
	{8, func(r *rand.Rand) Step { return Step{Do: "vandal", What: oneOf(r, vandalism...), N: r.IntN(100)} }},
	{3, func(r *rand.Rand) Step { return Step{Do: "foreign", What: oneOf(r, foreigners...), N: r.IntN(100)} }},
}

func podVariant(r *rand.Rand) string {
	return oneOf(r, "", "", "", "", "", "", "", "host", "mirror", "asking", "unscheduled")
}

// generate returns the plan of a seed.
func generate(seed uint64) Plan {
	r := rand.New(rand.NewPCG(seed, 0))
	p := Plan{Seed: seed, Shape: r.IntN(len(shapes))}
	if r.IntN(5) > 0 {
		p.Steps = append(p.Steps, Step{Do: "network"})
	}
	for i := range 1 + r.IntN(3) {
		name := fmt.Sprintf("n%d", i)
		p.Steps = append(p.Steps, Step{Do: "node", Name: name})
		if r.IntN(3) > 0 {
			p.Steps = append(p.Steps, Step{Do: "wait", N: 3}, Step{Do: "agent", Name: name})
		}
	}
	for range 15 + r.IntN(35) {
		p.Steps = append(p.Steps, draw(r, choices))
	}
	if len(p.Steps) > 30 && r.IntN(2) == 0 {
		p.Steps[len(p.Steps)/2] = Step{Do: "quiet"}
	}
	further := []func(Plan) Plan{withServices, withFirewalls, withEgressIPs, withPolicies, withLogging, withClusterPolicies,
		withScenarios, withNetworks, withNetworkScenarios, withMultiPolicies, withClaims, withLocalnets, withFloating,
		withSchedulers, withLoadBalancers, withQoS, withBGP, withMulticast, withRoutes, withLeaving}
	if zoned {
		further = inZones
	}
	for _, add := range further {
		p = add(p)
	}
	return p
}

func draw(r *rand.Rand, choices []choice) Step {
	total := 0
	for _, c := range choices {
		total += c.weight
	}
	n := r.IntN(total)
	for _, c := range choices {
		if n < c.weight {
			return c.step(r)
		}
		n -= c.weight
	}
	panic("weights do not add up")
}
