package histories

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	ipamclaimsv1alpha1 "github.com/k8snetworkplumbingwg/ipamclaims/pkg/crd/ipamclaims/v1alpha1"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	cniv1beta1 "github.com/weft-network/weft/apis/cni/v1beta1"
	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/topology"
)

// objects are the API server's objects.
type objects struct {
	pods      []corev1.Pod
	nodes     map[string]*corev1.Node
	networks  map[string]*networkv1alpha1.NodeNetwork // by node
	cn        *networkv1alpha1.ClusterNetwork
	plan      facts.Plan      // that nodes must use
	asked     facts.Plan      // the whole spec
	recorded  map[string]bool // namespaces whose pods get a record
	services  []corev1.Service
	slices    []discoveryv1.EndpointSlice
	firewalls []networkv1alpha1.EgressFirewall
	qos       []networkv1alpha1.EgressQoS
	multicast []string // namespaces that request it
	policies  []networkingv1.NetworkPolicy
	egress    []networkv1alpha1.EgressIP
	routes    []networkv1alpha1.ExternalRoute
	balancers []networkv1alpha1.LoadBalancerPool

	bgpPeers       []networkv1alpha1.BGPPeer
	advertisements []networkv1alpha1.BGPAdvertisement

	clusterPolicies []policyv1alpha2.ClusterNetworkPolicy
	podNetworks     map[string]*networkv1alpha1.Network
	definitions     map[types.NamespacedName]*nadv1.NetworkAttachmentDefinition
	multiPolicies   []cniv1beta1.MultiNetworkPolicy
	claims          map[types.NamespacedName]*ipamclaimsv1alpha1.IPAMClaim
	claimed         map[string]types.NamespacedName // Network and address -> the claim that keeps it

	ippools     []networkv1alpha1.IPPool
	floatingIPs []networkv1alpha1.FloatingIP

	labels  map[string]labels.Set // of namespaces
	logging map[string]string     // namespace -> its logging configuration
	cluster string                // UID of kube-system
}

// read lists everything.
func (w *world) read(ctx context.Context) (*objects, error) {
	var pods corev1.PodList
	var nodes corev1.NodeList
	var networks networkv1alpha1.NodeNetworkList
	var namespaces corev1.NamespaceList
	var services corev1.ServiceList
	var endpoints discoveryv1.EndpointSliceList
	var firewalls networkv1alpha1.EgressFirewallList
	var qos networkv1alpha1.EgressQoSList
	var egress networkv1alpha1.EgressIPList
	var routes networkv1alpha1.ExternalRouteList
	var balancers networkv1alpha1.LoadBalancerPoolList
	var bgpPeers networkv1alpha1.BGPPeerList
	var advertisements networkv1alpha1.BGPAdvertisementList
	var policies networkingv1.NetworkPolicyList
	var clusterPolicies policyv1alpha2.ClusterNetworkPolicyList
	var furtherNetworks networkv1alpha1.NetworkList
	var nads nadv1.NetworkAttachmentDefinitionList
	var multi cniv1beta1.MultiNetworkPolicyList
	var claims ipamclaimsv1alpha1.IPAMClaimList
	var pools networkv1alpha1.IPPoolList
	var ips networkv1alpha1.FloatingIPList
	err := errors.Join(w.api.List(ctx, &pools), w.api.List(ctx, &ips), w.api.List(ctx, &multi), w.api.List(ctx, &claims),
		w.api.List(ctx, &furtherNetworks), w.api.List(ctx, &nads), w.api.List(ctx, &clusterPolicies),
		w.api.List(ctx, &policies), w.api.List(ctx, &egress), w.api.List(ctx, &routes), w.api.List(ctx, &balancers),
		w.api.List(ctx, &bgpPeers), w.api.List(ctx, &advertisements), w.api.List(ctx, &qos),
		w.api.List(ctx, &firewalls), w.api.List(ctx, &services), w.api.List(ctx, &endpoints), w.api.List(ctx, &pods),
		w.api.List(ctx, &nodes), w.api.List(ctx, &networks), w.api.List(ctx, &namespaces))
	if err != nil {
		return nil, err
	}
	o := &objects{nodes: map[string]*corev1.Node{}, networks: map[string]*networkv1alpha1.NodeNetwork{},
		recorded: map[string]bool{}, logging: map[string]string{}}
	o.readNetworks(furtherNetworks, nads)
	o.readClaims(claims)
	o.policies, o.clusterPolicies, o.multiPolicies = policies.Items, clusterPolicies.Items, multi.Items
	o.balancers, o.bgpPeers, o.advertisements = balancers.Items, bgpPeers.Items, advertisements.Items
	o.qos, o.routes = qos.Items, routes.Items
	o.egress, o.labels = egress.Items, map[string]labels.Set{}
	o.ippools, o.floatingIPs = pools.Items, ips.Items
	o.pods, o.services, o.slices, o.firewalls = pods.Items, services.Items, endpoints.Items, firewalls.Items
	for i := range nodes.Items {
		o.nodes[nodes.Items[i].Name] = &nodes.Items[i]
	}
	for i := range networks.Items {
		o.networks[networks.Items[i].Name] = &networks.Items[i]
	}
	for _, namespace := range namespaces.Items {
		o.labels[namespace.Name] = namespace.Labels
		o.logging[namespace.Name] = namespace.Annotations[networkv1alpha1.ACLLoggingAnnotation]
		o.recorded[namespace.Name] = namespace.Annotations[networkv1alpha1.PodRecordAnnotation] == "true"
		if requested, err := networkv1alpha1.ParseMulticast(namespace.Annotations); requested && err == nil {
			o.multicast = append(o.multicast, namespace.Name)
		}
		if namespace.Name == metav1.NamespaceSystem {
			o.cluster = string(namespace.UID)
		}
	}
	o.cn = &networkv1alpha1.ClusterNetwork{}
	if err := w.api.Get(ctx, types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, o.cn); apierrors.IsNotFound(err) {
		return nil, errors.New("no ClusterNetwork exists")
	} else if err != nil {
		return nil, err
	}
	if o.asked, err = facts.ParseClusterNetwork(o.cn); err == nil {
		o.plan, err = facts.PlanInForce(o.cn)
	}
	o.plan.Routed = len(o.routes) > 0
	o.plan.Floating = append(floating.Overlay(o.ippools), o.heldOutside()...)
	return o, err
}

// heldOutside returns the addresses that pods, workloads or reservations still have of a pool that was deleted, or recreated elsewhere.
func (o *objects) heldOutside() (held []netip.Prefix) {
	for i := range o.floatingIPs {
		f := &o.floatingIPs[i]
		address, err := netip.ParseAddr(string(f.Spec.Address))
		inside := slices.ContainsFunc(o.ippools, func(pool networkv1alpha1.IPPool) bool {
			read, err := floating.ParsePool(&pool)
			_, inside := read.SegmentOf(address)
			return err == nil && pool.Name == f.Spec.Pool && inside
		})
		if _, reserved := f.Labels[networkv1alpha1.ReservedLabel]; err == nil && (f.Spec.Holder != nil || reserved) && !inside {
			held = append(held, netip.PrefixFrom(address, address.BitLen()))
		}
	}
	return held
}

// hasOwnInterface reports whether a pod must have a port as soon as its node can serve it.
func hasOwnInterface(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && !pod.Spec.HostNetwork && pod.Status.Phase != corev1.PodSucceeded &&
		pod.Status.Phase != corev1.PodFailed
}

// interfaceUID returns the UID in the CNI request. For a static pod that is the hash of its file.
func interfaceUID(pod *corev1.Pod) string {
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return pod.Annotations["kubernetes.io/config.hash"]
	}
	return string(pod.UID)
}

// podPort is a pod's assignment as read from its port.
type podPort struct {
	id        string
	mac       string
	addresses []netip.Addr
	slot      int
	chassis   string
}

// findPort finds the port with a pod's own UID.
func findPort(rows database, pod *corev1.Pod) (podPort, bool) {
	id := topology.PodPortUUID(pod.Namespace, pod.Name, interfaceUID(pod))
	r, ok := rows["Logical_Switch_Port"][id]
	if !ok {
		return podPort{}, false
	}
	port, err := parsePort(id, r)
	return port, err == nil && len(port.addresses) > 0
}

func parsePort(id string, r row) (podPort, error) {
	options := mapOf(r["options"])
	port := podPort{id: id, chassis: options["requested-chassis"]}
	text := atoms(r["addresses"])
	if len(text) != 1 {
		return port, fmt.Errorf("unexpected addresses %q", text)
	}
	address, err := ovnexpr.ParsePortAddress(text[0])
	if err != nil {
		return port, err
	}
	port.mac, port.addresses = address.MAC.String(), address.Addresses
	port.slot, err = strconv.Atoi(options["requested-tnl-key"])
	return port, err
}

// reported returns the addresses that a pod reported.
func reported(pod *corev1.Pod) []netip.Addr {
	var found []netip.Addr
	for _, ip := range pod.Status.PodIPs {
		if a, err := netip.ParseAddr(ip.IP); err == nil {
			found = append(found, a)
		}
	}
	return found
}

// within reports whether every address is in one of the subnets.
func within(addresses []netip.Addr, subnets []netip.Prefix) bool {
	for _, a := range addresses {
		if !slices.ContainsFunc(subnets, func(s netip.Prefix) bool { return s.Contains(a) }) {
			return false
		}
	}
	return true
}
