package networkport_test

import (
	"slices"
	"strings"
	"testing"

	ipamclaimsv1alpha1 "github.com/k8snetworkplumbingwg/ipamclaims/pkg/crd/ipamclaims/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/test/kindtest"
)

const byClaim = `[{"name":"blue","ipam-claim-reference":"vm"}]`

func claimOf(uid types.UID) *ipamclaimsv1alpha1.IPAMClaim {
	return &ipamclaimsv1alpha1.IPAMClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "vm", UID: uid},
		Spec: ipamclaimsv1alpha1.IPAMClaimSpec{Network: "blue"}}
}

// A pod keeps the addresses of an IPAMClaim that was deleted, and its port follows the pod, while another pod has the claim that was
// recreated under the same name.
func TestAddressesOfADeletedClaimStayWithThePod(t *testing.T) {
	b, pod := selectedBed(t, selecting("app", "db", "blue"))
	b.Create(claimOf("first"))
	withRequests(byClaim)(b, pod)
	had := addressesIn(b.Reconcile("demo", "web").Units[web])
	b.Delete(claimOf("first"))
	b.Reconcile("demo", "web")
	b.Create(claimOf("second"), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "other", UID: "u2",
		Annotations: map[string]string{networks.Annotation: byClaim}}, Spec: corev1.PodSpec{NodeName: "n1"}})
	other := addressesIn(b.Reconcile("demo", "other").Units[topology.PodPortsKey("demo", "other")])
	if had == "" || other == "" || had == other {
		t.Fatalf("the pods have %q and %q", had, other)
	}
	pod.Labels = map[string]string{"app": "db"}
	b.Update(pod)
	outcome := b.Reconcile("demo", "web")
	if now := addressesIn(outcome.Units[web]); now != had || len(joined(outcome)) == 0 {
		t.Errorf("demo/web has %q and joined %q, had %s", now, joined(outcome), had)
	}
	if len(outcome.Events) > 0 {
		t.Errorf("events %q", outcome.Events)
	}
	claim := kindtest.Get(b, claimOf(""))
	address, _, _ := strings.Cut(claim.Status.IPs[0], "/")
	if owner := claim.Status.OwnerPod; owner == nil || owner.Name != "other" || !strings.Contains(other, " "+address+" ") {
		t.Errorf("the claim has %+v", claim.Status)
	}
}

// addressesIn returns the line of a unit with the port and its addresses.
func addressesIn(lines []string) string {
	i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "LogicalSwitchPort ") })
	if i < 0 {
		return ""
	}
	return lines[i]
}

// A process that starts while a Network is invalid does not know the addresses of its ports. An IPAMClaim names the pod that has its
// addresses until that pod's port goes.
func TestAClaimKeepsItsPodOnAnInvalidNetwork(t *testing.T) {
	b, pod := selectedBed(t)
	b.Database.ExistingPorts = existingPorts(t)
	claim := claimOf("first")
	claim.Status.IPs, claim.Status.OwnerPod = []string{"10.100.0.1/24"}, &ipamclaimsv1alpha1.OwnerPod{Name: "web"}
	b.Create(claim)
	blue := kindtest.Get(b, &networkv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Name: "blue"}})
	blue.Spec.ExcludeSubnets = []networkv1alpha1.CIDR{"192.0.2.0/24"}
	b.Update(blue)
	if err := b.Env.RestoreNetworks(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.ReconcileKind(topology.KindIPAMClaim, "demo", "vm")
	if owner := kindtest.Get(b, claimOf("")).Status.OwnerPod; owner == nil || owner.Name != "web" {
		t.Errorf("the claim has %+v, and the port is there", owner)
	}
	b.Delete(pod)
	if outcome := b.Reconcile("demo", "web"); !slices.Contains(outcome.Enqueued, "ipamclaim demo/vm") {
		t.Errorf("enqueued %v", outcome.Enqueued)
	}
	b.ReconcileKind(topology.KindIPAMClaim, "demo", "vm")
	if owner := kindtest.Get(b, claimOf("")).Status.OwnerPod; owner != nil {
		t.Errorf("the claim has %+v, and the port is gone", owner)
	}
}
