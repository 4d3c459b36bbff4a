package crd

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/apis/network/v1alpha1"
)

func minimalClusterNetwork() *v1alpha1.ClusterNetwork {
	return &v1alpha1.ClusterNetwork{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterNetworkName},
		Spec: v1alpha1.ClusterNetworkSpec{
			ClusterNetwork: []v1alpha1.ClusterNetworkEntry{{CIDR: "10.244.0.0/16"}},
			ServiceNetwork: []v1alpha1.CIDR{"10.96.0.0/16"},
		},
	}
}

func TestClusterNetworkIsDefaulted(t *testing.T) {
	network := minimalClusterNetwork()
	create(t, network)
	want := v1alpha1.ClusterNetworkSpec{
		ClusterNetwork: []v1alpha1.ClusterNetworkEntry{{CIDR: "10.244.0.0/16"}},
		ServiceNetwork: []v1alpha1.CIDR{"10.96.0.0/16"},
		JoinSubnet:     []v1alpha1.CIDR{"100.64.0.0/16", "fd98::/64"},
		Encapsulation:  v1alpha1.Encapsulation{Type: v1alpha1.EncapsulationGeneve},
		Gateway: v1alpha1.Gateway{Mode: v1alpha1.GatewayShared, Uplink: v1alpha1.UplinkBridge, MaxMoving: 1,
			SNAT: v1alpha1.SNATNode},
		PodRecord: v1alpha1.PodRecordOnRequest, Multicast: v1alpha1.MulticastFlood, AttachmentProvider: v1alpha1.AttachmentProviderWeft,
		HostPorts: v1alpha1.HostPorts{Range: v1alpha1.DefaultHostPortRange},
		Drift:     v1alpha1.Drift{Mode: v1alpha1.DriftRepair},
		Databases: v1alpha1.Databases{Members: 1},
		Upgrade:   v1alpha1.Upgrade{MaxUnavailable: 1},
	}
	if diff := cmp.Diff(want, network.Spec); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestWritingBackChangesNothing checks that a controller that writes back what it read changes no byte; otherwise
// each pass would trigger the next.
func TestWritingBackChangesNothing(t *testing.T) {
	stored := object(t, "ClusterNetwork", "default", dual)
	create(t, stored)
	network := &v1alpha1.ClusterNetwork{}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(stored), network); err != nil {
		t.Fatal(err)
	}
	if err := api.Update(t.Context(), network); err != nil {
		t.Fatal(err)
	}
	if network.ResourceVersion != stored.GetResourceVersion() {
		t.Errorf("resourceVersion %s became %s", stored.GetResourceVersion(), network.ResourceVersion)
	}
}

func fullClusterNetworkStatus() v1alpha1.ClusterNetworkStatus {
	return v1alpha1.ClusterNetworkStatus{
		ObservedGeneration: 1,
		Conditions:         []metav1.Condition{ready("2 nodes are ready")},
		MTU:                1400,
		Nodes:              v1alpha1.NodeCounts{Total: 2, Ready: 2},
		NodesReady:         "2/2",
		Addresses: []v1alpha1.NetworkAddresses{{
			CIDR:          "10.244.0.0/16",
			AddressCounts: v1alpha1.AddressCounts{Total: math.MaxInt64, Used: 1, Free: math.MaxInt64 - 1},
		}},
		AddressesFree: "10.244.0.0/16: 65000",
	}
}

func fullNodeNetworkStatus() v1alpha1.NodeNetworkStatus {
	return v1alpha1.NodeNetworkStatus{
		ObservedGeneration: 1,
		Conditions:         []metav1.Condition{ready("the node's network works")},
		Chassis:            "0d9c2d0e-1bd4-4a29-9cf4-6d1c1c26d0f7",
		EncapIP:            "fd00:172:30::11",
		EncapType:          v1alpha1.EncapsulationGeneve,
		DatapathType:       v1alpha1.DatapathNetdev,
		LinkMTU:            1500,
		ManagementPort:     v1alpha1.ManagementPortStatus{Name: "ovn-k8s-mp0", MACAddress: "0a:58:0a:f4:07:02"},
		OVSVersion:         "3.5.0",
		OVNVersion:         "25.03.0",
		Addresses:          &v1alpha1.AddressCounts{Total: 252, Used: 2, Free: 250},
		Pods:               2,
	}
}

func ready(message string) metav1.Condition {
	return metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAsExpected, Message: message,
		ObservedGeneration: 1, LastTransitionTime: metav1.Unix(1_700_000_000, 0),
	}
}

func TestStatusIsASubresourceAndKeepsEveryField(t *testing.T) {
	network := minimalClusterNetwork()
	network.Status = fullClusterNetworkStatus()
	create(t, network)
	if !cmp.Equal(network.Status, v1alpha1.ClusterNetworkStatus{}) {
		t.Errorf("create wrote status: %+v", network.Status)
	}
	network.Status = fullClusterNetworkStatus()
	if err := api.Status().Update(t.Context(), network); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fullClusterNetworkStatus(), network.Status); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestNodeNetworkStatusKeepsEveryField(t *testing.T) {
	node := &v1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}
	create(t, node)
	if diff := cmp.Diff(v1alpha1.NodeNetworkSpec{}, node.Spec); diff != "" {
		t.Errorf("spec -want +got:\n%s", diff)
	}
	node.Status = fullNodeNetworkStatus()
	if err := api.Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fullNodeNetworkStatus(), node.Status); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
