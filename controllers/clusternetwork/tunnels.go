package clusternetwork

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/health"
)

// ManagementPorts returns the addresses of the nodes whose network is ready. From the operator's node they are
// reached like pods, through tunnels. No other component on a ready node checks these.
func ManagementPorts(c client.Reader) func(context.Context) map[string]netip.Addr {
	return func(ctx context.Context) map[string]netip.Addr {
		var nodes corev1.NodeList
		var networks networkv1alpha1.NodeNetworkList
		if err := errors.Join(c.List(ctx, &nodes), c.List(ctx, &networks)); err != nil {
			return nil // the cache returns no errors once it is in sync
		}
		return statusInput{nodes: nodes.Items, networks: networks.Items}.reachable()
	}
}

// reachable returns the management ports' addresses of the nodes that should respond.
func (f statusInput) reachable() map[string]netip.Addr {
	found, byName := map[string]netip.Addr{}, f.byName()
	for i := range f.nodes {
		name := f.nodes[i].Name
		nn := byName[name]
		if nn == nil || facts.IsSilent(&f.nodes[i]) || !isReady(nn.Status.Conditions) || len(nn.Spec.ManagementPort.Addresses) == 0 {
			continue
		}
		if address, err := nn.Spec.ManagementPort.Addresses[0].Prefix(); err == nil {
			found[name] = address.Addr()
		}
	}
	return found
}

// tunnelProblems lists the ready nodes that do not respond. It leaves out nodes with a more precise problem.
func tunnelProblems(f statusInput) (found []networkv1alpha1.Problem) {
	addresses := f.reachable()
	for _, name := range f.unreached {
		if address, ok := addresses[name]; ok {
			found = append(found, health.New(networkv1alpha1.AreaNodes, networkv1alpha1.StateDegraded,
				networkv1alpha1.ReasonTunnelSilent, "NodeNetwork/"+name,
				fmt.Sprintf("the node is ready, but its management port %s does not respond to the operator's node "+
					"through the network: packets between pods of nodes may be lost", address)))
		}
	}
	return found
}
