package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/uplink"
	"github.com/weft-network/weft/pkg/names"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/vswitchdb"
)

// Reasons of events on the Node.
const (
	eventMoved      = "UplinkMoved"
	eventRolledBack = "UplinkRolledBack"
)

// lookAgain is how long an outcome stands before it is looked for again: that reads all of Open vSwitch's database.
const lookAgain = time.Minute

// errWaiting says that a link may not be moved yet.
var errWaiting = errors.New("it waits for its turn to be moved onto an Open vSwitch bridge: few nodes move at a time (spec.gateway.maxMoving), and none after one whose move was rolled back, which ClusterNetwork's condition Degraded names")

// errMoving says that a link is on its way.
var errMoving = errors.New("it is being moved onto an Open vSwitch bridge")

// uplinks moves the node's link onto a bridge in the background: that takes up to a minute, which the node's other stages do not wait for.
type uplinks struct {
	mover   *uplink.Mover // nil: links are left where they are
	changed func()
	later   func() // asks for a reconciliation after lookAgain

	mu    sync.Mutex
	busy  bool
	asked string // what the outcome is of
	since time.Time
	err   error
}

// move asks the operator for the node's turn, and has the link moved when it is. A link that was moved before and has lost its bridge may cut
// the node off from the operator, and is moved at once.
func (r *nodeReconciler) move(spec networkv1alpha1.NodeNetworkSpec, req uplink.Request) error {
	if r.uplinks.mover == nil {
		return errNoBridge
	}
	wanted := moveOf(req)
	if r.moves == "" {
		r.moves = wanted
	}
	if spec.Gateway.Move != wanted && !r.uplinks.isMoved(req.Interface) {
		return errWaiting
	}
	return r.uplinks.ensure(r.running, req)
}

// moveOf names a move as spec and status of a NodeNetwork do.
func moveOf(req uplink.Request) string {
	return fmt.Sprint(cmp.Or(req.Interface, "default"), " ", cmp.Or(req.Uplink, networkv1alpha1.UplinkBridge))
}

// isMoved reports whether the link, or a bridge of that name, is one that was moved; the empty name is any.
func (u *uplinks) isMoved(name string) bool {
	bridges, _ := u.mover.Bridges()
	return slices.ContainsFunc(bridges, func(b uplink.Bridge) bool { return name == "" || name == b.Name || name == b.Interface })
}

// ensure has the link moved. It returns errMoving until there is an outcome, and then why the link is not moved; one that was moved is found
// on its bridge. An outcome stands until it is old or another is asked for.
func (u *uplinks) ensure(running context.Context, req uplink.Request) error {
	if u.mover == nil {
		return errNoBridge
	}
	return u.attempt(req.String(), func() error {
		_, err := u.mover.Ensure(running, req)
		return err
	})
}

// attempt does something in the background, unless the last outcome still stands.
func (u *uplinks) attempt(what string, do func() error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	known := u.err != nil && u.asked == what
	if !u.busy && (!known || time.Since(u.since) >= lookAgain) {
		u.busy = true
		go u.do(what, do)
	}
	if known {
		return u.err
	}
	return errMoving
}

func (u *uplinks) do(what string, do func() error) {
	err := do()
	u.mu.Lock()
	u.busy, u.asked, u.since, u.err = false, what, time.Now(), err
	u.mu.Unlock()
	u.changed()
	if err != nil {
		u.later()
	}
}

// giveBack brings back the links that OVN had alone and is not to have any more, as soon as no router is connected with them. It returns
// errMoving while the gateway itself is to use such a link otherwise.
func (r *nodeReconciler) giveBack(gateway networkv1alpha1.NodeGateway) error {
	if r.uplinks.mover == nil {
		return nil
	}
	bridges, err := r.uplinks.mover.Bridges()
	for _, b := range bridges {
		named := gateway.Interface == b.Interface || gateway.Interface == b.Name
		if !b.Alone || named && isApart(gateway) {
			continue
		}
		outcome := errMoving
		if _, connected := ovndb.Find(r.ovs.Conn, &vswitchdb.Interface{Name: names.PatchToIntegration(names.Localnet(b.Name, r.node))}); !connected {
			outcome = r.uplinks.attempt("give back "+b.Interface, func() error { return r.uplinks.mover.GiveBack(r.running, b.Interface) })
		}
		if named && gateway.Mode == networkv1alpha1.GatewayShared {
			err = errors.Join(err, fmt.Errorf("link %s was OVN's alone and comes back: %w", b.Interface, outcome))
		}
	}
	return err
}

// lend gives a bridge's link what the host's link had that OVN has alone: the host has no address there.
func (u *uplinks) lend(link *desired.Link) error {
	if u.mover == nil {
		return nil
	}
	bridges, err := u.mover.Bridges()
	if err != nil {
		return err
	}
	for _, bridge := range bridges {
		if bridge.Name == link.Name && bridge.Alone {
			link.Addresses, link.NextHops = bridge.Addresses, bridge.NextHops
			return nil
		}
	}
	return fmt.Errorf("%w: bridge %s is the host's too, and uplink Interface wants a link for OVN alone: name one that is on no bridge", uplink.ErrRefused, link.Name)
}

// linkOf is the link that was moved to a bridge; empty: somebody else made the bridge.
func (u *uplinks) linkOf(bridge string) string {
	if u.mover == nil {
		return ""
	}
	bridges, _ := u.mover.Bridges() // one that cannot be read is nobody's
	for _, b := range bridges {
		if b.Name == bridge {
			return b.Interface
		}
	}
	return ""
}

// reasonOfOutside is the condition's while no bridge leads outside.
func reasonOfOutside(err error) string {
	switch {
	case errors.Is(err, errWaiting):
		return networkv1alpha1.ReasonUplinkWaiting
	case errors.Is(err, errMoving):
		return networkv1alpha1.ReasonUplinkMoving
	case errors.Is(err, uplink.ErrRefused):
		return networkv1alpha1.ReasonUplinkRefused
	case errors.Is(err, uplink.ErrRolledBack):
		return networkv1alpha1.ReasonUplinkRolledBack
	}
	return networkv1alpha1.ReasonNoUplink
}

// moveEncapsulation has the link moved that holds the encapsulation address, where it may be: on the userspace datapath the node is on no
// network before, so that nothing of the gateway is known yet. The reason and the error are the stage's; missing is its own.
func (r *nodeReconciler) moveEncapsulation(node *corev1.Node, spec networkv1alpha1.NodeNetworkSpec, missing error) (string, error) {
	link, _ := r.uplink.Load().(string)
	if spec.Gateway.Mode != networkv1alpha1.GatewayShared || link == "" {
		return networkv1alpha1.ReasonNoUplink, missing
	}
	req := r.uplinkRequest(node, spec, link)
	if link != spec.Gateway.Interface {
		req.Uplink = networkv1alpha1.UplinkBridge // the host's address stays the host's
	}
	if err := r.move(spec, req); !errors.Is(err, errNoBridge) {
		return reasonOfOutside(err), fmt.Errorf("link %s has the encapsulation address: %w", link, err)
	}
	return networkv1alpha1.ReasonNoUplink, missing
}

// uplinkRequest is what the node's gateway wants of a link. An API server behind a service's address tells nothing of the link.
func (r *nodeReconciler) uplinkRequest(node *corev1.Node, spec networkv1alpha1.NodeNetworkSpec, link string) uplink.Request {
	req := uplink.Request{Interface: link, Uplink: spec.Gateway.Uplink, NodeAddresses: internalIPs(node), APIServer: r.apiServer}
	for _, text := range spec.ServiceSubnets {
		if services, err := text.Prefix(); err == nil && services.Contains(req.APIServer.Addr()) {
			req.APIServer = netip.AddrPort{}
		}
	}
	for _, text := range spec.Gateway.NextHops {
		if hop, err := text.Addr(); err == nil {
			req.NextHops = append(req.NextHops, hop)
		}
	}
	return req
}

// tellNode makes an event of each move and rollback.
func tellNode(recorder events.EventRecorder, node string) func(link, bridge string, err error) {
	regarding := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node}
	return func(link, bridge string, err error) {
		if err != nil {
			recorder.Eventf(regarding, nil, corev1.EventTypeWarning, eventRolledBack, "MoveUplink", "%s", noteOf(fmt.Errorf("link %s is as before: %w", link, err)))
			return
		}
		recorder.Eventf(regarding, nil, corev1.EventTypeNormal, eventMoved, "MoveUplink", "link %s is a port of bridge %s, which has its addresses and routes", link, bridge)
	}
}
