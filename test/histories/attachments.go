package histories

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/podcondition"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// secondary is what the oracle derives for pods' secondary networks.
type secondary struct {
	parsed map[string]facts.PodNetwork // valid Networks
	frozen map[unit.Key]bool           // units that must stay as they are in the database
	// taken is what ports have, by Network: addresses, and per switch MACs and tunnel keys.
	taken map[string]string
	count map[string]int32  // Network -> ports
	holds map[string]string // Network and address -> the pod whose port has it
}

// attachment is one request of a pod with what serves it.
type attachment struct {
	pod     *corev1.Pod
	node    facts.Node
	request networks.Request
	network string
	pools   []alloc.Pool
}

// uuid returns the UUID of the attachment's port on a Network.
func (a attachment) uuid(network string) string {
	return topology.NetworkPortUUID(names.NetworkPort(network, a.pod.Namespace, a.pod.Name, a.request.Interface), interfaceUID(a.pod))
}

// expectNetworks expects the rows of Networks and of the pods' ports on them, and checks what ports are assigned.
func (o *oracle) expectNetworks() {
	o.secondary = secondary{parsed: map[string]facts.PodNetwork{}, frozen: map[unit.Key]bool{}, taken: map[string]string{},
		count: map[string]int32{}, holds: map[string]string{}}
	for _, r := range o.rows["Logical_Switch_Port"] {
		owner, network := unit.Key(ownerOf(r)), mapOf(r["external_ids"])[ovnexpr.NetworkKey]
		if owner.Kind() != topology.KindPodPorts {
			continue
		}
		o.count[network]++
		for _, address := range networkAddresses(r) {
			o.holds[network+" "+address] = owner.Name()
		}
	}
	for name, n := range o.podNetworks {
		read, err := facts.ParseNetwork(n)
		if err != nil {
			o.frozen[topology.PodNetworkKey(name)] = true
			for node := range o.networks {
				o.frozen[topology.PodNetworkNodeKey(name, node)] = true
			}
			continue
		}
		read.MTU = int(facts.NetworkMTU(n, facts.CarriedMTUsOf(n, o.cn.Spec.Encapsulation.Encryption, o.nodeNetworks())))
		o.parsed[name] = read
		o.units = append(o.units, topology.PodNetworkUnit(read))
		o.expectParts(read)
	}
	var without []attachment
	for i := range o.pods {
		without = append(without, o.expectPorts(&o.pods[i])...)
	}
	for _, a := range without {
		if o.isPossible(a) {
			o.complain("pod %s/%s has no port for %s on Network %s, which has what it requests", a.pod.Namespace, a.pod.Name,
				a.request, a.network)
		}
	}
}

// expectParts expects each node's part of a Layer3 Network.
func (o *oracle) expectParts(n facts.PodNetwork) {
	for name, nn := range o.networks {
		pools, err := n.Pools(name, int(nn.Spec.NodeID))
		if !n.PerNode() || err != nil {
			continue
		}
		var subnets []netip.Prefix
		for _, pool := range pools {
			subnets = append(subnets, pool.Subnet)
		}
		o.units = append(o.units, topology.PodNetworkNodeUnit(n, name, subnets))
	}
}

// expectPorts expects the ports of a pod on Networks, and checks its condition. It returns what the pod requests and does not have.
func (o *oracle) expectPorts(pod *corev1.Pod) (without []attachment) {
	key := topology.PodPortsKey(pod.Namespace, pod.Name)
	node, ok := o.nodesOf[pod.Spec.NodeName]
	if !hasOwnInterface(pod) || pod.Annotations[networks.Annotation] == "" {
		o.checkRequests(pod, "", nil)
		return nil
	}
	if ok && o.elsewhere(node.Name) {
		o.checkRequests(pod, networkv1alpha1.ReasonInvalidRequest, []string{"attaches no secondary networks"})
		return nil
	}
	if !ok || node.Chassis == "" {
		o.frozen[key] = ok
		return nil
	}
	requests, err := networks.Parse(pod.Annotations, pod.Namespace)
	if err != nil {
		o.frozen[key] = true
		o.checkRequests(pod, networkv1alpha1.ReasonInvalidRequest, []string{err.Error()})
		return nil
	}
	var ports []topology.PodPort
	var failed []string
	for _, request := range requests {
		a := attachment{pod: pod, node: node, request: request}
		if a.network = o.networkOf(a); a.network == "" {
			if o.isFailing(request) {
				failed = append(failed, request.String())
			}
			continue
		}
		if port, ok := o.assigned(&a); ok {
			if ports = append(ports, port); o.apart(a) {
				failed = append(failed, request.String())
				o.checkReached(a)
			}
		} else {
			failed, without = append(failed, request.String()), append(without, a)
		}
	}
	if o.isFrozen(pod, node, requests) { // new requests wait for the Network to be valid again
		o.frozen[key] = true
		o.checkRequests(pod, networkv1alpha1.ReasonNotAllocated, o.withoutPort(pod, node, requests))
		return nil
	}
	o.checkRequests(pod, networkv1alpha1.ReasonNotAllocated, failed)
	o.units = append(o.units, topology.PodPortsUnit(pod.Namespace, pod.Name, ports))
	return without
}

// isFrozen reports whether a pod has a port on a Network that is invalid now.
func (o *oracle) isFrozen(pod *corev1.Pod, node facts.Node, requests []networks.Request) bool {
	return slices.ContainsFunc(requests, func(request networks.Request) bool {
		a := attachment{pod: pod, node: node, request: request}
		network := o.networkOf(a)
		return o.frozen[topology.PodNetworkKey(network)] && o.portOf(a, network) != nil && o.isKept(a, network)
	})
}

// withoutPort lists the requests for which a pod has no port.
func (o *oracle) withoutPort(pod *corev1.Pod, node facts.Node, requests []networks.Request) (without []string) {
	for _, request := range requests {
		a := attachment{pod: pod, node: node, request: request}
		if network := o.networkOf(a); network == "" && o.isFailing(request) || network != "" && o.portOf(a, network) == nil {
			without = append(without, request.String())
		}
	}
	return without
}

// networkOf returns the Network that a request attaches to: that of its definition or, if the definition cannot be read or is another
// plugin's, of the port that the pod has for this request. It is empty for a request that no Network serves.
func (o *oracle) networkOf(a attachment) string {
	nad := o.definitions[a.request.Definition()]
	if nad != nil {
		if definition, err := networks.ParseDefinition(nad); err == nil && definition.Network != "" {
			return definition.Network
		}
	}
	for name := range o.podNetworks {
		if o.portOf(a, name) != nil {
			return name
		}
	}
	return ""
}

// isFailing reports whether a request without a Network cannot be granted, rather than is another plugin's.
func (o *oracle) isFailing(request networks.Request) bool {
	nad := o.definitions[request.Definition()]
	if nad == nil {
		return true
	}
	_, err := networks.ParseDefinition(nad)
	return err != nil
}

// portOf returns the port that a pod has for a request on a Network, or nil.
func (o *oracle) portOf(a attachment, network string) row {
	r := o.rows["Logical_Switch_Port"][a.uuid(network)]
	if mapOf(r["external_ids"])[ovnexpr.RequestKey] != a.request.Hash() {
		return nil
	}
	return r
}

// isKept reports whether a pod may have a port on a Network: its namespace is selected, or was when the port may have been made.
func (o *oracle) isKept(a attachment, network string) bool {
	return o.isAllowed(network, a.pod.Namespace) ||
		o.podNetworks[network] != nil && o.portOf(a, network) != nil && o.everSelected[network+"/"+a.pod.Namespace]
}

// isAllowed reports whether the pods of a namespace may attach to a Network.
func (o *oracle) isAllowed(network, namespace string) bool {
	n := o.podNetworks[network]
	if n == nil {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(n.Spec.Namespaces)
	return err == nil && selector.Matches(o.labels[namespace])
}

// assigned returns the port that a pod must have, with the assignment of its row; ok is false without a row, or if none is allowed.
func (o *oracle) assigned(a *attachment) (port topology.PodPort, ok bool) {
	n, valid := o.parsed[a.network]
	if !valid || !o.isKept(*a, a.network) || len(a.request.Element.PortMappingsRequest) > 0 {
		return port, false
	}
	var err error
	if a.pools, err = n.Pools(a.node.Name, int(o.networks[a.node.Name].Spec.NodeID)); err != nil {
		return port, false
	}
	r := o.portOf(*a, a.network)
	if r == nil {
		return port, false
	}
	port = topology.PodPort{Namespace: a.pod.Namespace, Name: a.pod.Name, UID: interfaceUID(a.pod), Node: a.node.Name,
		Chassis: a.node.Chassis, Network: n, Interface: a.request.Interface, Request: a.request.Hash(), Gateways: a.request.DefaultRoute,
		Selected: o.selectedOn(a.pod, a.network)}
	if b := a.request.Element.BandwidthRequest; b != nil {
		port.Bandwidth = networkv1alpha1.Bandwidth{Ingress: int64(b.IngressRate), Egress: int64(b.EgressRate)}
	}
	o.readAssignment(a, r, &port)
	return port, true
}

// readAssignment completes a port with what its row has, and checks that.
func (o *oracle) readAssignment(a *attachment, r row, port *topology.PodPort) {
	texts := slices.DeleteFunc(atoms(r["addresses"]), func(text string) bool { return text == "unknown" })
	if len(texts) != 1 {
		o.complain("port of %s of pod %s/%s has addresses %q", a.request, port.Namespace, port.Name, texts)
		return
	}
	have, err := ovnexpr.ParsePortAddress(texts[0])
	if err != nil {
		o.complain("port of %s of pod %s/%s: %w", a.request, port.Namespace, port.Name, err)
		return
	}
	port.MAC = have.MAC
	_, _ = fmt.Sscan(mapOf(r["options"])["requested-tnl-key"], &port.Slot) // absent on a Network without addresses
	for _, address := range have.Addresses {
		i := slices.IndexFunc(a.pools, func(p alloc.Pool) bool { return p.Subnet.Contains(address) })
		if i < 0 {
			o.complain("pod %s/%s has %s for %s, which is in no subnet of Network %s on node %s", port.Namespace, port.Name, address,
				a.request, a.network, a.node.Name)
			return
		}
		port.Addresses = append(port.Addresses, netip.PrefixFrom(address, a.pools[i].Subnet.Bits()))
	}
	o.checkPort(a, *port)
	o.checkClaimed(*a, *port)
}

// checkPort checks that an assignment is what was requested, complete, and no other port's.
func (o *oracle) checkPort(a *attachment, port topology.PodPort) {
	who := fmt.Sprintf("%s/%s %s", port.Namespace, port.Name, a.request)
	// A Network that was given another family leaves living attachments as they are.
	if len(port.Addresses) > len(a.pools) || (len(port.Addresses) == 0) != (len(a.pools) == 0) {
		o.complain("%s has addresses %v on a Network with %d subnets", who, port.Addresses, len(a.pools))
	}
	for _, want := range a.request.Addresses {
		if !slices.ContainsFunc(port.Addresses, func(p netip.Prefix) bool { return p.Addr() == want.Addr() }) {
			o.complain("%s has %v instead of the requested %s", who, port.Addresses, want)
		}
	}
	if want := a.request.MAC; want != nil && want.String() != port.MAC.String() {
		o.complain("%s has the MAC %s instead of the requested %s", who, port.MAC, want)
	}
	on := port.Network.Switch(port.Node)
	keys := []string{on + " " + port.MAC.String(), fmt.Sprintf("%s key %d", on, port.Slot)}
	if len(a.pools) == 0 {
		keys = keys[:1] // northd chooses the key
	} else if port.Slot < alloc.FirstSlot || port.Slot > alloc.LastSlot {
		o.complain("%s requests tunnel key %d", who, port.Slot)
	}
	for _, address := range port.Addresses {
		keys = append(keys, a.network+" "+address.Addr().String())
	}
	for _, key := range keys {
		if other := o.taken[key]; other != "" {
			o.complain("%s and %s both have %s", other, who, key)
		}
		o.taken[key] = who
	}
}

// isPossible reports whether a request without a port could be granted.
func (o *oracle) isPossible(a attachment) bool {
	n, valid := o.parsed[a.network]
	if !valid || !o.isAllowed(a.network, a.pod.Namespace) || len(a.request.Element.PortMappingsRequest) > 0 {
		return false
	}
	pools, err := n.Pools(a.node.Name, int(o.networks[a.node.Name].Spec.NodeID))
	if err != nil || len(pools) == 0 && len(a.request.Addresses) > 0 || o.apart(a) || o.leaves(a) {
		return false
	}
	if a.request.Element.IPAMClaimReference != "" && !o.canClaim(a, n, pools) {
		return false
	}
	mac := a.request.MAC
	if mac != nil && (len(pools) > 0 && ipam.CheckMAC(mac) != nil || o.taken[n.Switch(a.node.Name)+" "+mac.String()] != "") {
		return false
	}
	granted := 0
	for _, pool := range pools {
		requested := slices.IndexFunc(a.request.Addresses, func(p netip.Prefix) bool { return p.Addr().Is4() == pool.Subnet.Addr().Is4() })
		if requested < 0 {
			if !o.hasFree(a.network, pool) {
				return false
			}
			continue
		}
		want := a.request.Addresses[requested]
		if !want.IsSingleIP() && want.Bits() != pool.Subnet.Bits() || !o.isFree(a.network, pool, want.Addr()) {
			return false
		}
		granted++
	}
	return granted == len(a.request.Addresses)
}

// hasFree reports whether a pool has an address that nobody has. Only the first are tried.
func (o *oracle) hasFree(network string, pool alloc.Pool) bool {
	address := pool.Subnet.Addr()
	for range 64 {
		if o.isFree(network, pool, address) {
			return true
		}
		address = address.Next()
	}
	return false
}

// isFree reports whether a pod could be given an address.
func (o *oracle) isFree(network string, pool alloc.Pool, address netip.Addr) bool {
	first := ipam.FirstPod(pool.Subnet)
	if pool.Whole {
		first = ipam.Gateway(pool.Subnet)
	}
	excluded := slices.ContainsFunc(pool.Exclude, func(p netip.Prefix) bool { return p.Contains(address) })
	broadcast := address.Is4() && !pool.Subnet.Contains(address.Next())
	return pool.Subnet.Contains(address) && !address.Less(first) && !broadcast && !excluded && o.taken[network+" "+address.String()] == "" &&
		o.claimed[network+" "+address.String()] == (types.NamespacedName{})
}

// checkRequests checks that a pod's condition names what fails, and only that.
func (o *oracle) checkRequests(pod *corev1.Pod, reason string, failed []string) {
	c := podcondition.Find(pod, networkv1alpha1.PodNetworksAllocated)
	if len(failed) == 0 {
		if c != nil && c.Status != corev1.ConditionTrue {
			o.complain("pod %s/%s has condition %+v although nothing fails", pod.Namespace, pod.Name, c)
		}
		return
	}
	if c == nil || c.Status != corev1.ConditionFalse || c.Reason != reason {
		o.complain("pod %s/%s has condition %+v, want %s of %q", pod.Namespace, pod.Name, c, reason, failed)
		return
	}
	for _, text := range failed {
		if !strings.Contains(c.Message, text) {
			o.complain("condition %q of pod %s/%s does not name %q", c.Message, pod.Namespace, pod.Name, text)
		}
	}
}

// checkPodNetworks checks the status and the definitions of each Network.
func (o *oracle) checkPodNetworks() {
	for name, n := range o.podNetworks {
		want := networkv1alpha1.ReasonAsExpected
		if o.isOutgrown(name) {
			want = networkv1alpha1.ReasonNamespacesInUse
		}
		if read, valid := o.parsed[name]; valid && int32(read.MTU) != n.Spec.MTU {
			want = networkv1alpha1.ReasonMTUMismatch
		}
		if !o.isConnected(n) {
			want = networkv1alpha1.ReasonPhysicalNetworkUnknown
		}
		if foreign := o.checkDefinitions(n); len(foreign) > 0 {
			want = networkv1alpha1.ReasonDefinitionExists
		}
		if _, valid := o.parsed[name]; !valid {
			want = networkv1alpha1.ReasonInvalidSpec
		}
		c := meta.FindStatusCondition(n.Status.Conditions, networkv1alpha1.ConditionReady)
		if c == nil || c.Reason != want || c.ObservedGeneration != n.Generation {
			o.complain("Network %s of generation %d has condition %+v, want %s", name, n.Generation, c, want)
		}
		if n.Status.Attachments != o.count[name] {
			o.complain("Network %s counts %d attachments, there are %d ports", name, n.Status.Attachments, o.count[name])
		}
	}
}

// isOutgrown reports whether a Network has ports of pods in namespaces that it does not select.
func (o *oracle) isOutgrown(network string) bool {
	for _, r := range o.rows["Logical_Switch_Port"] {
		owner := unit.Key(ownerOf(r))
		namespace, _, _ := strings.Cut(owner.Name(), "/")
		if _, exists := o.labels[namespace]; exists && owner.Kind() == topology.KindPodPorts &&
			mapOf(r["external_ids"])[ovnexpr.NetworkKey] == network && !o.isAllowed(network, namespace) {
			return true
		}
	}
	return false
}

// checkDefinitions checks the definitions of a valid Network. It returns the namespaces where another author has its name.
func (o *oracle) checkDefinitions(n *networkv1alpha1.Network) (foreign []string) {
	if _, valid := o.parsed[n.Name]; !valid {
		return nil
	}
	for _, namespace := range slices.Sorted(maps.Keys(o.labels)) {
		nad := o.definitions[types.NamespacedName{Namespace: namespace, Name: n.Name}]
		ours := nad != nil && nad.Labels[networkv1alpha1.NetworkLabel] == n.Name
		switch {
		case !o.isAllowed(n.Name, namespace) && ours:
			o.complain("Network %s has a definition in namespace %s, which it does not select", n.Name, namespace)
		case !o.isAllowed(n.Name, namespace):
		case nad == nil:
			o.complain("Network %s has no definition in namespace %s", n.Name, namespace)
		case !ours:
			foreign = append(foreign, namespace)
		case nad.Spec.Config != networks.ConfigOf(n.Name) || !metav1.IsControlledBy(nad, n):
			o.complain("the definition of Network %s in namespace %s is %+v", n.Name, namespace, nad)
		}
	}
	return foreign
}

// readNetworks indexes Networks and definitions by name.
func (o *objects) readNetworks(all networkv1alpha1.NetworkList, nads nadv1.NetworkAttachmentDefinitionList) {
	o.podNetworks, o.definitions = map[string]*networkv1alpha1.Network{}, map[types.NamespacedName]*nadv1.NetworkAttachmentDefinition{}
	for i := range all.Items {
		o.podNetworks[all.Items[i].Name] = &all.Items[i]
	}
	for i := range nads.Items {
		nad := &nads.Items[i]
		o.definitions[types.NamespacedName{Namespace: nad.Namespace, Name: nad.Name}] = nad
	}
}
