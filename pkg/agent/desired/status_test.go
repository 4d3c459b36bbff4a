package desired_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
)

func nodeNetwork() *networkv1alpha1.NodeNetwork {
	return &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Generation: 7}, Spec: dualStackSpec()}
}

func stages(failures map[string]error) (found []desired.Stage) {
	for _, kind := range []string{"OVSReady", "ControllerReady", "ManagementPortReady", "CNIReady"} {
		stage := desired.Stage{Type: kind, Err: failures[kind]}
		if stage.Err != nil {
			stage.Reason = "HostError"
		}
		found = append(found, stage)
	}
	return found
}

func wantCondition(t *testing.T, s networkv1alpha1.NodeNetworkStatus, kind string, status metav1.ConditionStatus, reason, message string) {
	t.Helper()
	c := meta.FindStatusCondition(s.Conditions, kind)
	if c == nil {
		t.Fatalf("no condition %s", kind)
	}
	if c.Status != status || c.Reason != reason || c.Message != message || c.ObservedGeneration != 7 || c.LastTransitionTime.IsZero() {
		t.Errorf("condition %s is %+v", kind, *c)
	}
}

func TestNodeStatusWhenAllIsGood(t *testing.T) {
	got := desired.NodeStatus(nodeNetwork(), desired.Health{
		Stages: stages(nil), Used: 3, Status: networkv1alpha1.NodeNetworkStatus{Chassis: "7c9e", Pods: 2},
	})
	for _, kind := range []string{"OVSReady", "ControllerReady", "ManagementPortReady", "CNIReady"} {
		wantCondition(t, got, kind, metav1.ConditionTrue, "AsExpected", "")
	}
	wantCondition(t, got, "Ready", metav1.ConditionTrue, "AsExpected", "pods can be attached")
	if got.ObservedGeneration != 7 || got.Chassis != "7c9e" || got.Pods != 2 {
		t.Errorf("status is %+v", got)
	}
	// 256 without the addresses of network, gateway, management port and broadcast.
	if diff := cmp.Diff(&networkv1alpha1.AddressCounts{Total: 252, Used: 3, Free: 249}, got.Addresses); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
}

func TestReadyNamesTheFirstFailure(t *testing.T) {
	got := desired.NodeStatus(nodeNetwork(), desired.Health{Stages: stages(map[string]error{
		"ManagementPortReady": errors.New("link absent"), "CNIReady": errors.New("waits for ManagementPortReady"),
	})})
	wantCondition(t, got, "ControllerReady", metav1.ConditionTrue, "AsExpected", "")
	wantCondition(t, got, "ManagementPortReady", metav1.ConditionFalse, "HostError", "link absent")
	wantCondition(t, got, "Ready", metav1.ConditionFalse, "NotReady", "ManagementPortReady: link absent")
}

// A node that cannot end its encryption says so. Without encryption there is no such condition.
func TestTheEndOfEncryptionIsReported(t *testing.T) {
	failed := desired.Stage{Type: "TunnelsEncrypted", Reason: "HostError", Err: errors.New("nft is absent")}
	nn := nodeNetwork()
	nn.Status = desired.NodeStatus(nn, desired.Health{Stages: stages(nil), Notes: []desired.Stage{failed}})
	wantCondition(t, nn.Status, "TunnelsEncrypted", metav1.ConditionFalse, "HostError", "nft is absent")
	s := desired.NodeStatus(nn, desired.Health{Stages: stages(nil), Status: nn.Status})
	if meta.FindStatusCondition(s.Conditions, failed.Type) != nil {
		t.Error("the condition stays")
	}
}

// The operator's condition stays unchanged, and Ready depends on it.
func TestReadySumsUpTheTopology(t *testing.T) {
	nn := nodeNetwork()
	for _, test := range []struct {
		status       metav1.ConditionStatus
		failed       map[string]error
		ready        metav1.ConditionStatus
		reason, text string
	}{
		{metav1.ConditionFalse, nil, metav1.ConditionFalse, "NotReady", "TopologyReady: constraint violation"},
		{
			metav1.ConditionFalse, map[string]error{"CNIReady": errors.New("broken")}, metav1.ConditionFalse, "NotReady",
			"CNIReady: broken",
		},
		{metav1.ConditionTrue, nil, metav1.ConditionTrue, "AsExpected", "pods can be attached"},
	} {
		nn.Status.Conditions = []metav1.Condition{{
			Type: "TopologyReady", Status: test.status, Reason: "DatabaseRefused", Message: "constraint violation",
			ObservedGeneration: 7, LastTransitionTime: metav1.Now(),
		}}
		got := desired.NodeStatus(nn, desired.Health{Stages: stages(test.failed)})
		wantCondition(t, got, "Ready", test.ready, test.reason, test.text)
		wantCondition(t, got, "TopologyReady", test.status, "DatabaseRefused", "constraint violation")
	}
}

func TestTransitionTimesAreKept(t *testing.T) {
	nn := nodeNetwork()
	long := metav1.NewTime(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))
	nn.Status = desired.NodeStatus(nn, desired.Health{Stages: stages(map[string]error{"CNIReady": errors.New("first")})})
	for i := range nn.Status.Conditions {
		nn.Status.Conditions[i].LastTransitionTime = long
	}
	before := nn.DeepCopy()
	got := desired.NodeStatus(nn, desired.Health{
		Stages: stages(map[string]error{"CNIReady": errors.New("second"), "OVSReady": errors.New("new")}),
	})
	for kind, kept := range map[string]bool{"OVSReady": false, "ControllerReady": true, "CNIReady": true, "Ready": true} {
		if c := meta.FindStatusCondition(got.Conditions, kind); c.LastTransitionTime.Equal(&long) != kept {
			t.Errorf("condition %s: transition at %s", kind, c.LastTransitionTime)
		}
	}
	if diff := cmp.Diff(before, nn); diff != "" {
		t.Errorf("the object, which a cache may share, was changed:\n%s", diff)
	}
}

func TestAnUnchangedNodeHasAnEqualStatus(t *testing.T) {
	nn := nodeNetwork()
	health := desired.Health{Stages: stages(nil), Used: 1}
	nn.Status = desired.NodeStatus(nn, health)
	health.Status = nn.Status
	if diff := cmp.Diff(nn.Status, desired.NodeStatus(nn, health)); diff != "" {
		t.Errorf("a second status differs:\n%s", diff)
	}
}

func TestAddressCounts(t *testing.T) {
	type cidrs = []networkv1alpha1.CIDR
	for name, c := range map[string]struct {
		subnets cidrs
		want    *networkv1alpha1.AddressCounts
	}{
		"none yet":  {nil, nil},
		"malformed": {cidrs{"x"}, nil},
		"IPv4":      {cidrs{"10.244.1.0/24"}, &networkv1alpha1.AddressCounts{Total: 252, Used: 10, Free: 242}},
		"two of IPv4": {
			cidrs{"10.244.1.0/24", "10.244.2.0/24"}, &networkv1alpha1.AddressCounts{Total: 504, Used: 10, Free: 494},
		},
		"the smaller family": {
			cidrs{"10.244.1.0/24", "fd00::/120"}, &networkv1alpha1.AddressCounts{Total: 252, Used: 10, Free: 242},
		},
		"more than fit int64": {
			cidrs{"fd00::/64", "fd01::/64"},
			&networkv1alpha1.AddressCounts{Total: 1<<63 - 1, Used: 10, Free: 1<<63 - 11},
		},
	} {
		nn := nodeNetwork()
		nn.Spec.PodSubnets = c.subnets
		if diff := cmp.Diff(c.want, desired.NodeStatus(nn, desired.Health{Used: 10}).Addresses); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
