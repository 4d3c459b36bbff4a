package ui

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// zoneRow is a zone of the ClusterNetwork.
type zoneRow struct {
	Name     string `json:"name"`
	State    string `json:"state"`
	Message  string `json:"message,omitempty"`
	Selector string `json:"selector"`
	// Node has the zone's databases, or their first member, which have Addresses.
	Node      string   `json:"node,omitempty"`
	Addresses []string `json:"addresses"`
	Relays    int      `json:"relays,omitempty"`
}

// zoneRowsOf returns the zones of a ClusterNetwork: "Zone/NAME" -> row.
func zoneRowsOf(o client.Object) map[string]any {
	rows := map[string]any{}
	c, ok := o.(*networkv1alpha1.ClusterNetwork)
	if !ok {
		return rows
	}
	status := map[networkv1alpha1.ZoneName]networkv1alpha1.ZoneStatus{}
	for _, z := range c.Status.Zones {
		status[z.Name] = z
	}
	for _, z := range c.Spec.Zones {
		row := zoneRow{Name: string(z.Name), State: "Unknown", Message: "not reported yet",
			Selector: metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: z.NodeSelector}), Addresses: []string{}}
		if s, ok := status[z.Name]; ok {
			row.State, row.Message, row.Node, row.Relays = "Not ready", s.Message, s.Node, len(s.Relays)
			row.Addresses = texts(s.Addresses)
			if s.Ready {
				row.State = "Ready"
			}
		}
		rows["Zone/"+row.Name] = row
	}
	return rows
}

// balancerRow is a LoadBalancerPool.
type balancerRow struct {
	Name   string   `json:"name"`
	Class  string   `json:"class"`
	Ranges []string `json:"ranges"`
	Total  int64    `json:"total"`
	Used   int64    `json:"used"`
	Free   int64    `json:"free"`
	// Nodes says which node answers for which address: "192.0.2.7 on n1".
	Nodes     []string `json:"nodes"`
	Addresses []string `json:"addresses"`
	State     string   `json:"state"`
	Message   string   `json:"message,omitempty"`
}

func balancerRowOf(p *networkv1alpha1.LoadBalancerPool) balancerRow {
	row := balancerRow{Name: p.Name, Class: p.Spec.LoadBalancerClass, Ranges: texts(p.Spec.Addresses), Total: p.Status.Total,
		Used: p.Status.Used, Free: p.Status.Free, Nodes: []string{}, Addresses: texts(p.Status.InUse)}
	for _, a := range p.Status.Announcements {
		row.Nodes = append(row.Nodes, fmt.Sprintf("%s on %s", a.Address, a.Node))
	}
	row.State, row.Message = readyOf(p.Status.Conditions)
	return row
}

// egressRow is an object that decides how pods leave the cluster.
type egressRow struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	State     string `json:"state"`
	Message   string `json:"message,omitempty"`
	// Subject is the pods that leave by it.
	Subject string `json:"subject"`
	// How is the addresses with their nodes, the routers, or the rules.
	How       []string `json:"how"`
	Addresses []string `json:"addresses"`
}

func egressIPRowOf(e *networkv1alpha1.EgressIP) egressRow {
	row := egressRow{Kind: "EgressIP", Name: e.Name, Subject: selectedText(&e.Spec.NamespaceSelector, &e.Spec.PodSelector), How: []string{},
		Addresses: texts(e.Spec.EgressIPs)}
	nodes := map[string]string{} // address -> node
	for _, item := range e.Status.Items {
		nodes[string(item.EgressIP)] = item.Node
	}
	for _, address := range row.Addresses {
		if node := nodes[address]; node != "" {
			row.How = append(row.How, address+" on "+node)
		} else {
			row.How = append(row.How, address+" on no node")
		}
	}
	row.State, row.Message = stateOf(e.Status.Conditions, networkv1alpha1.ConditionAssigned)
	return row
}

func externalRouteRowOf(e *networkv1alpha1.ExternalRoute) egressRow {
	row := egressRow{Kind: "ExternalRoute", Name: e.Name, Subject: selectedText(&e.Spec.NamespaceSelector, &e.Spec.PodSelector),
		How: []string{}, Addresses: []string{}}
	for _, hop := range e.Status.NextHops {
		row.Addresses = append(row.Addresses, string(hop.Address))
		text := "by " + string(hop.Address)
		if hop.Pod != "" {
			text += " of pod " + hop.Pod
		}
		row.How = append(row.How, text)
	}
	row.State, row.Message = readyOf(e.Status.Conditions)
	return row
}

func egressFirewallRowOf(e *networkv1alpha1.EgressFirewall) egressRow {
	row := egressRow{Kind: "EgressFirewall", Namespace: e.Namespace, Name: e.Name, Subject: "all pods", How: []string{},
		Addresses: []string{}}
	for _, rule := range e.Spec.Egress {
		to := rule.To.CIDRSelector + rule.To.DNSName
		if rule.To.NodeSelector != nil {
			to = "nodes " + selectorText(rule.To.NodeSelector, "all")
		}
		text := string(rule.Type) + " " + to
		for _, port := range rule.Ports {
			text += " " + portText(port)
		}
		row.How = append(row.How, text)
	}
	row.State, row.Message = readyOf(e.Status.Conditions)
	return row
}

// portText describes a port of a rule: "TCP", "TCP 80", "TCP 80-90".
func portText(p networkv1alpha1.EgressFirewallPort) string {
	switch {
	case p.Port == 0:
		return string(p.Protocol)
	case p.EndPort == 0:
		return fmt.Sprintf("%s %d", p.Protocol, p.Port)
	}
	return fmt.Sprintf("%s %d-%d", p.Protocol, p.Port, p.EndPort)
}

func egressQoSRowOf(e *networkv1alpha1.EgressQoS) egressRow {
	row := egressRow{Kind: "EgressQoS", Namespace: e.Namespace, Name: e.Name, Subject: "all pods", How: []string{}, Addresses: []string{}}
	for _, rule := range e.Spec.Egress {
		var does []string
		if rule.DSCP != nil {
			does = append(does, fmt.Sprintf("DSCP %d", *rule.DSCP))
		}
		if rule.Bandwidth != nil {
			does = append(does, fmt.Sprintf("%d kbit/s", rule.Bandwidth.Rate))
		}
		if rule.DstCIDR != "" {
			does = append(does, "to "+rule.DstCIDR)
		}
		if rule.PodSelector != nil {
			does = append(does, "from "+podsText(rule.PodSelector))
		}
		row.How = append(row.How, strings.Join(does, " "))
	}
	row.State, row.Message = readyOf(e.Status.Conditions)
	return row
}

// selectedText describes pods that are selected by namespace and by their own labels.
func selectedText(namespaces, pods *metav1.LabelSelector) string {
	return podsText(pods) + " in " + selectorText(namespaces, "all namespaces")
}

// selectorText describes a selector, or returns all for a selector of everything.
func selectorText(selector *metav1.LabelSelector, all string) string {
	if text := metav1.FormatLabelSelector(selector); text != "<none>" {
		return text
	}
	return all
}

// bgpRow is a BGPPeer or a BGPAdvertisement.
type bgpRow struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	State   string `json:"state"`
	Message string `json:"message,omitempty"`
	// What is the router with the AS numbers, or the routes with the peers that get them.
	What      string   `json:"what"`
	Nodes     string   `json:"nodes"`
	Addresses []string `json:"addresses"`
}

func peerRowOf(p *networkv1alpha1.BGPPeer) bgpRow {
	row := bgpRow{Kind: "BGPPeer", Name: p.Name, Addresses: []string{string(p.Spec.PeerAddress)},
		What:  fmt.Sprintf("%s AS %d, nodes AS %d", p.Spec.PeerAddress, p.Spec.PeerASN, p.Spec.MyASN),
		Nodes: fmt.Sprintf("%d of %d", p.Status.Established, p.Status.Nodes)}
	if p.Status.BFDUp != nil {
		row.Nodes += fmt.Sprintf(", BFD %d", *p.Status.BFDUp)
	}
	row.State, row.Message = stateOf(p.Status.Conditions, networkv1alpha1.ConditionEstablished)
	return row
}

func advertisementRowOf(a *networkv1alpha1.BGPAdvertisement) bgpRow {
	var routes []string
	for name, on := range map[string]bool{"load balancers": a.Spec.LoadBalancers != nil, "pod subnets": a.Spec.PodSubnets,
		"egress IPs": a.Spec.EgressIPs != nil} {
		if on {
			routes = append(routes, name)
		}
	}
	slices.Sort(routes)
	to := "all peers"
	if len(a.Spec.Peers) > 0 {
		to = strings.Join(a.Spec.Peers, ", ")
	}
	row := bgpRow{Kind: "BGPAdvertisement", Name: a.Name, Addresses: []string{}, Nodes: fmt.Sprint(a.Status.Nodes),
		What: fmt.Sprintf("%s to %s: %d prefixes", strings.Join(routes, ", "), to, a.Status.Prefixes)}
	row.State, row.Message = stateOf(a.Status.Conditions, networkv1alpha1.ConditionAdvertised)
	return row
}
