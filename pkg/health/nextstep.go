package health

import (
	"strings"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Reasons that only who reads the status can know.
const (
	// ReasonNoLeader is for a network whose operator is away.
	ReasonNoLeader = "NoLeader"
	// ReasonNotObserved is for a spec that the operator has not seen yet.
	ReasonNotObserved = "NotObserved"
)

// nextSteps say what to do; NODE stands for the node that the problem is about.
var nextSteps = map[string]string{
	ReasonNoLeader:                               "see the operator's pod and its log: kubectl -n weft-system describe pods -l app.kubernetes.io/component=operator",
	ReasonNotObserved:                            "none, unless it stays",
	networkv1alpha1.ReasonInvalidSpec:            "correct the spec as the message says; until then what it asks for stays as it was",
	networkv1alpha1.ReasonInvalidAnnotation:      "correct the annotation as the message says; until then it counts as absent",
	networkv1alpha1.ReasonDatabaseUnavailable:    "see that the database's server runs and can be reached: the log of the operator or the agent has each server's answer; it goes on by itself",
	networkv1alpha1.ReasonMembersUnplaced:        "add a node; the member is made there by itself. Until then the loss of one more node stops all changes",
	networkv1alpha1.ReasonMemberUnavailable:      "see why the member's pod does not work: kubectl -n weft-system get pods -l app.kubernetes.io/component=central -o wide. Where the node does not come back, delete its Node: the member is made anew on another",
	networkv1alpha1.ReasonMembersStarting:        "none, unless it stays: kubectl -n weft-system get pods -l app.kubernetes.io/component=central -o wide",
	networkv1alpha1.ReasonQuorumLost:             "bring back the nodes of the members that the message names: two of three must hear each other. Do not delete their disks",
	networkv1alpha1.ReasonMembersConflict:        "remove the database's file from the node whose cluster is not the wanted one: docs/operations.md, Members of the databases",
	networkv1alpha1.ReasonDatabaseSchemaTooOld:   "upgrade the schema of OVN's database: ovsdb-client convert; it goes on by itself",
	networkv1alpha1.ReasonDatabaseError:          "do what the message says, in the OVN northbound database; kubectl weft drift shows the rows that are missing there",
	networkv1alpha1.ReasonDatabaseRefused:        "remove what is in the way in the OVN northbound database, such as a foreign row of the same name; it is tried again every 30 s at the latest",
	networkv1alpha1.ReasonNorthdSilent:           "see that ovn-northd runs, is not paused and has both databases: ovn-appctl -t ovn-northd status",
	networkv1alpha1.ReasonSubnetsExhausted:       "append an entry to ClusterNetwork's spec.clusterNetwork",
	networkv1alpha1.ReasonAddressesExhausted:     "drain NODE of some pods, or lower kubelet's maxPods below the node's addresses",
	networkv1alpha1.ReasonDrift:                  "kubectl weft drift shows the rows; set ClusterNetwork's spec.drift.mode to Repair, or remove the foreign rows",
	networkv1alpha1.ReasonInvariantViolated:      "kubectl weft check names all of them; report it with the output of kubectl weft bundle",
	networkv1alpha1.ReasonMTUMismatch:            "make the links' MTUs equal, or set ClusterNetwork's spec.mtu to the smallest",
	networkv1alpha1.ReasonServiceNetworkMismatch: "make ClusterNetwork's spec.serviceNetwork and the API server's --service-cluster-ip-range agree",
	networkv1alpha1.ReasonNodeLost:               "see why kubelet is silent on NODE: kubectl describe node NODE",
	networkv1alpha1.ReasonTunnelSilent:           "see that UDP port 6081 passes between NODE and the other nodes both ways, and that NODE's own firewall lets TCP port 9442 in by ovn-k8s-mp0",
	networkv1alpha1.ReasonAgentUnavailable:       "kubectl -n weft-system describe pods -l app.kubernetes.io/component=agent --field-selector spec.nodeName=NODE",
	networkv1alpha1.ReasonAgentStarting:          "none, unless it stays: kubectl -n weft-system get pods -l app.kubernetes.io/component=agent -o wide --field-selector spec.nodeName=NODE",
	networkv1alpha1.ReasonVersionsDiffer:         "none, unless it stays: kubectl -n weft-system get pods -l app.kubernetes.io/component=agent -o wide",
	networkv1alpha1.ReasonUpgrading:              "none, unless it stays: it stops by itself when what was replaced does not work",
	networkv1alpha1.ReasonUpgradeBlocked:         "do what the message says, or give Deployment weft-operands its former image again",
	networkv1alpha1.ReasonUpgradeStopped:         "see why the message's object does not work; it goes on when that does. The way back: give Deployment weft-operands its former image again",
	networkv1alpha1.ReasonWaitingForAgent:        "none, unless it stays: kubectl -n weft-system get pods -l app.kubernetes.io/component=agent -o wide --field-selector spec.nodeName=NODE",
	networkv1alpha1.ReasonWaitingForSpec:         "none, unless it stays: the operator's log says why NODE has no subnet",
	networkv1alpha1.ReasonWaitingForChassis:      "none, unless it stays: see ovn-controller on NODE, and that it reaches the OVN southbound database",
	networkv1alpha1.ReasonWaitingForTopology:     "none, unless it stays: see that ovn-northd runs, and ovn-controller on NODE",
	networkv1alpha1.ReasonControllerUnavailable:  "start ovn-controller on NODE again; its log is /var/log/ovn/ovn-controller.log",
	networkv1alpha1.ReasonSwitchUnavailable:      "start ovs-vswitchd on NODE again; its log is /var/log/openvswitch/ovs-vswitchd.log",
	networkv1alpha1.ReasonHostError:              "do what the message says on NODE; it is tried again by itself",
	networkv1alpha1.ReasonNoUplink:               "put the link of NODE on a bridge, name one in ClusterNetwork's spec.gateway.interface, or choose spec.gateway.mode Local",
	networkv1alpha1.ReasonAddressConflict:        "give one of the two nodes another address",
	networkv1alpha1.ReasonUplinkWaiting:          "none: it is the turn of other nodes (spec.gateway.maxMoving)",
	networkv1alpha1.ReasonUplinkMoving:           "none: a move takes up to a minute, and is undone if it fails",
	networkv1alpha1.ReasonUplinkRefused:          "do what the message says on NODE; nothing was changed there",
	networkv1alpha1.ReasonUplinkRolledBack:       "see why the message's peer did not answer by the bridge, then restart the agent of NODE; other nodes wait for it",
	networkv1alpha1.ReasonCheckFailed:            "delete the pods that the message names, or restore what was changed in them",
	networkv1alpha1.ReasonNodesNotReady:          "see the problems of the nodes: kubectl get nodenetworks",
	networkv1alpha1.ReasonOtherConfiguration:     "remove the file that the message names from /etc/cni/net.d of NODE, or have it hand on to weft-cni; pods that came meanwhile are to be made anew",
	networkv1alpha1.ReasonNoAssignableNode:       "label nodes with " + networkv1alpha1.EgressAssignableLabel + ", or bring back those that have it",
	networkv1alpha1.ReasonNotOnNodeNetwork:       "give EgressIP's spec.egressIPs addresses of the network that the labelled nodes' link to the outside is in",
	networkv1alpha1.ReasonAddressInUse:           "give EgressIP's spec.egressIPs an address that nobody has; the message says who has this one",
	networkv1alpha1.ReasonNodesUnreachable:       "see why the nodes do not answer that carry the addresses: kubectl get nodes",
	networkv1alpha1.ReasonUnsupportedGatewayMode: "label nodes whose gateway's mode is Shared with " + networkv1alpha1.EgressAssignableLabel,
	networkv1alpha1.ReasonNotReady:               "none, unless it stays: it waits for another stage of NODE",
}

// nextStep is what to do about a problem of an object.
func nextStep(reason, object string) string {
	node := "the node"
	if _, name, found := strings.Cut(object, "/"); found && !strings.Contains(name, ",") {
		node = name
	}
	return strings.ReplaceAll(nextSteps[reason], "NODE", node)
}
