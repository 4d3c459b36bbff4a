package migrate

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// calicoGroup is the API group of Calico's objects.
const calicoGroup = "crd.projectcalico.org"

// calicoFacts reads the mode. The networks come from the IPPools.
func (in *inspector) calicoFacts() {
	in.plan.mode, in.plan.snat = networkv1alpha1.GatewayLocal, networkv1alpha1.SNATNode
	in.report.Source.Mode = in.calicoMode()
	if i, data := in.configMap("calico-config"); i != nil {
		i.notNeeded("Calico's own settings")
		if mtu := data["veth_mtu"]; mtu != "" && mtu != "0" {
			i.note("data.veth_mtu", "%s: Weft detects the MTU, because Geneve needs more room", mtu)
		}
	}
}

func (in *inspector) calicoMode() string {
	mode := "routes without a tunnel"
	for _, o := range in.calicoObjects("IPPool") {
		spec := specOf(o)
		for key, name := range map[string]string{"ipipMode": "IP-in-IP", "vxlanMode": "VXLAN"} {
			if value := spec.text(key); value != "" && value != "Never" {
				mode = name + " " + value
			}
		}
	}
	return mode
}

// calicoObjects lists Calico's objects of a kind, of whichever API group.
func (in *inspector) calicoObjects(kind string) (found []*unstructured.Unstructured) {
	for k, objects := range in.byKind {
		if k.Kind == kind && (k.Group == calicoGroup || k.Group == "projectcalico.org") {
			found = append(found, objects...)
		}
	}
	return sorted(found)
}

// calicoPool makes an IPPool an entry of clusterNetwork, or a LoadBalancerPool. A pool from which pods get addresses
// only on request also becomes an IPPool.
func calicoPool(i *item) {
	spec := i.spec()
	uses := spec.texts("allowedUses")
	if spec.flag("disabled") {
		i.notNeeded("it is disabled")
		return
	}
	cidrs := i.in.networksOf(i.entry.Object, spec.text("cidr"))
	if len(cidrs) != 1 {
		i.cannot("its cidr cannot be read", "correct it, and run the command again")
		return
	}
	nodes, assignment := spec.text("nodeSelector"), spec.text("assignmentMode")
	i.poolFields(spec)
	workloads := len(uses) == 0
	for _, use := range uses {
		switch use {
		case "Workload":
			workloads = true
		case "LoadBalancer":
			i.loadBalancers(cidrs[0].String())
		case "Tunnel":
			i.note("spec.allowedUses", "Weft's tunnels have the nodes' own addresses")
		default:
			i.lose("spec.allowedUses", "%s has no counterpart", use)
		}
	}
	manual := nodes == "!all()" || assignment == "Manual"
	if workloads {
		i.in.plan.addPods(podNetwork{cidr: cidrs[0], pool: manual})
		i.partOf("an entry of spec.clusterNetwork")
	} else if i.entry.Outcome == "" {
		i.notNeeded("no pod gets addresses of it")
		return
	}
	switch {
	case manual:
		pool := i.pool(weftName(i.GetName()), networkv1alpha1.LocationOverlay, []string{cidrs[0].String()})
		i.entry.Next = fmt.Sprintf("set spec.namespaces of IPPool %s, and add the annotation %s: %s to the pods that named the pool",
			pool.Name, networkv1alpha1.IPPoolAnnotation, pool.Name)
		i.becomes(filePools, pool, "")
	case nodes != "" && nodes != "all()":
		i.lose("spec.nodeSelector", "%s: nodes get subnets of the first entry with a free one", nodes)
	}
	if namespaces := spec.text("namespaceSelector"); namespaces != "" && namespaces != "all()" {
		i.lose("spec.namespaceSelector", "%s: pods of all namespaces get addresses of their node's subnet", namespaces)
	}
}

// poolFields takes the fields of an IPPool that concern the way of its pods.
func (i *item) poolFields(spec fields) {
	snat := networkv1alpha1.SNATNode
	if !spec.flag("natOutgoing") {
		snat = networkv1alpha1.SNATNone
	}
	if first := len(i.in.plan.pods) == 0; first {
		i.in.plan.snat = snat
	} else if i.in.plan.snat != snat {
		i.lose("spec.natOutgoing", "%t: spec.gateway.snat holds for all pods, and is %s", snat == networkv1alpha1.SNATNode, i.in.plan.snat)
	}
	for _, key := range []string{"ipipMode", "vxlanMode"} {
		if mode := spec.text(key); mode != "" && mode != "Never" {
			i.note("spec."+key, "%s becomes Geneve", mode)
		}
	}
	if size := spec.number("blockSize"); size != 0 {
		i.note("spec.blockSize", "/%d: Weft gives each node one larger subnet", size)
	}
	spec.drop(i, "no counterpart", false, "disableBGPExport")
}

// loadBalancers makes a LoadBalancerPool.
func (i *item) loadBalancers(cidr string) {
	pool := newLoadBalancerPool(weftName(i.GetName()))
	pool.Spec.Addresses = []networkv1alpha1.LoadBalancerRange{networkv1alpha1.LoadBalancerRange(cidr)}
	pool.Spec.ServicesWithoutClass = true
	i.addLoadBalancerPool(pool)
}

// felixConfiguration names the settings of Calico's agent.
func felixConfiguration(i *item) {
	spec := i.spec()
	if spec.flag("wireguardEnabled") || spec.flag("wireguardEnabledV6") {
		i.encrypted("spec.wireguardEnabled")
	}
	if spec.has("mtu") {
		i.note("spec.mtu", "%d: Weft detects the MTU, because Geneve needs more room", spec.number("mtu"))
	}
	for _, path := range spec.rest() {
		i.note(path, "a setting of Calico's agent")
	}
	i.notNeeded("settings of Calico's agent")
}

// bgpConfiguration is needed only by those who announce routes.
func bgpConfiguration(i *item) {
	spec := i.spec()
	for _, key := range []string{"serviceClusterIPs", "serviceExternalIPs", "serviceLoadBalancerIPs", "communities", "prefixAdvertisements"} {
		if spec.has(key) {
			i.cannot("spec."+key+": "+noBGP, bgpNext)
			return
		}
	}
	if spec.has("nodeToNodeMeshEnabled") && !spec.flag("nodeToNodeMeshEnabled") {
		i.lose("spec.nodeToNodeMeshEnabled", "false: routers outside may route to pods; with Weft they need static routes, "+
			"and spec.gateway.snat: None")
	}
	i.notNeeded("nodes reach each other by Geneve")
}

// installation reads what the operator of Calico installs. The IPPools have the networks.
func installation(i *item) {
	spec := i.spec()
	network := spec.inner("calicoNetwork")
	if plane := network.text("linuxDataplane"); plane != "" {
		i.in.report.Source.Mode = strings.TrimSpace(i.in.report.Source.Mode + ", data plane " + plane)
	}
	if mtu := network.number("mtu"); mtu != 0 {
		i.note("spec.calicoNetwork.mtu", "%s: Weft detects the MTU, because Geneve needs more room", strconv.Itoa(int(mtu)))
	}
	for _, path := range spec.rest() {
		i.note(path, "a setting of the installation of Calico")
	}
	i.notNeeded("the installation of Calico")
	i.entry.Next = "delete it, and wait until Calico's operator has removed Calico"
}

// clusterInformation has Calico's version.
func clusterInformation(i *item) {
	if version := i.spec().text("calicoVersion"); version != "" && i.in.network == calico && i.in.report.Source.Version == "" {
		i.in.report.Source.Version = version
	}
	i.notNeeded("a record of Calico's state")
}

// calicoTier is not needed for the tiers that Calico makes itself.
func calicoTier(i *item) {
	switch i.GetName() {
	case "default", "adminnetworkpolicy", "baselineadminnetworkpolicy", "kube-admin", "kube-baseline":
		i.notNeeded("a tier that Calico makes itself")
	default:
		i.cannot("ClusterNetworkPolicies have two tiers, before and after NetworkPolicies", "see the entries of its policies")
	}
}
