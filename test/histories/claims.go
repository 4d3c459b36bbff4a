package histories

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	ipamclaimsv1alpha1 "github.com/k8snetworkplumbingwg/ipamclaims/pkg/crd/ipamclaims/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/topology"
)

// claims is the resource of IPAMClaims.
const claims = "ipamclaims"

func aClaim(r *rand.Rand) string { return oneOf(r, "a/c0", "a/c1", "b/c0") }

// claiming returns an annotation that names an IPAMClaim, with the claim's interface or another one.
func claiming(r *rand.Rand) string {
	text := fmt.Sprintf(`{"name":%q,"ipam-claim-reference":%q`, aNetwork(r), oneOf(r, "c0", "c0", "c1"))
	if r.IntN(4) == 0 {
		text += `,"interface":"data0"`
	}
	return "[" + text + "}]"
}

// claimChoices are the steps of IPAMClaims, drawn separately from the others.
var claimChoices = []choice{
	{10, func(r *rand.Rand) Step {
		return Step{Do: "claim", Name: aClaim(r), What: aNetwork(r), N: r.IntN(4)}
	}},
	{3, func(r *rand.Rand) Step { return Step{Do: "delete-claim", Name: aClaim(r)} }},
	{12, func(r *rand.Rand) Step { return Step{Do: "attach", Name: aPod(r), Node: aNode(r), What: claiming(r)} }},
	{6, func(r *rand.Rand) Step { return Step{Do: "reattach", Name: aPod(r), What: claiming(r)} }},
	{4, func(r *rand.Rand) Step { return Step{Do: "delete-pod", Name: aPod(r)} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "delay", Name: oneOf(r, claims, claims, "pods")} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "deliver", Name: claims} }},
	{1, func(r *rand.Rand) Step { return Step{Do: "lose", Name: claims} }},
	{1, func(r *rand.Rand) Step { return Step{Do: "double", Name: claims} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "api", What: oneOf(r, apiFaults...), N: r.IntN(2)} }},
	{2, func(*rand.Rand) Step { return Step{Do: "crash"} }},
	{3, func(r *rand.Rand) Step { return Step{Do: "wait", N: 1 + r.IntN(6)} }},
}

// claimed is the request of the scenario's pods, and claimEvents are what happens to them.
const claimed = `[{"name":"y2","ipam-claim-reference":"v0"}]`

var claimEvents = []choice{
	{4, func(r *rand.Rand) Step { return Step{Do: "delete-pod", Name: oneOf(r, "a/q10", "a/q10", "a/q11")} }},
	{4, func(r *rand.Rand) Step {
		return Step{Do: "attach", Name: oneOf(r, "a/q10", "a/q11", "a/q11"), Node: "n0", What: claimed}
	}},
	{2, func(*rand.Rand) Step { return Step{Do: "attach", Name: "b/q12", Node: "n0", What: "y2"} }},
	{3, func(*rand.Rand) Step { return Step{Do: "delete-claim", Name: "a/v0"} }},
	{3, func(*rand.Rand) Step { return Step{Do: "claim", Name: "a/v0", What: "y2"} }},
	{2, func(r *rand.Rand) Step {
		return Step{Do: "change-podnetwork", Name: "y2", What: oneOf(r, "grow", "exclude"), N: r.IntN(100)}
	}},
	{2, func(r *rand.Rand) Step { return Step{Do: "api", What: oneOf(r, apiFaults...), N: r.IntN(2)} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "wire", What: oneOf(r, wireFaults...), N: r.IntN(2)} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "stale", N: 1 + r.IntN(6)} }},
	{3, func(r *rand.Rand) Step { return Step{Do: oneOf(r, "crash", "restart")} }},
	{3, func(r *rand.Rand) Step { return Step{Do: "wait", N: 1 + r.IntN(10)} }},
}

// movingClaim gives a pod the addresses of a claim, and lets the claim, the pod and another one of its virtual machine come and go.
func movingClaim(r *rand.Rand) []Step {
	steps := []Step{
		{Do: "node", Name: "n0"}, {Do: "wait", N: 20}, {Do: "agent", Name: "n0", N: r.IntN(3)},
		{Do: "podnetwork", Name: "y2", What: oneOf(r, "tiny", "flat", "dual", "six")}, {Do: "claim", Name: "a/v0", What: "y2"},
		{Do: "attach", Name: "a/q10", Node: "n0", What: claimed}, {Do: "quiet"},
	}
	for range 3 + r.IntN(6) {
		steps = append(steps, draw(r, claimEvents))
	}
	return append(steps, Step{Do: "quiet"})
}

// withClaims inserts steps of IPAMClaims into a third of the histories, and begins these with a Network. Half of them get a scenario.
func withClaims(p Plan) Plan {
	r := rand.New(rand.NewPCG(p.Seed, 13))
	if r.IntN(3) > 0 {
		return p
	}
	first := Step{Do: "podnetwork", Name: aNetwork(r), What: oneOf(r, "tiny", "flat", "dual", "six")}
	p.Steps = slices.Insert(p.Steps, 0, first)
	p = sprinkled(p, r, 10+r.IntN(15), claimChoices)
	if r.IntN(2) == 0 {
		p.Steps = slices.Insert(p.Steps, r.IntN(len(p.Steps)+1), movingClaim(r)...)
	}
	return p
}

// doClaim executes steps of the owners of virtual machines.
func (w *world) doClaim(ctx context.Context, s Step) (handled bool, err error) {
	key := podKey(s.Name)
	claim := &ipamclaimsv1alpha1.IPAMClaim{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	switch s.Do {
	case "claim":
		claim.Spec.Network, claim.Spec.Interface = s.What, []string{"", "net1", "net1", "data0"}[s.N%4]
		return true, ignoreExists(w.api.Create(ctx, claim))
	case "delete-claim":
		return true, client.IgnoreNotFound(w.api.Delete(ctx, claim))
	}
	return false, nil
}

// readClaims indexes IPAMClaims by name, and their addresses by Network.
func (o *objects) readClaims(all ipamclaimsv1alpha1.IPAMClaimList) {
	o.claims, o.claimed = map[types.NamespacedName]*ipamclaimsv1alpha1.IPAMClaim{}, map[string]types.NamespacedName{}
	for i := range all.Items {
		claim := &all.Items[i]
		o.claims[client.ObjectKeyFromObject(claim)] = claim
		for _, address := range addressesOf(claim) {
			o.claimed[claim.Spec.Network+" "+address] = client.ObjectKeyFromObject(claim)
		}
	}
}

// addressesOf returns the addresses of a claim's status without their lengths.
func addressesOf(claim *ipamclaimsv1alpha1.IPAMClaim) (addresses []string) {
	for _, text := range claim.Status.IPs {
		address, _, _ := strings.Cut(text, "/")
		addresses = append(addresses, address)
	}
	return addresses
}

// claimOf returns the claim that an attachment can have, or nil.
func (o *oracle) claimOf(a attachment) *ipamclaimsv1alpha1.IPAMClaim {
	claim := o.claims[types.NamespacedName{Namespace: a.pod.Namespace, Name: a.request.Element.IPAMClaimReference}]
	if claim == nil || claim.Spec.Network != a.network || claim.Spec.Interface != "" && claim.Spec.Interface != a.request.Interface {
		return nil
	}
	return claim
}

// checkClaimed checks that a port has the addresses of the claim that it names, unless another pod has the claim.
func (o *oracle) checkClaimed(a attachment, port topology.PodPort) {
	claim := o.claimOf(a)
	if a.request.Element.IPAMClaimReference == "" || claim == nil || port.Network.PerNode() || len(a.pools) == 0 {
		return
	}
	owner := claim.Status.OwnerPod
	if owner != nil && owner.Name != a.pod.Name {
		return // checkClaims checks that pod
	}
	have := addressesOf(claim)
	for _, address := range port.Addresses {
		if owner == nil || !slices.Contains(have, address.Addr().String()) {
			o.complain("pod %s/%s has %v for %s, and its claim has %+v", a.pod.Namespace, a.pod.Name, port.Addresses, a.request, claim.Status)
			return
		}
	}
}

// canClaim reports whether a request that names a claim could be granted: the claim has no addresses yet, or nobody uses them.
func (o *oracle) canClaim(a attachment, n facts.PodNetwork, pools []alloc.Pool) bool {
	claim := o.claimOf(a)
	if claim == nil || n.PerNode() || len(pools) == 0 || len(a.request.Addresses) > 0 {
		return false
	}
	have := addressesOf(claim)
	for _, address := range have {
		if o.holds[a.network+" "+address] != "" {
			return false
		}
	}
	return len(have) == 0 // whether the subnets still have its addresses is not judged
}

// checkClaims checks who has the addresses of each claim, and that they stay. kept are the addresses of the previous check by UID.
func (o *oracle) checkClaims(kept map[types.UID][]string) {
	now := map[types.UID][]string{}
	for _, name := range slices.SortedFunc(maps.Keys(o.claims), byName) {
		claim := o.claims[name]
		have := addressesOf(claim)
		now[claim.UID] = have
		for _, address := range kept[claim.UID] {
			if !slices.Contains(have, address) {
				o.complain("IPAMClaim %s had %v, and has %v", name, kept[claim.UID], have)
			}
		}
		user := ""
		for _, address := range have {
			if pod := o.holds[claim.Spec.Network+" "+address]; pod != "" {
				user = pod
			}
		}
		owner := ""
		if claim.Status.OwnerPod != nil {
			owner = name.Namespace + "/" + claim.Status.OwnerPod.Name
		}
		if user != owner {
			o.complain("IPAMClaim %s with %v says that pod %q has them, but pod %q has", name, have, owner, user)
		}
	}
	if len(o.wrong) == 0 {
		clear(kept)
		maps.Copy(kept, now)
	}
}

func byName(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) }
