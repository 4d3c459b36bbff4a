package agent_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/vishvananda/netlink"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// setMTU changes the cluster's MTU in the spec, as the operator does.
func (n *node) setMTU(mtu int32) {
	n.Helper()
	nn := &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}
	n.must(api.Patch(n.Context(), nn, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"mtu":%d}}`, mtu))))
}

// awaitMTU waits until both ends of a pod's link have an MTU.
func (n *node) awaitMTU(p pod, want int) {
	n.Helper()
	n.until("the MTU of "+p.name, func() error {
		row := n.interfaces()[p.port()]
		if row == nil {
			return errors.New("no interface")
		}
		host, err := netlink.LinkByName(row.Name)
		if err != nil {
			return err
		}
		var inside int
		err = inNetNS(p.netNS, func() error {
			link, err := netlink.LinkByName("eth0")
			if err == nil {
				inside = link.Attrs().MTU
			}
			return err
		})
		if err == nil && (host.Attrs().MTU != want || inside != want) {
			err = fmt.Errorf("it is %d on the host and %d in the pod, want %d", host.Attrs().MTU, inside, want)
		}
		return err
	})
}

// Running pods get a smaller or larger MTU, also if it changes while no agent runs. A pod whose namespace is gone does
// not prevent this.
func TestRunningPodsFollowTheMTU(t *testing.T) {
	n := readyNode(t)
	web, gone := n.newPod("web", 5), n.newPod("gone", 6)
	for _, p := range []pod{gone, web} {
		n.givePort(p)
		n.add(p)
		n.awaitMTU(p, 1442)
	}
	n.removeNetNS(gone.netNS)
	n.setMTU(1300)
	n.awaitMTU(web, 1300)
	n.setMTU(1400)
	n.awaitMTU(web, 1400)
	n.stopAgent()
	n.setMTU(1320)
	n.startAgent()
	n.awaitMTU(web, 1320)
	n.wantTraffic(web)
}

// The agent reports a change of the uplink's MTU at once, because the operator derives the cluster's MTU from it.
func TestTheUplinksMTUIsReported(t *testing.T) {
	n := readyNode(t)
	web := n.newPod("web", 5)
	n.givePort(web)
	n.add(web)
	n.ovs.Ctl("set", "Interface", "br-ex", "mtu_request=1450")
	n.until("the report", func() error {
		return isTrue(n.status().LinkMTU == 1450, fmt.Sprint(n.status().LinkMTU))
	})
	n.awaitMTU(web, 1450-58) // the spec sets no MTU
}
