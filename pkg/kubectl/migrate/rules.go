package migrate

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// rule says what happens to the objects of a kind: a fixed outcome, or a translator that decides.
type rule struct {
	outcome      Outcome
	reason, next string
	translate    func(*item)
}

// State kinds have an object for each pod or node, and nothing that a user wrote. They are counted, not read.
const stateReason = "state of the network, which Weft keeps elsewhere"

const (
	noVPC       = "it is of a router of its own, and Weft has one router for all pods"
	noBGP       = "this command does not translate BGP"
	noProxy     = "Weft does not look into connections"
	bgpNext     = "create BGPPeers and BGPAdvertisements: docs/user/bgp.md"
	egressNext  = "see whether an EgressIP serves: docs/user/egress.md"
	serviceNext = "use a Service of type LoadBalancer with a LoadBalancerPool"
)

func cannot(reason, next string) rule { return rule{outcome: Cannot, reason: reason, next: next} }

func unneeded(reason string) rule { return rule{outcome: NotNeeded, reason: reason} }

func kept(reason string) rule { return rule{outcome: Kept, reason: reason} }

func translated(by func(*item)) rule { return rule{translate: by} }

// ruleGroup has the rules of the kinds of some API groups.
type ruleGroup struct {
	groups []string
	// written are kinds with objects that users write.
	written map[string]rule
	// counted are kinds whose objects are counted, not read.
	counted map[string]rule
}

// ruleGroups has the rules by source.
var ruleGroups = []ruleGroup{
	{groups: []string{"k8s.ovn.org"}, written: ovnKubernetesRules,
		counted: map[string]rule{"DNSNameResolver": unneeded("a record of the addresses of names")}},
	{groups: []string{"config.openshift.io"}, written: map[string]rule{"Network": translated(openShiftNetwork)}},
	{groups: []string{"kubeovn.io"}, written: kubeOVNRules, counted: map[string]rule{"IP": unneeded(stateReason)}},
	{groups: []string{calicoGroup, "projectcalico.org"}, written: calicoRules, counted: map[string]rule{
		"IPAMBlock": unneeded(stateReason), "BlockAffinity": unneeded(stateReason), "IPAMHandle": unneeded(stateReason)}},
	{groups: []string{"operator.tigera.io"}, written: tigeraRules},
	{groups: []string{"cilium.io"}, written: ciliumRules, counted: map[string]rule{
		"CiliumEndpoint": unneeded(stateReason), "CiliumEndpointSlice": unneeded(stateReason), "CiliumIdentity": unneeded(stateReason)}},
	{groups: []string{"metallb.io"}, written: metalLBRules},
	{groups: []string{"frrk8s.metallb.io"}, written: map[string]rule{"FRRConfiguration": translated(frrConfiguration)},
		counted: map[string]rule{"FRRNodeState": unneeded("state of FRR"), "BGPSessionState": unneeded("state of FRR")}},
	{groups: []string{"k8s.cni.cncf.io"}, written: multusRules},
	{groups: []string{"policy.networking.k8s.io"}, written: clusterPolicyRules},
	{groups: []string{"networking.k8s.io"}, counted: map[string]rule{"NetworkPolicy": kept("Weft implements it")}},
}

// byGroupKind returns the rules that a field of the ruleGroups has.
func byGroupKind(field func(ruleGroup) map[string]rule) map[schema.GroupKind]rule {
	found := map[schema.GroupKind]rule{}
	for _, g := range ruleGroups {
		for _, group := range g.groups {
			for kind, r := range field(g) {
				found[schema.GroupKind{Group: group, Kind: kind}] = r
			}
		}
	}
	return found
}

// rules has the kinds with objects that users write, and stateKinds those whose objects are counted. They are set in
// init, because translators read them.
var rules, stateKinds map[schema.GroupKind]rule

func init() {
	rules = byGroupKind(func(g ruleGroup) map[string]rule { return g.written })
	stateKinds = byGroupKind(func(g ruleGroup) map[string]rule { return g.counted })
}

// Wanted reports whether the objects of a kind are read, or counted.
func Wanted(k schema.GroupKind) (read, counted bool) {
	if _, ok := stateKinds[k]; ok {
		return false, true
	}
	_, known := rules[k]
	_, ofNetwork := groups[k.Group]
	return known || ofNetwork || k.Group == "metallb.io" || k == serviceCIDR, false
}

// ConfigMaps are the names of the ConfigMaps that are read, in all namespaces that have programs of networks.
var ConfigMaps = []string{"ovn-config", "calico-config", "canal-config", "cilium-config", "kube-flannel-cfg", "kubeadm-config"}

// facts reads the configuration of the cluster's network.
func (in *inspector) facts() {
	read := map[network]func(){ovnKubernetes: in.ovnKubernetesFacts, kubeOVN: in.kubeOVNFacts, calico: in.calicoFacts,
		cilium: in.ciliumFacts, flannel: in.flannelFacts}[in.network]
	if read != nil {
		read()
	}
}

// counts gives the objects that were only counted their outcome.
func (in *inspector) counts() {
	kinds := slices.SortedFunc(maps.Keys(in.cluster.Counts), func(a, b schema.GroupKind) int {
		return slices.Compare([]string{a.Group, a.Kind}, []string{b.Group, b.Kind})
	})
	for _, k := range kinds {
		if n := in.cluster.Counts[k]; n > 0 {
			r := stateKinds[k]
			e := in.entry(fmt.Sprintf("%s *", kindName(k)))
			e.Count, e.Outcome, e.Reason = n, r.outcome, r.reason
		}
	}
	for k, r := range stateKinds { // of files
		for range in.byKind[k] {
			e := in.entry(fmt.Sprintf("%s *", kindName(k)))
			if e.Outcome == "" {
				e.Count = 0
			}
			e.Count, e.Outcome, e.Reason = e.Count+1, r.outcome, r.reason
		}
	}
}
