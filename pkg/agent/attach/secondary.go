package attach

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/cni"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/ovn/sbdb"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/ovndb"
)

// Secondary attaches the interfaces that a pod requests beside that on the cluster network.
type Secondary interface {
	// Plan reads what a pod requests, before anything is made of it. The error names the request that cannot be
	// served.
	Plan(ctx context.Context, sandbox Sandbox) (FurtherPlan, error)
	// Detach removes all secondary interfaces of a sandbox; none is no error.
	Detach(ctx context.Context, containerID string) error
	// Check returns an error for an interface that another plugin made for a sandbox, and that is not as it was made.
	Check(ctx context.Context, containerID string) error
	// Collect removes what other plugins made for sandboxes that do not exist any more.
	Collect(ctx context.Context) error
}

// FurtherPlan is what a pod requests.
type FurtherPlan interface {
	// DefaultRoutes are the families ("IPv4", "IPv6") whose default route goes through a requested interface.
	DefaultRoutes() []string
	// Attach makes all interfaces or none.
	Attach(ctx context.Context) error
}

// planFurther reads what the pod requests beside the cluster network; nil: nothing. A pod whose port does not say
// that it requests networks costs nothing.
func (a *adding) planFurther(ctx context.Context) (FurtherPlan, error) {
	binding, ok := a.Bindings.Find(a.port)
	if !ok || binding.ExternalIDs[ovnexpr.NetworksKey] == "" || a.Secondary == nil {
		return nil, nil
	}
	return a.Secondary.Plan(ctx, a.sandbox)
}

// AttachPort gives a sandbox an interface on a Network. It waits until the port serves the request with this hash,
// and leaves nothing if it fails.
func (h *Handler) AttachPort(ctx context.Context, sandbox Sandbox, port, ifName, network, request string) error {
	a := &adding{Handler: h, sandbox: sandbox, ifName: ifName, network: network, port: port, request: request,
		clock: newStageClock(h.Failpoint)}
	vif, err := a.awaitAddress(ctx)
	if err != nil {
		return err
	}
	_, err = a.makeInterface(ctx, vif, nil)
	return err
}

// HasPort reports whether the node has a logical port that serves a request of a pod.
func (h *Handler) HasPort(sandbox Sandbox, port, request string) bool {
	a := &adding{Handler: h, sandbox: sandbox, port: port, request: request}
	_, missing := a.findAddress()
	return missing == ""
}

// DetachPort removes an interface of a sandbox; none is no error.
func (h *Handler) DetachPort(ctx context.Context, port, containerID, ifName string) error {
	if err := h.Attachments.remove(ctx, port, containerID, ifName); err != nil {
		return err
	}
	return cni.Detach(containerID, ifName)
}

// UnplugPort is DetachPort for a pod that stays. It first waits until the operator has removed the port and ovn-controller
// has released the interface, because ovn-controller 25.03 aborts at times when both disappear at once: it writes to a
// row that is gone. It waits for releaseTimeout at most, and not at all for a port that serves another request now, or
// without ovn-controller.
func (h *Handler) UnplugPort(ctx context.Context, port, containerID, ifName string) error {
	if have, attached := h.Attachments.Get(port); attached && because(h.Controller) == "" {
		h.awaitRelease(ctx, have)
	}
	return h.DetachPort(ctx, port, containerID, ifName)
}

func (h *Handler) awaitRelease(ctx context.Context, have desired.Attachment) {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	err := h.Bindings.Wait(ctx, func() (bool, error) {
		binding, bound := h.Bindings.Find(have.InterfaceID)
		return !bound || binding.ExternalIDs[ovnexpr.RequestKey] != have.Request, nil
	})
	if _, bound := h.Bindings.Find(have.InterfaceID); err != nil || bound {
		return
	}
	_ = h.OVS.Wait(ctx, func() (bool, error) {
		row, ok := ovndb.Get[vswitchdb.Interface](h.OVS.Conn, desired.AttachmentInterfaceUUID(have))
		return !ok || !desired.Installed(row), nil
	})
}

// Differs reports whether an interface on a Network is no longer what its port says: the operator gave the port other
// addresses.
func (h *Handler) Differs(a desired.Attachment) bool {
	binding, ok := h.Bindings.Find(a.InterfaceID)
	return ok && h.DiffersFrom(a, binding)
}

// DiffersFrom is Differs for a binding that the caller has.
func (h *Handler) DiffersFrom(a desired.Attachment, binding *sbdb.PortBinding) bool {
	spec, _, _ := h.State.forPods()
	vif, err := desired.NewVIF(binding, spec)
	return err == nil && (vif.MAC.String() != a.MAC || !slices.Equal(vif.Addresses, a.Addresses) ||
		vif.Request != a.Request || vif.MTU != a.MTU)
}

// byAnnotation begins the name under which the agent records an interface that a pod requested by annotation. A CNI
// network cannot have such a name, so that GC of a CNI network leaves the interface alone, and the annotation's change
// leaves the interface of a meta plugin alone.
const byAnnotation = "network/"

// RecordedNetwork returns the name under which the agent records an interface on a Network.
func RecordedNetwork(network string) string { return byAnnotation + network }

// OnNetworks returns the interfaces of a sandbox on Networks that pods requested by annotation, in the order of their
// names.
func (a *Attachments) OnNetworks(containerID string) (found []desired.Attachment) {
	for _, have := range a.All() {
		if strings.HasPrefix(have.Network, byAnnotation) && have.ContainerID == containerID {
			found = append(found, have.Attachment)
		}
	}
	slices.SortFunc(found, func(x, y desired.Attachment) int { return cmp.Compare(x.IfName, y.IfName) })
	return found
}
