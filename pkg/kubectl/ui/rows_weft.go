package ui

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/names"
)

// nodeRow is a node, as its agent reports it.
type nodeRow struct {
	Name      string                    `json:"name"`
	State     string                    `json:"state"`
	Message   string                    `json:"message,omitempty"`
	Pods      int32                     `json:"pods"`
	Free      *int64                    `json:"free"`
	Subnets   []string                  `json:"subnets"`
	Zone      string                    `json:"zone,omitempty"`
	Tunnel    string                    `json:"tunnel,omitempty"`
	Chassis   string                    `json:"chassis,omitempty"`
	Gateway   string                    `json:"gateway,omitempty"`
	Addresses []string                  `json:"addresses"`
	MACs      []string                  `json:"macs"`
	Problems  []networkv1alpha1.Problem `json:"problems"`
}

func nodeRowOf(n *networkv1alpha1.NodeNetwork) nodeRow {
	row := nodeRow{Name: n.Name, Pods: n.Status.Pods, Zone: string(n.Spec.Zone), Tunnel: string(n.Status.EncapIP), Chassis: n.Status.Chassis,
		Problems: n.Status.Problems,
		Subnets:  texts(n.Spec.PodSubnets), Addresses: bare(n.Spec.ManagementPort.Addresses), MACs: []string{}}
	row.State, row.Message = readyOf(n.Status.Conditions)
	if n.Status.Addresses != nil {
		row.Free = &n.Status.Addresses.Free
	}
	if row.Problems == nil {
		row.Problems = []networkv1alpha1.Problem{}
	}
	if mac := n.Spec.ManagementPort.MACAddress; mac != "" {
		row.MACs = append(row.MACs, string(mac))
	}
	row.Addresses = append(row.Addresses, bare(n.Spec.JoinAddresses)...)
	if row.Tunnel != "" {
		row.Addresses = append(row.Addresses, row.Tunnel)
	}
	if g := n.Status.Gateway; g != nil {
		row.Gateway = strings.TrimSpace(fmt.Sprintf("%s %s by %s", g.Mode, strings.Join(texts(g.Addresses), " "), g.Bridge))
		row.Addresses = append(row.Addresses, bare(g.Addresses)...)
		if g.MACAddress != "" {
			row.MACs = append(row.MACs, string(g.MACAddress))
		}
	}
	return row
}

// texts returns a list as strings.
func texts[T ~string](list []T) []string {
	all := []string{}
	for _, one := range list {
		all = append(all, string(one))
	}
	return all
}

// bare returns addresses without the length of their subnets.
func bare(list []networkv1alpha1.InterfaceAddress) []string {
	all := []string{}
	for _, one := range list {
		address, _, _ := strings.Cut(string(one), "/")
		all = append(all, address)
	}
	return all
}

// networkRow is the cluster network, or a Network.
type networkRow struct {
	Name string `json:"name"`
	// Cluster is true for the cluster network.
	Cluster  bool     `json:"cluster,omitempty"`
	Topology string   `json:"topology"`
	Subnets  []string `json:"subnets"`
	// Ports is the number of interfaces that the status of a Network reports. The page counts the ports itself where it may read pods.
	Ports   int32  `json:"ports"`
	State   string `json:"state"`
	Message string `json:"message,omitempty"`
}

func clusterNetworkRowOf(c *networkv1alpha1.ClusterNetwork) networkRow {
	row := networkRow{Name: names.DefaultNetwork, Cluster: true, Topology: "Layer3", Subnets: []string{}}
	for _, n := range c.Spec.ClusterNetwork {
		row.Subnets = append(row.Subnets, string(n.CIDR))
	}
	row.State, row.Message = readyOf(c.Status.Conditions)
	return row
}

func networkRowOf(n *networkv1alpha1.Network) networkRow {
	row := networkRow{Name: n.Name, Topology: string(n.Spec.Topology), Subnets: []string{}, Ports: n.Status.Attachments}
	if n.Spec.PhysicalNetwork != "" {
		row.Topology += " on " + string(n.Spec.PhysicalNetwork)
	}
	if n.Spec.VLAN != 0 {
		row.Topology += fmt.Sprintf(", VLAN %d", n.Spec.VLAN)
	}
	for _, s := range n.Spec.Subnets {
		row.Subnets = append(row.Subnets, string(s.CIDR))
	}
	row.State, row.Message = readyOf(n.Status.Conditions)
	return row
}

// poolRow is an IPPool.
type poolRow struct {
	Name     string   `json:"name"`
	Location string   `json:"location"`
	Ranges   []string `json:"ranges"`
	Total    int64    `json:"total"`
	Used     int64    `json:"used"`
	Kept     int64    `json:"kept"`
	State    string   `json:"state"`
	Message  string   `json:"message,omitempty"`
}

func poolRowOf(p *networkv1alpha1.IPPool) poolRow {
	row := poolRow{Name: p.Name, Location: string(p.Spec.Location), Ranges: []string{}, Total: p.Status.Total, Used: p.Status.Used,
		Kept: p.Status.Kept}
	if p.Spec.Network != "" {
		row.Location += " on " + p.Spec.Network
	}
	for _, r := range p.Spec.Ranges {
		row.Ranges = append(row.Ranges, r.Addresses)
	}
	row.State, row.Message = readyOf(p.Status.Conditions)
	return row
}

// addressRow is a FloatingIP.
type addressRow struct {
	Address string       `json:"address"`
	Pool    string       `json:"pool"`
	State   string       `json:"state"`
	Holder  string       `json:"holder,omitempty"`
	Pod     string       `json:"pod,omitempty"`
	Node    string       `json:"node,omitempty"`
	Policy  string       `json:"policy,omitempty"`
	Since   *metav1.Time `json:"since,omitempty"`
}

func addressRowOf(f *networkv1alpha1.FloatingIP) addressRow {
	row := addressRow{Address: string(f.Spec.Address), Pool: f.Spec.Pool, State: "Free"}
	if _, reserved := f.Labels[networkv1alpha1.ReservedLabel]; reserved {
		row.State = "Reserved"
	}
	if h := f.Spec.Holder; h != nil {
		row.State = "Kept"
		if h.PodUID != "" {
			row.State = "Used"
		}
		row.Holder, row.Node, row.Policy, row.Since = h.Kind+" "+h.Namespace+"/"+h.Name, h.Node, string(h.ReleasePolicy), &h.Since
		if h.Pod != "" {
			row.Pod = h.Namespace + "/" + h.Pod
		}
	}
	return row
}
