package attach

import (
	"context"
	"errors"
	"net"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/neighbour"
	"github.com/weft-network/weft/pkg/cni/cniwire"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/ovndb"
)

// probe refuses a pod whose addresses another host uses on a segment of the data centre. It must be called before the pod has
// its interface, because ovn-controller then announces the addresses. The node's status names the host, so that the operator gives the pod
// another address. It skips a segment that the host cannot probe, for
// example because the bridge is down.
func (a *adding) probe(ctx context.Context, vif desired.VIF) error {
	addresses := vif.OnSegment()
	if len(addresses) == 0 {
		return nil
	}
	ovs, ok := ovndb.Only[vswitchdb.OpenvSwitch](a.OVS.Conn)
	if !ok {
		return nil // the next stage waits for Open vSwitch
	}
	log := ctrl.Log.WithName("attach").WithValues("port", a.port, "addresses", addresses, "physicalNetwork", vif.PhysicalNetwork)
	on := neighbour.Segment{Link: desired.BridgeTo(ovs.ExternalIDs, vif.PhysicalNetwork), VLAN: vif.VLAN,
		Own: []net.HardwareAddr{vif.MAC}}
	if on.Link == "" {
		log.Info("cannot probe addresses of a segment; continuing: the node has no bridge to the physical network")
		return nil
	}
	err := neighbour.Probe(ctx, on, addresses)
	var used *neighbour.UsedError
	switch {
	case errors.As(err, &used):
		a.Foreign.answered(vif, used, time.Now())
		return cniwire.Errorf(cniwire.CodeTryAgainLater, "port %s: %v", a.port, err)
	case ctx.Err() != nil:
		return a.stopped(ctx, stageLink, "its addresses are being probed on the segment")
	case err != nil:
		log.Info("cannot probe addresses of a segment; continuing", "reason", err.Error())
	default:
		a.Foreign.silent(vif, addresses)
	}
	return nil
}
