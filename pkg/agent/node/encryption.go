package node

import (
	"context"
	"errors"
	"fmt"
	"slices"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/ipsec"
	"github.com/weft-network/weft/pkg/agent/repairs"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/ovndb"
)

// applyIPsec encrypts the node's tunnels. Without a NodeNetwork, or without encryption, nothing is encrypted.
func (r *Reconciler) applyIPsec(ctx context.Context, protection networkv1alpha1.TunnelProtection,
	status *networkv1alpha1.NodeNetworkStatus) desired.Stage {
	stage := desired.Stage{Type: networkv1alpha1.ConditionTunnelsEncrypted}
	own, err := status.EncapIP.Addr()
	guarded := r.Gateway.GuardTunnels(ctx, protection) // before what it waits for, and before the kernel's policies are removed
	switch {
	case protection == "" && guarded != nil:
		stage.Reason, stage.Err = networkv1alpha1.ReasonHostError, guarded
		return stage
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
	outcome, err := r.IPsec.Apply(ctx, status.Chassis, peers, protection)
	if protection == "" {
		status.Encryption = nil
		if err != nil {
			stage.Reason, stage.Err = networkv1alpha1.ReasonHostError, err
		}
		return stage
	}
	for _, p := range peers {
		object := repairs.Object{Kind: repairs.IPsec, Name: "the IPsec policies and keys of the tunnel to " + ipsec.Names([]ipsec.Peer{p})}
		r.Gateway.Repairs.Note(object, protection, slices.Contains(outcome.Repaired, p), err)
	}
	err = errors.Join(err, guarded)
	status.Encryption = &networkv1alpha1.NodeEncryption{Ready: err == nil, Peers: int32(len(peers)),
		Established: int32(len(peers) - len(outcome.Unkeyed))}
	stage.Reason, stage.Err = trouble(protection, outcome, err)
	return stage
}

// trouble returns why tunnels are not protected. err is the error of Tunnels.Apply.
func trouble(protection networkv1alpha1.TunnelProtection, outcome ipsec.Outcome, err error) (reason string, _ error) {
	switch {
	case errors.Is(err, ipsec.ErrNoDaemon):
		return networkv1alpha1.ReasonNoIKEDaemon, err
	case errors.Is(err, ipsec.ErrNoIdentity):
		return networkv1alpha1.ReasonNoIdentity, err
	case err != nil:
		return networkv1alpha1.ReasonHostError, err
	case len(outcome.Damaged) > 0:
		return networkv1alpha1.ReasonPeersNotEncrypted, fmt.Errorf("another program has deleted IPsec policies or keys of the tunnels to %s; "+
			"the agent has them installed again", ipsec.Names(outcome.Damaged))
	case protection == networkv1alpha1.ProtectionRequired && len(outcome.Unkeyed) > 0:
		return networkv1alpha1.ReasonPeersNotEncrypted, fmt.Errorf("no keys are negotiated with %s", ipsec.Names(outcome.Unkeyed))
	}
	return "", nil
}
