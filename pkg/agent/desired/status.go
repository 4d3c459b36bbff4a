package desired

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/health"
	"github.com/weft-network/weft/pkg/ipam"
)

// Stage is the outcome of one stage of the node's start. A nil Err means success.
type Stage struct {
	Type   string
	Reason string // of a failure
	Err    error
}

func (s Stage) condition(generation int64) metav1.Condition {
	c := metav1.Condition{
		Type: s.Type, Status: metav1.ConditionTrue, Reason: networkv1alpha1.ReasonAsExpected, ObservedGeneration: generation,
	}
	if s.Err != nil {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, s.Reason, s.Err.Error()
	}
	return c
}

// Health is the content of NodeNetwork's status.
type Health struct {
	Stages []Stage
	// Notes also become conditions, but do not make the node unready.
	Notes []Stage
	// Used is the number of addresses in use on this node, from its ports in the southbound database.
	Used int
	// Status has the fields other than conditions and address counts.
	Status networkv1alpha1.NodeNetworkStatus
}

// Good reports whether no stage failed.
func (h Health) Good() bool {
	return !slices.ContainsFunc(h.Stages, func(s Stage) bool { return s.Err != nil })
}

// NodeStatus computes the status of a NodeNetwork. Conditions that do not change keep their transition times.
func NodeStatus(nn *networkv1alpha1.NodeNetwork, h Health) networkv1alpha1.NodeNetworkStatus {
	want := h.Status
	want.ObservedGeneration = nn.Generation
	want.Conditions = append([]metav1.Condition(nil), nn.Status.Conditions...)
	want.Addresses = AddressCounts(nn.Spec, h.Used)
	ready := metav1.Condition{
		Type: networkv1alpha1.ConditionReady, Status: metav1.ConditionTrue,
		Reason: networkv1alpha1.ReasonAsExpected, Message: "pods can be attached",
	}
	for _, stage := range h.Stages {
		if stage.Err != nil && ready.Status == metav1.ConditionTrue {
			ready.Status, ready.Reason = metav1.ConditionFalse, networkv1alpha1.ReasonNotReady
			ready.Message = fmt.Sprintf("%s: %v", stage.Type, stage.Err)
		}
		meta.SetStatusCondition(&want.Conditions, stage.condition(nn.Generation))
	}
	for _, note := range append(slices.Clone(h.Notes), addressesFree(nn, want.Addresses)) {
		meta.SetStatusCondition(&want.Conditions, note.condition(nn.Generation))
	}
	if nn.Spec.BGP == nil {
		meta.RemoveStatusCondition(&want.Conditions, networkv1alpha1.ConditionRoutesAnnounced)
	}
	failsToEnd := func(note Stage) bool { return note.Type == networkv1alpha1.ConditionTunnelsEncrypted }
	if nn.Spec.Encryption == "" && !slices.ContainsFunc(h.Notes, failsToEnd) {
		meta.RemoveStatusCondition(&want.Conditions, networkv1alpha1.ConditionTunnelsEncrypted)
	}
	if nn.Spec.Wildcards == nil {
		meta.RemoveStatusCondition(&want.Conditions, networkv1alpha1.ConditionWildcardsObserved)
	}
	if c := refusedTopology(nn); c != nil && ready.Status == metav1.ConditionTrue {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, networkv1alpha1.ReasonNotReady, c.Type+": "+c.Message
	}
	problems := health.Node(nn.Name, want.Conditions)
	want.Problems = problems[:min(len(problems), networkv1alpha1.MaxProblems)]
	for _, c := range append([]metav1.Condition{ready}, health.NodeConditions(problems, ready)...) {
		c.ObservedGeneration = nn.Generation
		meta.SetStatusCondition(&want.Conditions, c)
	}
	return want
}

// wellBelow is the divisor of the number of addresses that must be free again before a full node is no longer reported
// as full.
const wellBelow = 50

// addressesFree reports whether there is an address for another pod.
func addressesFree(nn *networkv1alpha1.NodeNetwork, counts *networkv1alpha1.AddressCounts) Stage {
	stage := Stage{Type: networkv1alpha1.ConditionAddressesFree}
	if counts == nil {
		return stage
	}
	full := meta.IsStatusConditionFalse(nn.Status.Conditions, networkv1alpha1.ConditionAddressesFree)
	if counts.Free <= 0 || full && counts.Free < max(1, counts.Total/wellBelow) {
		stage.Reason = networkv1alpha1.ReasonAddressesExhausted
		stage.Err = fmt.Errorf("the node's subnets %v, of %d addresses, are full", nn.Spec.PodSubnets, counts.Total)
	}
	return stage
}

// maxMessage is the longest message of a physical network, in bytes.
const maxMessage = 1024

// PhysicalStatus returns a node's connection with a physical network. err is why the network is not ready.
func PhysicalStatus(name networkv1alpha1.PhysicalNetworkName, bridge string, linkMTU int, mac string, err error) (
	s networkv1alpha1.NodePhysicalNetworkStatus) {
	s = networkv1alpha1.NodePhysicalNetworkStatus{Name: name, Ready: err == nil, Bridge: bridge, LinkMTU: int32(linkMTU),
		MACAddress: networkv1alpha1.MACAddress(strings.ToLower(mac))}
	if err != nil {
		s.Message = strings.ToValidUTF8(err.Error()[:min(maxMessage, len(err.Error()))], "")
	}
	return s
}

// refusedTopology returns the operator's condition if it reports that the node's part of the topology is missing.
func refusedTopology(nn *networkv1alpha1.NodeNetwork) *metav1.Condition {
	c := meta.FindStatusCondition(nn.Status.Conditions, networkv1alpha1.ConditionTopologyReady)
	if c == nil || c.Status != metav1.ConditionFalse {
		return nil
	}
	return c
}

// AddressCounts returns the counts of the family with the fewest addresses, because a new pod takes one address of each
// family that has a subnet which gives addresses. It returns nil without a subnet.
func AddressCounts(spec networkv1alpha1.NodeNetworkSpec, used int) *networkv1alpha1.AddressCounts {
	total, gives := map[bool]int64{}, map[bool]bool{} // pod addresses, and whether a new pod gets one, by whether they are IPv4
	for _, cidr := range spec.PodSubnets {
		subnet, err := cidr.Prefix()
		if err != nil {
			return nil
		}
		gives[subnet.Addr().Is4()] = gives[subnet.Addr().Is4()] || !slices.Contains(spec.LeavingSubnets, cidr)
		capacity, is4 := ipam.Capacity(subnet), subnet.Addr().Is4()
		if total[is4] > math.MaxInt64-capacity {
			capacity = math.MaxInt64 - total[is4]
		}
		total[is4] += capacity
	}
	smallest := int64(math.MaxInt64)
	for is4, count := range total {
		if gives[is4] {
			smallest = min(smallest, count)
		}
	}
	if len(total) == 0 {
		return nil
	}
	return &networkv1alpha1.AddressCounts{Total: smallest, Used: int64(used), Free: smallest - int64(used)}
}
