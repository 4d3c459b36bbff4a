package health

import (
	"fmt"
	"strings"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ports"
)

// Reasons that only readers of the status can determine.
const (
	// ReasonNoLeader means that the network has no operator at work.
	ReasonNoLeader = "NoLeader"
	// ReasonAPIServerUnreachable means that weft-operands cannot reach the API server, and so creates no operator.
	ReasonAPIServerUnreachable = "APIServerUnreachable"
	// ReasonNotObserved means that the operator has not seen the spec yet.
	ReasonNotObserved = "NotObserved"
	// ReasonRolloutIncomplete means that pods of a workload of Weft do not run as its template says yet.
	ReasonRolloutIncomplete = "RolloutIncomplete"
	// ReasonRolloutStopped means that such pods cannot run.
	ReasonRolloutStopped = "RolloutStopped"
)

// Where the logs of a node's daemons are: where Weft runs them, and where the host does.
const (
	ControllerLog = "container controller of the node's pod weft-ovn-controller-* in weft-system, " +
		"or /var/log/ovn/ovn-controller.log if Weft does not run OVN"
	SwitchLog = "container vswitchd of the node's pod weft-ovs-* in weft-system, " +
		"or /var/log/openvswitch/ovs-vswitchd.log if Weft does not run OVN"
)

// APIServerConfigMap is the ConfigMap in Weft's namespace whose keys host and port are the address at which
// weft-operands reaches the API server. Without it, weft-operands uses the cluster IP.
const APIServerConfigMap = "weft-apiserver"

// nextSteps maps reasons to instructions. NODE stands for the node of the problem.
var nextSteps = map[string]string{
	ReasonNoLeader: "see the operator's pod and its log: kubectl -n weft-system describe pods -l app.kubernetes.io/component=operator",
	ReasonAPIServerUnreachable: "kubectl -n weft-system create configmap " + APIServerConfigMap +
		" --from-literal=host=ADDRESS --from-literal=port=PORT, " +
		"an API server's own address that all nodes reach; then kubectl -n weft-system rollout restart deployment/weft-operands",
	ReasonNotObserved:                 "none, unless it stays",
	ReasonRolloutIncomplete:           "none, unless it stays: kubectl -n weft-system get pods -o wide",
	ReasonRolloutStopped:              "see the pod's events and log, and correct its workload: kubectl -n weft-system get pods -o wide",
	networkv1alpha1.ReasonInvalidSpec: "correct the spec as the message says",
	networkv1alpha1.ReasonNetworkOverlapsNodes: "change the network with the state Held in status.networks; its field " +
		"can be changed. If the network is in force, give the node another address",
	networkv1alpha1.ReasonInvalidAnnotation: "correct the annotation as the message says; until then it counts as absent",
	networkv1alpha1.ReasonDefinitionExists: "remove the NetworkAttachmentDefinitions that the message names, " +
		"or give the Network another name",
	networkv1alpha1.ReasonInvalidRequest: "correct the annotation as the message says; " +
		"until then a pod keeps its networks, and a Service its addresses",
	networkv1alpha1.ReasonNotAllocated: "do what the message says of each request; the pod's other networks work",
	networkv1alpha1.ReasonNotAttached:  "do what the message says of each request; the node retries by itself",
	networkv1alpha1.ReasonReserved: "give the pod or service another port or address; the message " +
		"names the owner of the requested one",
	networkv1alpha1.ReasonDatabaseUnavailable: "check that the database's server runs and is reachable: the " +
		"log of the operator or the agent has each server's answer. A server of Weft: kubectl -n weft-system get pods -l " +
		"app.kubernetes.io/component=central; if its file is damaged: docs/user/databases.md. Weft reconnects by itself",
	networkv1alpha1.ReasonMembersUnplaced: "add a node; Weft then creates the member there. Until then the " +
		"loss of one more node stops all changes",
	networkv1alpha1.ReasonMemberUnavailable: "find out why the member's pod does not work: kubectl -n weft-system " +
		"get pods -o wide | grep weft-central. If the node does not come back, delete its " +
		"Node: Weft then creates the member on another node",
	networkv1alpha1.ReasonMembersStarting: "none, unless it stays: kubectl -n weft-system get pods -o wide | " +
		"grep weft-central",
	networkv1alpha1.ReasonMembersLeaving: "none, unless it stays: the log of weft-operands says what the members answer",
	networkv1alpha1.ReasonQuorumLost: "bring back the nodes of the members that the message names: " +
		"two of three must reach each other. Do not delete their disks",
	networkv1alpha1.ReasonMembersConflict: "remove the database's file from the node with the wrong " +
		"cluster: docs/user/databases.md, Members",
	networkv1alpha1.ReasonRelayUnavailable: "find out why the relay's pod does not work: kubectl -n weft-system get pods -o wide " +
		"shows weft-relay-*. If the node does not come back, delete its Node: Weft then starts the relay on another node",
	networkv1alpha1.ReasonRelaysLost: "find out why no relay's pod works: kubectl -n weft-system get pods -o wide " +
		"shows weft-relay-* and weft-relay-source-*. With databases.relays.count 0 nodes use the database itself",
	networkv1alpha1.ReasonRelaysStarting: "none, unless it stays: kubectl -n weft-system get pods -o wide " +
		"shows weft-relay-* and weft-relay-source-*",
	networkv1alpha1.ReasonRelaysUnplaced: "add nodes, label nodes as databases.relays.nodeSelector requires, " +
		"or lower databases.relays.count, in spec or of the zone",
	networkv1alpha1.ReasonZoneUnavailable: "find out why a pod of the zone, weft-central-* or weft-operator-*, does not work: " +
		"kubectl -n weft-system get pods -o wide",
	networkv1alpha1.ReasonZoneStarting: "none, unless it stays: kubectl -n weft-system get pods -o wide " +
		"shows weft-central-* and weft-operator-*",
	networkv1alpha1.ReasonDatabaseSchemaTooOld: "upgrade the schema of OVN's database with ovsdb-client convert; " +
		"Weft then continues by itself",
	networkv1alpha1.ReasonDatabaseError: "do what the message says, in the OVN northbound database; " +
		"kubectl weft drift shows the rows that are missing there",
	networkv1alpha1.ReasonDatabaseRefused: "remove the obstacle in the OVN northbound database, such " +
		"as a foreign row of the same name; Weft retries at least every 30 s",
	networkv1alpha1.ReasonNorthdSilent: "see that ovn-northd runs, is not paused and has both " +
		"databases: ovn-appctl -t ovn-northd status",
	networkv1alpha1.ReasonChangesNotInstalled: "search the log of ovn-northd for \"commit failed\": then the southbound database's file " +
		"cannot be written, as on a full disk; if not, find the slow node as in docs/runbooks/WeftSlowPropagation.md",
	networkv1alpha1.ReasonPodsOutdated: "recreate the pods that ClusterNetwork's status.outdatedPods names; " +
		"docs/user/change-networks.md",
	networkv1alpha1.ReasonNetworkLeaving: "recreate the pods with addresses of the network, or append " +
		"it to spec.clusterNetwork again; docs/user/change-networks.md",
	networkv1alpha1.ReasonSubnetsExhausted:   "append an entry to ClusterNetwork's spec.clusterNetwork",
	networkv1alpha1.ReasonAddressesExhausted: "move pods away from NODE, or lower kubelet's maxPods below the node's addresses",
	networkv1alpha1.ReasonDrift: "kubectl weft drift shows the rows; set ClusterNetwork's " +
		"spec.drift.mode to Repair, or remove the foreign rows",
	networkv1alpha1.ReasonInvariantViolated: "kubectl weft check lists all violations; report them with the output of kubectl weft bundle",
	networkv1alpha1.ReasonMTUMismatch: "make the links' MTUs equal, or set spec.mtu of the ClusterNetwork, or of the " +
		"Network, to the smallest",
	networkv1alpha1.ReasonServiceNetworkMismatch: "make ClusterNetwork's spec.serviceNetwork and the API server's " +
		"--service-cluster-ip-range agree",
	networkv1alpha1.ReasonNodeLost: "find out why kubelet is silent on NODE: kubectl describe node NODE",
	networkv1alpha1.ReasonTunnelSilent: fmt.Sprintf("check that UDP port %d passes between NODE "+
		"and the other nodes both ways, and that NODE's own firewall accepts TCP port %d on ovn-k8s-mp0",
		ports.Geneve, ports.AgentHealth),
	networkv1alpha1.ReasonAgentUnavailable: "kubectl -n weft-system describe pods -l " +
		"app.kubernetes.io/component=agent --field-selector spec.nodeName=NODE",
	networkv1alpha1.ReasonAgentStarting: "none, unless it stays: kubectl -n weft-system get pods -l " +
		"app.kubernetes.io/component=agent -o wide --field-selector spec.nodeName=NODE",
	networkv1alpha1.ReasonVersionsDiffer: "none, unless it stays: kubectl -n weft-system get pods -l " +
		"app.kubernetes.io/component=agent -o wide",
	networkv1alpha1.ReasonUpgrading:      "none, unless it stays: the upgrade stops by itself when a replaced part does not work",
	networkv1alpha1.ReasonUpgradeBlocked: "do what the message says, or give Deployment weft-operands its previous image again",
	networkv1alpha1.ReasonUpgradeStopped: "find out why the message's object does not work; the upgrade continues when " +
		"it does. To go back: give Deployment weft-operands its previous image again",
	networkv1alpha1.ReasonWaitingForAgent: "none, unless it stays: kubectl -n weft-system get pods -l " +
		"app.kubernetes.io/component=agent -o wide --field-selector spec.nodeName=NODE",
	networkv1alpha1.ReasonWaitingForSpec: "none, unless it stays: the operator's log says why NODE has no subnet",
	networkv1alpha1.ReasonWaitingForChassis: "none, unless it stays: check ovn-controller on NODE, and that it " +
		"reaches the OVN southbound database",
	networkv1alpha1.ReasonWaitingForTopology:    "none, unless it stays: check that ovn-northd runs, and ovn-controller on NODE",
	networkv1alpha1.ReasonControllerUnavailable: "start ovn-controller on NODE again, unless it restarts; its log: " + ControllerLog,
	networkv1alpha1.ReasonSwitchUnavailable:     "start ovs-vswitchd on NODE again, unless it restarts; its log: " + SwitchLog,
	networkv1alpha1.ReasonHostError:             "do what the message says on NODE; the agent retries by itself",
	networkv1alpha1.ReasonForeignChanges: "make the program that the message names leave the objects of Weft on NODE alone: " +
		"docs/user/host.md, Repairs",
	networkv1alpha1.ReasonForwardingBlocked: "add the rules of the message to the firewall of NODE, also to the files from which it is " +
		"loaded: docs/user/host.md, Firewalls of the host",
	networkv1alpha1.ReasonNoUplink: "put the link of NODE on a bridge, name one in ClusterNetwork's " +
		"spec.gateway.interface, or choose spec.gateway.mode Local",
	networkv1alpha1.ReasonNextHopsUnusable: "correct the next hops that the message names: ClusterNetwork's " +
		"spec.gateway.nextHops must be on the segment of the link of NODE",
	networkv1alpha1.ReasonUnsupportedDatapath: "load the kernel's module openvswitch on NODE, and delete its pod of weft-ovs",
	networkv1alpha1.ReasonNoIKEDaemon: "see the pod of NODE and its log: kubectl -n weft-system get pods -l " +
		"app.kubernetes.io/component=ike -o wide",
	networkv1alpha1.ReasonNoIdentity: "see the pod of NODE and its log: kubectl -n weft-system get pods -l " +
		"app.kubernetes.io/component=ovn-controller -o wide",
	networkv1alpha1.ReasonPeersNotEncrypted: "open UDP port 500 and IP protocol 50 between NODE and the nodes in the message, " +
		"and end what deletes IPsec policies on NODE",
	networkv1alpha1.ReasonAddressConflict: "give one of the two that the message names another address",
	networkv1alpha1.ReasonUplinkWaiting:   "none: other nodes move first (spec.gateway.maxMoving)",
	networkv1alpha1.ReasonUplinkMoving:    "none: a move takes up to a minute, and is rolled back if it fails",
	networkv1alpha1.ReasonUplinkRefused:   "do what the message says on NODE; nothing was changed there",
	networkv1alpha1.ReasonUplinkRolledBack: "find out why the message's peer did not respond through the bridge, then " +
		"restart the agent of NODE; other nodes wait for it",
	networkv1alpha1.ReasonNoPortAddress:  "put a network of NODE's addresses into ClusterNetwork's spec.gateway.nodePortAddresses",
	networkv1alpha1.ReasonGatewayWaiting: "none: other nodes get the changed spec.gateway first (spec.gateway.maxMoving)",
	networkv1alpha1.ReasonGatewayStopped: "correct the fields that the message names in ClusterNetwork's spec.gateway, or give the node " +
		"other values by spec.gateway.overrides; the other nodes then go on",
	networkv1alpha1.ReasonPhysicalNetworkMissing: "give NODE the link or bridge that the message names, or change " +
		"nodeSelector in ClusterNetwork's spec.physicalNetworks",
	networkv1alpha1.ReasonPhysicalNetworksInUse: "restore the entries of ClusterNetwork's spec.physicalNetworks, or delete " +
		"the pods that the message names",
	networkv1alpha1.ReasonPhysicalNetworkUnknown: "add the entry to ClusterNetwork's spec.physicalNetworks, or recreate " +
		"the Network with another physicalNetwork",
	networkv1alpha1.ReasonCheckFailed:   "delete the pods that the message names, or restore what was changed in them",
	networkv1alpha1.ReasonNodesNotReady: "look up the problems of the nodes: kubectl get nodenetworks",
	networkv1alpha1.ReasonOtherConfiguration: "remove the file that the message names from /etc/cni/net.d of " +
		"NODE, or make it delegate to weft-cni; recreate the pods that were created meanwhile",
	networkv1alpha1.ReasonNoAssignableNode: "label nodes with " + networkv1alpha1.EgressAssignableLabel +
		", or bring back the labelled nodes",
	networkv1alpha1.ReasonNotOnNodeNetwork: "give EgressIP's spec.egressIPs, or the pool's spec.ranges, addresses of the network of " +
		"the nodes' link to the outside",
	networkv1alpha1.ReasonAddressInUse: "give EgressIP's spec.egressIPs or the pool's spec.addresses unused addresses; the " +
		"message names the owner or the MAC, whose host may also release the address",
	networkv1alpha1.ReasonProbing:          "none, unless it stays: see whether the agents of the nodes with spec.probeAddresses run",
	networkv1alpha1.ReasonNodesUnreachable: "find out why the nodes that carry the addresses do not respond: kubectl get nodes",
	networkv1alpha1.ReasonNoNextHop: "bring back a router: a pod that spec.nextHops.pods selects must run, with an address " +
		"on the segment of a node's gateway router",
	networkv1alpha1.ReasonNextHopsDown:   "repair the router that the message names, or its BFD: it must answer each node at UDP port 3784",
	networkv1alpha1.ReasonRangeOverlaps:  "change the range, or the other object that the message names",
	networkv1alpha1.ReasonRangeOutside:   "give the pool ranges where the message says",
	networkv1alpha1.ReasonRangeInUse:     "restore the range until the address is free: kubectl weft ip list shows its holder",
	networkv1alpha1.ReasonNoEligibleNode: "let the pool's spec.nodeSelector select a ready node whose gateway works",
	networkv1alpha1.ReasonNoLocalEndpoints: "let a pod of the Service run on an eligible node, " +
		"or set the Service's externalTrafficPolicy to Cluster",
	networkv1alpha1.ReasonNotAdvertised: "create a BGPAdvertisement that selects the pool, or set the " +
		"pool's spec.announceOnSegment to true",
	networkv1alpha1.ReasonNoNode:           "let nodeSelector select a node",
	networkv1alpha1.ReasonSessionsDown:     "see that the router runs, and that it accepts the nodes of the message as peers",
	networkv1alpha1.ReasonBFDDown:          "see that the router runs BFD with the nodes of the message",
	networkv1alpha1.ReasonPeerConflict:     "give the BGPPeer another address, or other nodes than the BGPPeer that the message names",
	networkv1alpha1.ReasonNoPeer:           "create a BGPPeer, or let spec.peers select one",
	networkv1alpha1.ReasonNothingSelected:  "none, if what is to be announced does not exist yet; otherwise correct the selectors",
	networkv1alpha1.ReasonNotAnnounced:     "do what the message says of each address",
	networkv1alpha1.ReasonTooManyRoutes:    "announce fewer addresses, or shorten aggregationLength, on the nodes of the message",
	networkv1alpha1.ReasonTooManyAddresses: "let rules name fewer wildcards, or narrower ones",
	networkv1alpha1.ReasonUnresolvedNames:  "correct the DNS names, or see why name servers do not answer",
	networkv1alpha1.ReasonNoPool: "create a LoadBalancerPool that serves the Service, or correct " +
		"the Service's class and annotations",
	networkv1alpha1.ReasonPoolExhausted: "give the pool more ranges, or delete a Service",
	networkv1alpha1.ReasonNotAnswered:   "see the status of the Service's LoadBalancerPool",
	networkv1alpha1.ReasonAddressShared: "let the Service that the message names allow the namespace by " +
		networkv1alpha1.SharedIPNamespacesAnnotation + ", or give the Service an address of its own",
	networkv1alpha1.ReasonAddressUnavailable: "correct the pool's name or the request, free an address, or give the pool " +
		"more ranges: kubectl weft ip list shows the holders",
	networkv1alpha1.ReasonAddressFreed:  "none, unless it stays: kube-scheduler tries the pod again",
	networkv1alpha1.ReasonIPv4Exhausted: "append an IPv4 entry to ClusterNetwork's spec.clusterNetwork",
	networkv1alpha1.ReasonIPv6Exhausted: "append an IPv6 entry to ClusterNetwork's spec.clusterNetwork",
	networkv1alpha1.ReasonRemoving: "check that weft-operands runs: kubectl -n weft-system describe " +
		"pods -l app.kubernetes.io/component=operands. To cancel the deletion: kubectl weft remove cancel",
	networkv1alpha1.ReasonWaitingForConfirmation: "to cancel the deletion: kubectl weft remove cancel. To " +
		"confirm it: kubectl weft remove shows the command",
	networkv1alpha1.ReasonPodsRemain: "to cancel the deletion: kubectl weft remove cancel. To continue: " +
		"delete or drain the pods that the message names",
	networkv1alpha1.ReasonRemovingOperands: "none, unless it stays: kubectl -n weft-system get pods -o wide. If a " +
		"node is down, delete its Node, because the removal waits for it",
	networkv1alpha1.ReasonFinalizersRemain: "find out which program wrote the finalizers that the message names",
	networkv1alpha1.ReasonNotReady:         "none, unless it stays: another stage of NODE comes first",
}

// nextStep returns the instruction for a problem of an object.
func nextStep(reason, object string) string {
	node := "the node"
	kind, name, _ := strings.Cut(object, "/")
	if (kind == "Node" || kind == "NodeNetwork") && !strings.Contains(name, ",") {
		node = name
	}
	return strings.ReplaceAll(nextSteps[reason], "NODE", node)
}
