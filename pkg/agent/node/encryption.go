package node

import (
	"context"
	"errors"
	"fmt"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/ipsec"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/ovndb"
)

// applyIPsec encrypts the node's tunnels. Without a NodeNetwork, or without encryption, nothing is encrypted.
func (r *Reconciler) applyIPsec(ctx context.Context, protection networkv1alpha1.TunnelProtection,
	status *networkv1alpha1.NodeNetworkStatus) desired.Stage {
	stage := desired.Stage{Type: networkv1alpha1.ConditionTunnelsEncrypted}
	own, err := status.EncapIP.Addr()
	switch {
	case protection != "" && r.Datapath == networkv1alpha1.DatapathNetdev:
		status.Encryption = &networkv1alpha1.NodeEncryption{}
		stage.Reason = networkv1alpha1.ReasonUnsupportedDatapath
		stage.Err = errors.New("this node has the userspace datapath, whose tunnels the kernel's IPsec does not see: " +
			"load the kernel's module openvswitch")
		return stage
	case protection != "" && (err != nil || !r.OVS.Connected()):
		stage.Reason, stage.Err = networkv1alpha1.ReasonNotReady, errors.New("the node's tunnels are not known yet")
		return stage
	}
	peers := ipsec.PeersOf(ovndb.List(r.OVS.Conn, func(*vswitchdb.Port) bool { return true }), own)
	missing, err := r.IPsec.Apply(ctx, status.Chassis, peers, protection)
	if protection == "" {
		status.Encryption = nil
		if err != nil {
			stage.Reason, stage.Err = networkv1alpha1.ReasonHostError, err
		}
		return stage
	}
	status.Encryption = &networkv1alpha1.NodeEncryption{Ready: err == nil, Peers: int32(len(peers)),
		Established: int32(len(peers) - len(missing))}
	switch {
	case errors.Is(err, ipsec.ErrNoDaemon):
		stage.Reason, stage.Err = networkv1alpha1.ReasonNoIKEDaemon, err
	case errors.Is(err, ipsec.ErrNoIdentity):
		stage.Reason, stage.Err = networkv1alpha1.ReasonNoIdentity, err
	case err != nil:
		stage.Reason, stage.Err = networkv1alpha1.ReasonHostError, err
	case protection == networkv1alpha1.ProtectionRequired && len(missing) > 0:
		stage.Reason = networkv1alpha1.ReasonPeersNotEncrypted
		stage.Err = fmt.Errorf("no keys are negotiated with %s", ipsec.Names(missing))
	}
	return stage
}
