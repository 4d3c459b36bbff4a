package histories

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// withNetworkScenarios inserts a scenario of Networks into a quarter of the plans: attachments that stay, or an address that returns.
func withNetworkScenarios(p Plan) Plan {
	r := rand.New(rand.NewPCG(p.Seed, 11))
	if r.IntN(4) > 0 {
		return p
	}
	steps := slices.Concat([]Step{{Do: "quiet"}}, stayingAttachments(r), []Step{{Do: "quiet"}, {Do: "same-attachments", Name: "y0"}})
	if r.IntN(3) == 0 {
		steps = slices.Concat([]Step{{Do: "quiet"}}, returnedAddress(r), []Step{{Do: "quiet"}})
	}
	p.Steps = slices.Insert(p.Steps, r.IntN(len(p.Steps)+1), steps...)
	return p
}

// stayingAttachments attaches pods to a Network, and does what must leave their addresses as they are.
func stayingAttachments(r *rand.Rand) []Step {
	steps := []Step{
		{Do: "node", Name: "n0"}, {Do: "wait", N: 20}, {Do: "agent", Name: "n0", N: r.IntN(3)},
		{Do: "podnetwork", Name: "y0", What: oneOf(r, "tiny", "flat", "dual", "six", "bare", "routed")},
		{Do: "attach", Name: "a/q4", Node: "n0", What: "y0@data"}, {Do: "attach", Name: "b/q5", Node: "n0", What: "y0,a/y0"},
		{Do: "quiet"}, {Do: "note-attachments", Name: "y0"},
	}
	for range 1 + r.IntN(4) {
		steps = append(steps, draw(r, harmless))
	}
	return steps
}

// returnedAddress takes an address from a pod in one of several ways, and requests it for another.
func returnedAddress(r *rand.Rand) []Step {
	const request = `[{"name":"y1","ips":["10.100.0.5"]}]`
	leaves := []Step{
		{Do: "reattach", Name: "a/q7"},
		{Do: "reattach", Name: "a/q7", What: `[{"name":"y1","ips":["10.100.0.6"]}]`},
		{Do: "delete-pod", Name: "a/q7"},
		{Do: "end-pod", Name: "a/q7", What: "Succeeded"},
	}
	return []Step{
		{Do: "node", Name: "n0"}, {Do: "wait", N: 20}, {Do: "agent", Name: "n0", N: r.IntN(3)},
		{Do: "podnetwork", Name: "y1", What: oneOf(r, "tiny", "flat")}, {Do: "attach", Name: "a/q7", Node: "n0", What: request},
		{Do: "quiet"}, {Do: "attach", Name: "b/q8", Node: "n0", What: request}, leaves[r.IntN(len(leaves))],
	}
}

// harmless are steps after which an attachment has the addresses that it had.
var harmless = []choice{
	{3, func(r *rand.Rand) Step { return Step{Do: "delete-definition", Name: oneOf(r, "a", "b") + "/y0"} }},
	{2, func(r *rand.Rand) Step {
		return Step{Do: "change-definition", Name: oneOf(r, "a", "b") + "/y0", What: "malformed"}
	}},
	{4, func(r *rand.Rand) Step {
		return Step{Do: "change-podnetwork", Name: "y0", What: oneOf(r, "exclude", "exclude", "wrong", "mtu", "grow"), N: r.IntN(100)}
	}},
	{2, func(*rand.Rand) Step { return Step{Do: "crash"} }},
	{2, func(*rand.Rand) Step { return Step{Do: "restart"} }},
	{1, func(*rand.Rand) Step { return Step{Do: "disconnect"} }},
	{1, func(r *rand.Rand) Step { return Step{Do: "api", What: oneOf(r, apiFaults...), N: r.IntN(2)} }},
	{1, func(r *rand.Rand) Step { return Step{Do: "wire", What: oneOf(r, wireFaults...), N: r.IntN(2)} }},
	{1, func(r *rand.Rand) Step { return Step{Do: "attach", Name: "a/q6", Node: "n0", What: "y0,y0"} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "wait", N: 1 + r.IntN(20)} }},
}

// doNetworkScenario executes the steps that only this scenario has.
func (w *world) doNetworkScenario(ctx context.Context, s Step) (handled bool, err error) {
	switch s.Do {
	case "attach":
		return true, w.attach(ctx, s)
	case "reattach":
		return true, w.changePod(ctx, s.Name, false, func(pod *corev1.Pod) {
			if metav1.SetMetaDataAnnotation(&pod.ObjectMeta, networks.Annotation, s.What); s.What == "" {
				delete(pod.Annotations, networks.Annotation)
			}
		})
	case "note-attachments":
		w.attachments = w.portsOn(s.Name)
	case "same-attachments":
		now := w.portsOn(s.Name)
		for _, port := range slices.Sorted(maps.Keys(w.attachments)) {
			if now[port] == "" && w.isDivided(ctx) {
				continue // an earlier step moved its node into a zone
			}
			if now[port] != w.attachments[port] {
				return true, fmt.Errorf("port %s had %s, and has %q without a reason", port, w.attachments[port], now[port])
			}
		}
	default:
		return false, nil
	}
	return true, nil
}

// portsOn returns what the ports of pods on a Network have: name -> MAC and addresses.
func (w *world) portsOn(network string) map[string]string {
	rows, _ := w.mirror.snapshot()
	found := map[string]string{}
	for _, r := range rows["Logical_Switch_Port"] {
		if unit.Key(ownerOf(r)).Kind() == topology.KindPodPorts && mapOf(r["external_ids"])[ovnexpr.NetworkKey] == network {
			found[atoms(r["name"])[0]] = strings.Join(atoms(r["addresses"]), ",")
		}
	}
	return found
}
