package attach

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/ovn/sbdb"
)

// HostPorts gives pods random host ports.
type HostPorts interface {
	// Claim gives a sandbox's pod the random host ports that its binding requests, and writes them to the pod. No other
	// pod gets them before Release, nor afterwards while an attachment has them. A binding without a request costs
	// nothing. addresses are the pod's.
	Claim(ctx context.Context, sandbox Sandbox, binding *sbdb.PortBinding, addresses []netip.Addr) ([]ovnexpr.HostPort, error)
	// Release ends the claim of a logical port.
	Release(port string)
}

// claimHostPorts claims the pod's random host ports.
func (a *adding) claimHostPorts(ctx context.Context, vif desired.VIF) (err error) {
	binding, ok := a.Bindings.Find(a.port)
	if !ok || a.HostPorts == nil || binding.ExternalIDs[ovnexpr.RandomHostPortsKey] == "" {
		return nil
	}
	a.hostPorts, err = a.HostPorts.Claim(ctx, a.sandbox, binding, vif.Addresses)
	return err
}

func (a *adding) releaseHostPorts() {
	if len(a.hostPorts) > 0 {
		a.HostPorts.Release(a.port)
	}
}

// awaitHostPorts waits until the operator has mapped the pod's random host ports. From then on the binding keeps them
// from other pods, and clients outside reach the pod when it starts.
func (a *adding) awaitHostPorts(ctx context.Context) error {
	if len(a.hostPorts) == 0 {
		return nil
	}
	var missing []string
	err := a.Bindings.Wait(ctx, func() (bool, error) {
		missing = a.unmapped()
		if len(missing) > 0 {
			a.waits(fmt.Sprintf("the operator has not mapped %v", missing))
		}
		return len(missing) == 0, nil
	})
	if err != nil {
		return a.stopped(ctx, stageHostPorts, fmt.Sprintf("the operator has not mapped the random host ports %v; the pod's condition "+
			"network.weft.dev/HostPortsReady says if it refuses them", missing))
	}
	a.clock.reached(stageHostPorts)
	return nil
}

// unmapped returns the pod's random host ports that its binding lacks.
func (a *adding) unmapped() (missing []string) {
	var has []ovnexpr.HostPort
	if binding, ok := a.Bindings.Find(a.port); ok {
		has, _ = ovnexpr.ParseHostPorts(binding.ExternalIDs[ovnexpr.HostPortsKey]) // the operator writes them
	}
	for _, port := range a.hostPorts {
		if !slices.Contains(has, port) {
			missing = append(missing, port.String())
		}
	}
	return missing
}
