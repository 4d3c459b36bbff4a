package facts

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// CarriedAddress is an egress IP and the node that carries it.
type CarriedAddress struct {
	Address netip.Addr
	Node    string
	// Join holds the addresses of the node's gateway router on the join switch, Clusters the CIDRs of all pods.
	Join, Clusters []netip.Prefix
	// Own is the router's own address of the family. It is invalid where pods keep their address, and in Local mode.
	// Traffic to other nodes has this address, with or without an EgressIP.
	Own netip.Addr
	// ByHost means that the address leads through the host, in Local mode.
	ByHost bool
	// Elsewhere means that the node is in another zone. Then Transit are the node's addresses on the transit switch, and Far the
	// transit router's on its link to the cluster router.
	Elsewhere    bool
	Transit, Far []netip.Addr
}

// EgressIP holds the facts for topology.EgressIPUnit.
type EgressIP struct {
	// Name is that of the EgressIP, or EgressNameOf a Service.
	Name string
	// Addresses are all addresses of the EgressIP, also kept ones. Carried are the addresses that a node carries.
	Addresses []netip.Addr
	Carried   []CarriedAddress
	// Drop drops packets to the outside while no node carries an address of the family.
	Drop bool
}

// ParseEgressIP reads an EgressIP. Its status lists the node of each address, and gateways, by node, how to reach it.
// A node without a gateway router carries nothing.
func ParseEgressIP(e *networkv1alpha1.EgressIP, gateways map[string]Gateway) (EgressIP, error) {
	facts := EgressIP{Name: e.Name, Drop: e.Spec.WhenUnassigned == networkv1alpha1.UnassignedDrop}
	var err error
	if facts.Addresses, err = EgressAddresses(e); err != nil {
		return facts, err
	}
	facts.Addresses = append(facts.Addresses, FormerEgressAddresses(e)...)
	for i, item := range e.Status.Items {
		address, err := item.EgressIP.Addr()
		if err != nil {
			return facts, fmt.Errorf("status.items[%d].egressIP: %w", i, err)
		}
		if g, known := gateways[item.Node]; known && (g.HasRouter() || g.HasEgressRouter()) {
			facts.Carried = append(facts.Carried, g.carry(address))
		}
	}
	return facts, nil
}

// carry returns an address that the node of a gateway carries.
func (g Gateway) carry(address netip.Addr) CarriedAddress {
	carried := CarriedAddress{Address: address, Node: g.Node.Name, Join: g.Join, Clusters: g.Clusters, ByHost: !g.HasRouter(),
		Elsewhere: g.Elsewhere, Transit: g.Transit, Far: g.Far}
	for _, own := range g.Addresses {
		if g.SNAT && g.HasRouter() && own.Addr().Is4() == address.Is4() {
			carried.Own = own.Addr()
		}
	}
	return carried
}

// EgressAddresses returns the addresses of an EgressIP, in the order of its spec.
func EgressAddresses(e *networkv1alpha1.EgressIP) ([]netip.Addr, error) {
	addresses := make([]netip.Addr, 0, len(e.Spec.EgressIPs))
	for i, text := range e.Spec.EgressIPs {
		address, err := netip.ParseAddr(string(text))
		if err != nil {
			return nil, fmt.Errorf("spec.egressIPs[%d]: %w", i, err)
		}
		addresses = append(addresses, address)
	}
	return addresses, nil
}

// FormerEgressAddresses returns the addresses that the status of an EgressIP has and its spec lacks: kept addresses, and addresses that
// a node carried before the last change of the spec.
func FormerEgressAddresses(e *networkv1alpha1.EgressIP) (former []netip.Addr) {
	texts := slices.Clone(e.Status.Former)
	for _, item := range e.Status.Items {
		texts = append(texts, item.EgressIP)
	}
	for _, text := range texts {
		if a, err := text.Addr(); err == nil && !slices.Contains(former, a) &&
			!slices.Contains(e.Spec.EgressIPs, networkv1alpha1.EgressAddress(a.String())) {
			former = append(former, a)
		}
	}
	return former
}

// EgressAddressesInUse returns the addresses of an EgressIP's spec that can be read, and the former ones.
func EgressAddressesInUse(e *networkv1alpha1.EgressIP) []netip.Addr {
	addresses, _ := EgressAddresses(e) // its own condition reports the error
	return append(addresses, FormerEgressAddresses(e)...)
}

// GrantedEgressAddresses returns the addresses that an EgressIP was granted, sorted. It keeps each from the time when a node first carries
// the address until its spec lacks the address and no node carries it.
func GrantedEgressAddresses(e *networkv1alpha1.EgressIP) (granted []netip.Addr) {
	texts := slices.Concat(e.Status.Former, e.Status.Held)
	for _, item := range e.Status.Items {
		texts = append(texts, item.EgressIP)
	}
	for _, text := range texts {
		if a, err := text.Addr(); err == nil {
			granted = append(granted, a)
		}
	}
	slices.SortFunc(granted, netip.Addr.Compare)
	return slices.Compact(granted)
}

// Selects reports whether an EgressIP selects pods with the given labels in a namespace with the given labels. An
// unreadable selector selects nothing and is an error that names its field.
func Selects(e *networkv1alpha1.EgressIP, namespace, pod labels.Set) (bool, error) {
	namespaces, err := metav1.LabelSelectorAsSelector(&e.Spec.NamespaceSelector)
	if err != nil {
		return false, fmt.Errorf("spec.namespaceSelector: %w", err)
	}
	pods, err := metav1.LabelSelectorAsSelector(&e.Spec.PodSelector)
	if err != nil {
		return false, fmt.Errorf("spec.podSelector: %w", err)
	}
	return namespaces.Matches(namespace) && pods.Matches(pod), nil
}

// SelectEgressIP returns the name of a pod's EgressIP: the oldest that selects the pod, then the first by name. It
// returns "" if none selects it.
func SelectEgressIP(all []networkv1alpha1.EgressIP, namespace, pod labels.Set) string {
	var chosen *networkv1alpha1.EgressIP
	for i := range all {
		if chosen != nil && !PrecedesEgressIP(&all[i], chosen) {
			continue
		}
		if selects, err := Selects(&all[i], namespace, pod); err == nil && selects {
			chosen = &all[i]
		}
	}
	if chosen == nil {
		return ""
	}
	return chosen.Name
}

// PrecedesEgressIP reports whether an EgressIP takes precedence over another: the older one does, then the first by
// name.
func PrecedesEgressIP(a, b *networkv1alpha1.EgressIP) bool {
	if x, y := a.CreationTimestamp.Time, b.CreationTimestamp.Time; !x.Equal(y) {
		return x.Before(y)
	}
	return strings.Compare(a.Name, b.Name) < 0
}
