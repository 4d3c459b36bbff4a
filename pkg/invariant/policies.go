package invariant

import (
	"fmt"
	"slices"
	"strings"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// policyInvariants returns the invariants of firewalls, and of the groups and sets that ACLs name.
func policyInvariants() []Invariant {
	return []Invariant{
		{"FirewallOfNamespace", "A firewall's port group has exactly the ports of its namespace.", firewallOfNamespace},
		{"SetsExist", "Every port group and address set that an ACL or a QoS rule names exists.", setsExist},
	}
}

// usedSets returns the sets that rules name.
func usedSets(firewalls []networkv1alpha1.EgressFirewall, policies []facts.ClusterPolicy) map[unit.Key]bool {
	used := map[unit.Key]bool{}
	for i := range firewalls {
		if read, err := facts.ParseEgressFirewall(&firewalls[i], nil); err == nil {
			for _, set := range topology.EgressFirewallSets(read) {
				used[set] = true
			}
		}
	}
	for _, policy := range policies {
		for _, set := range topology.ClusterPolicyNames(policy) {
			used[set] = true
		}
	}
	return used
}

func firewallOfNamespace(v *view) (found []Violation) {
	if v.ClusterNetwork == nil {
		return nil
	}
	groups := map[string]*nbdb.PortGroup{}
	for _, g := range rowsIn[nbdb.PortGroup](v.Northbound, nbdb.PortGroupTable) {
		groups[g.Name] = g
	}
	for i := range v.EgressFirewalls {
		firewall := &v.EgressFirewalls[i]
		about := func(violation Violation) Violation {
			violation.Owners = append(violation.Owners, topology.EgressFirewallKey(firewall.Namespace))
			return violation.of("EgressFirewall " + firewall.Namespace + "/" + firewall.Name)
		}
		group := groups[names.NamespacePorts(firewall.Namespace)]
		if group == nil || len(group.ACLs) == 0 {
			found = append(found,
				about(Violation{Message: fmt.Sprintf("namespace %s has a firewall and no port group with ACLs", firewall.Namespace)}))
			continue
		}
		for _, port := range v.ports {
			owner := ownerOf(port)
			namespace, _, _ := strings.Cut(owner.Name(), "/")
			wants := owner.Kind() == topology.KindPod && namespace == firewall.Namespace
			if has := slices.Contains(group.Ports, port.UUID); has != wants && owner != "" {
				found = append(found,
					about(v.about([]any{port}, "port %s is in the group of namespace %s: %t, and should be: %t",
						port.Name, firewall.Namespace, has, wants)))
			}
		}
	}
	return found
}

func setsExist(v *view) (found []Violation) {
	exist := map[string]bool{}
	for _, g := range rowsIn[nbdb.PortGroup](v.Northbound, nbdb.PortGroupTable) {
		exist["@"+g.Name] = true
	}
	for _, s := range rowsIn[nbdb.AddressSet](v.Northbound, nbdb.AddressSetTable) {
		exist["$"+s.Name] = true
	}
	check := func(table string, row any, match string) {
		for _, word := range strings.FieldsFunc(match, func(r rune) bool { return strings.ContainsRune(" (){},", r) }) {
			if (word[0] == '@' || word[0] == '$') && !exist[word] && ours(row) {
				found = append(found, v.about([]any{row}, "%s %s names %s, which does not exist", table, v.rowOf(row).UUID, word))
			}
		}
	}
	for _, acl := range rowsIn[nbdb.ACL](v.Northbound, nbdb.ACLTable) {
		check("ACL", acl, acl.Match)
	}
	for _, rule := range rowsIn[nbdb.QoS](v.Northbound, nbdb.QoSTable) {
		check("QoS", rule, rule.Match)
	}
	return found
}
