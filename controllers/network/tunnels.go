package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/health"
)

// ManagementPorts are the addresses of the nodes whose network is ready. From the operator's node they are reached as pods are: through tunnels, which
// nothing else on a node that is ready has to try.
func ManagementPorts(c client.Reader) func(context.Context) map[string]netip.Addr {
	return func(ctx context.Context) map[string]netip.Addr {
		var nodes corev1.NodeList
		var networks networkv1alpha1.NodeNetworkList
		if err := errors.Join(c.List(ctx, &nodes), c.List(ctx, &networks)); err != nil {
			return nil // the cache answers; it has no errors to give once it is in sync
		}
		return facts{nodes: nodes.Items, networks: networks.Items}.reachable()
	}
}

// reachable are the management ports' addresses of the nodes that should answer.
func (f facts) reachable() map[string]netip.Addr {
	found, byName := map[string]netip.Addr{}, f.byName()
	for i := range f.nodes {
		name := f.nodes[i].Name
		nn := byName[name]
		if nn == nil || isLost(&f.nodes[i]) || !isReady(nn.Status.Conditions) || len(nn.Spec.ManagementPort.Addresses) == 0 {
			continue
		}
		if address, err := nn.Spec.ManagementPort.Addresses[0].Prefix(); err == nil {
			found[name] = address.Addr()
		}
	}
	return found
}

// tunnelProblems are the nodes that are ready and do not answer. Those of which more is known are left out.
func tunnelProblems(f facts) (found []networkv1alpha1.Problem) {
	addresses := f.reachable()
	for _, name := range f.unreached {
		if address, ok := addresses[name]; ok {
			found = append(found, health.New(networkv1alpha1.AreaNodes, networkv1alpha1.StateDegraded, networkv1alpha1.ReasonTunnelSilent, "NodeNetwork/"+name,
				fmt.Sprintf("the node is ready, and its management port %s does not answer the operator's node through the network: packets between pods of nodes may be lost", address)))
		}
	}
	return found
}
