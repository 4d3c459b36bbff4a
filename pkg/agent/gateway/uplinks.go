package gateway

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
	"github.com/weft-network/weft/pkg/agent/nodeevents"
	"github.com/weft-network/weft/pkg/agent/uplink"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/ovndb"
)

// Reasons of events on the Node.
const (
	eventMoved      = "UplinkMoved"
	eventRolledBack = "UplinkRolledBack"
	eventAway       = "UplinkWithoutSwitch"
)

// RetryMove is the time after which a failed move is tried again. An attempt reads the whole Open_vSwitch database.
const RetryMove = time.Minute

// errWaiting means that a link may not be moved yet.
var errWaiting = errors.New("it waits for its turn to be moved onto an Open vSwitch bridge: " +
	"few nodes move at a time (spec.gateway.maxMoving), and none after one whose move was rolled back, " +
	"which ClusterNetwork's condition Degraded names")

// errMoving means that a link is being moved.
var errMoving = errors.New("it is being moved onto an Open vSwitch bridge")

// errDatabaseAway and errSwitchAway mean that a moved link has its addresses back, and which part of Open vSwitch does not run.
var (
	errDatabaseAway = errors.New("it has its addresses and routes back until Open vSwitch's database answers")
	errSwitchAway   = errors.New("it has its addresses and routes back until ovs-vswitchd runs")
)

// uplinks moves the node's link onto a bridge in the background. A move takes up to a minute, which must not delay the node's
// other stages.
type uplinks struct {
	mover   *uplink.Mover // nil: links stay where they are
	changed func()
	later   func() // enqueues a reconciliation after RetryMove

	mu     sync.Mutex
	busy   bool
	failed map[string]failure // by attempt
}

// failure is the outcome of a failed attempt.
type failure struct {
	at  time.Time
	err error
}

// move requests the node's turn from the operator and moves the link when the operator permits it. A moved link that has
// lost its bridge is moved at once, because the node may have no connection to the operator. So is a link that had its addresses back
// while Open vSwitch did not run.
func (r *Gateway) move(spec networkv1alpha1.NodeNetworkSpec, req uplink.Request) error {
	if r.uplinks.mover == nil {
		return errNoBridge
	}
	away := cmp.Or(req.Uplink, networkv1alpha1.UplinkBridge) == networkv1alpha1.UplinkBridge &&
		slices.ContainsFunc(r.uplinks.away(), func(b uplink.Bridge) bool { return !b.Physical && concerns(b, req.Interface) })
	if away {
		if err := r.switchAway(); err != nil {
			return err
		}
	}
	wanted := moveOf(req)
	r.request(wanted)
	if spec.Gateway.Move != wanted && !away && !r.uplinks.isMoved(req.Interface) {
		return errWaiting
	}
	return r.uplinks.ensure(r.Running, req)
}

// switchAway returns errDatabaseAway or errSwitchAway if Open vSwitch does not run. A move would fail, and not be repeated.
func (r *Gateway) switchAway() error {
	if !r.OVS.Connected() {
		return errDatabaseAway
	}
	if _, err := r.Switch.State(); err != nil {
		return fmt.Errorf("%w: %w", errSwitchAway, err)
	}
	return nil
}

// noSwitch returns the error of a stage without Open vSwitch's database. It names the links that have their addresses back.
func (r *Gateway) noSwitch() error {
	err := errors.New("Open vSwitch does not answer")
	for _, b := range r.uplinks.away() {
		err = fmt.Errorf("%w; link %s: %w", err, b.Interface, errDatabaseAway)
	}
	return err
}

// request requests a move of a link, unless this reconciliation requests another one already.
func (r *Gateway) request(move string) { r.moves = cmp.Or(r.moves, move) }

// moveOf returns the name of a move in the spec and the status of a NodeNetwork.
func moveOf(req uplink.Request) string {
	return fmt.Sprint(cmp.Or(req.Interface, "default"), " ", cmp.Or(req.Uplink, networkv1alpha1.UplinkBridge))
}

// bridges returns the bridges that links were moved to. An unreadable ledger counts as absent.
func (u *uplinks) bridges() []uplink.Bridge {
	if u.mover == nil {
		return nil
	}
	found, _ := u.mover.Bridges()
	return found
}

// isMoved reports whether the link, or the link of a bridge with that name, was moved. The empty name matches any link.
func (u *uplinks) isMoved(name string) bool {
	return slices.ContainsFunc(u.bridges(), func(b uplink.Bridge) bool { return !b.Physical && concerns(b, name) })
}

// away returns the bridges of links that have their addresses back until Open vSwitch runs. An unreadable ledger counts as absent.
func (u *uplinks) away() []uplink.Bridge {
	if u.mover == nil {
		return nil
	}
	found, _ := u.mover.Away()
	return found
}

// isAway is as isMoved, for links that have their addresses back until Open vSwitch runs.
func (u *uplinks) isAway(name string) bool {
	return slices.ContainsFunc(u.away(), func(b uplink.Bridge) bool { return concerns(b, name) })
}

// concerns reports whether a name is that of a bridge or its link, or empty.
func concerns(b uplink.Bridge, name string) bool {
	return name == "" || name == b.Name || name == b.Interface
}

// ensure starts to move the link. It returns errMoving until there is an outcome, and then the error of the move. After
// a success the caller finds the link on its bridge. A failure is kept until RetryMove has passed or another move is
// requested.
func (u *uplinks) ensure(running context.Context, req uplink.Request) error {
	if u.mover == nil {
		return errNoBridge
	}
	return u.attempt(req.String(), func() error {
		_, err := u.mover.Ensure(running, req)
		return err
	})
}

// attempt calls do in the background, unless the last failure of the same attempt is recent. Attempts run one after the
// other: the end of one enqueues a reconciliation, which makes the next.
func (u *uplinks) attempt(what string, do func() error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	last, failed := u.failed[what]
	if !u.busy && (!failed || time.Since(last.at) >= RetryMove) {
		u.busy = true
		go u.do(what, do)
	}
	if failed {
		return last.err
	}
	return errMoving
}

func (u *uplinks) do(what string, do func() error) {
	err := do()
	u.mu.Lock()
	u.busy = false
	delete(u.failed, what)
	if err != nil {
		if u.failed == nil {
			u.failed = map[string]failure{}
		}
		u.failed[what] = failure{time.Now(), err}
	}
	u.mu.Unlock()
	u.changed()
	if err != nil {
		u.later()
	}
}

// errGivesBack means that the gateway needs a link of OVN's alone for another use, and must leave the link before.
var errGivesBack = errors.New("the gateway leaves the link, which was OVN's alone, before it uses the link in common with the host")

// giveBack restores links that were moved for uplink Interface and that the gateway in effect no longer wants so, as soon as no
// router is connected with them.
func (r *Gateway) giveBack(gateway networkv1alpha1.NodeGateway) error {
	if r.uplinks.mover == nil {
		return nil
	}
	bridges, err := r.uplinks.mover.Bridges()
	for _, b := range bridges {
		if b.Alone && (!isApart(gateway) || !isNamed(gateway, b)) {
			_ = r.restore(b) // until it is restored, its end and RetryMove enqueue a reconciliation
		}
	}
	return err
}

// takeBack restores the link of uplink Bridge if it is OVN's alone. It returns errWaiting until it is the node's turn, and
// errGivesBack while the link is not restored.
func (r *Gateway) takeBack(node *corev1.Node, spec networkv1alpha1.NodeNetworkSpec) error {
	for _, b := range r.uplinks.bridges() {
		if !b.Alone || isApart(spec.Gateway) || !isNamed(spec.Gateway, b) {
			continue
		}
		wanted := moveOf(r.uplinkRequest(node, spec, spec.Gateway.Interface))
		if r.request(wanted); spec.Gateway.Move != wanted {
			return errWaiting
		}
		return fmt.Errorf("link %s: %w: %w", b.Interface, errGivesBack, r.restore(b))
	}
	return nil
}

// isNamed reports whether a gateway's interface is a bridge or its link.
func isNamed(gateway networkv1alpha1.NodeGateway, b uplink.Bridge) bool {
	return gateway.Interface != "" && concerns(b, gateway.Interface)
}

// restore restores a link that was moved, unless a router is connected with it. It returns errMoving until there is an outcome.
func (r *Gateway) restore(b uplink.Bridge) error {
	patch := names.PatchToIntegration(names.Localnet(b.Name, r.Node))
	if _, connected := ovndb.Find(r.OVS.Conn, &vswitchdb.Interface{Name: patch}); connected {
		return errMoving
	}
	return r.uplinks.attempt("give back "+b.Interface, func() error { return r.uplinks.mover.GiveBack(r.Running, b.Interface) })
}

// lend sets the addresses and next hops of a bridge's link to their values before the move for uplink Interface, because
// the host has no addresses there.
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
	return fmt.Errorf("%w: bridge %s is the host's too, and uplink Interface wants a link for OVN alone: "+
		"name one that is on no bridge", uplink.ErrRefused, link.Name)
}

// isAlone reports whether a link was moved to a bridge for uplink Interface.
func (u *uplinks) isAlone(bridge string) bool {
	return slices.ContainsFunc(u.bridges(), func(b uplink.Bridge) bool { return b.Alone && b.Name == bridge })
}

// linkOf returns the link that was moved to a bridge. It is empty if Weft did not create the bridge.
func (u *uplinks) linkOf(bridge string) string {
	for _, b := range u.bridges() {
		if b.Name == bridge {
			return b.Interface
		}
	}
	return ""
}

// reasonOfOutside returns the condition's reason while no bridge leads outside.
func reasonOfOutside(err error) string {
	switch {
	case errors.Is(err, errDatabaseAway):
		return networkv1alpha1.ReasonDatabaseUnavailable
	case errors.Is(err, errSwitchAway):
		return networkv1alpha1.ReasonSwitchUnavailable
	case errors.Is(err, errWaiting):
		return networkv1alpha1.ReasonUplinkWaiting
	case errors.Is(err, errMoving):
		return networkv1alpha1.ReasonUplinkMoving
	case errors.Is(err, uplink.ErrRefused):
		return networkv1alpha1.ReasonUplinkRefused
	case errors.Is(err, uplink.ErrRolledBack):
		return networkv1alpha1.ReasonUplinkRolledBack
	case errors.Is(err, errNextHop), errors.Is(err, errSilent):
		return networkv1alpha1.ReasonNextHopsUnusable
	}
	return networkv1alpha1.ReasonNoUplink
}

// MoveEncapsulation moves a link that has an encapsulation address, if the gateway permits it. The node's tunnels
// need that on the userspace datapath, and the gateway's own stage comes only later. A link that was moved before is moved again in any
// mode. It returns the reason and the error of the caller's stage. missing is the error to return without a move.
func (r *Gateway) MoveEncapsulation(node *corev1.Node, spec networkv1alpha1.NodeNetworkSpec, link string, missing error) (string, error) {
	if spec.Gateway.Mode != networkv1alpha1.GatewayShared && !r.uplinks.isAway(link) {
		return networkv1alpha1.ReasonNoUplink, missing
	}
	req := r.uplinkRequest(node, spec, link)
	if link != spec.Gateway.Interface {
		req.Uplink = networkv1alpha1.UplinkBridge // the host keeps its address
	}
	if err := r.move(spec, req); !errors.Is(err, errNoBridge) {
		return reasonOfOutside(err), fmt.Errorf("link %s has an encapsulation address: %w", link, err)
	}
	return networkv1alpha1.ReasonNoUplink, missing
}

// uplinkRequest returns the node's request for an uplink. It omits an API server behind a service's address, whose
// answer would not prove that the link works.
func (r *Gateway) uplinkRequest(node *corev1.Node, spec networkv1alpha1.NodeNetworkSpec, link string) uplink.Request {
	req := uplink.Request{
		Interface: link, Uplink: spec.Gateway.Uplink, NodeAddresses: desired.InternalIPs(node), APIServer: r.APIServer,
	}
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

// ReportMoves returns a function that records an event on the Node for each move, each rollback, and each link that has its addresses
// back.
func ReportMoves(recorder events.EventRecorder, node string) func(link, bridge string, err error) {
	regarding := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node}
	return func(link, bridge string, err error) {
		if errors.Is(err, uplink.ErrAway) {
			recorder.Eventf(regarding, nil, corev1.EventTypeWarning, eventAway, "RestoreUplink",
				"link %s has the addresses and routes of bridge %s until Open vSwitch runs", link, bridge)
			return
		}
		if err != nil {
			note := nodeevents.Note(fmt.Errorf("link %s is as before: %w", link, err))
			recorder.Eventf(regarding, nil, corev1.EventTypeWarning, eventRolledBack, "MoveUplink", "%s", note)
			return
		}
		recorder.Eventf(regarding, nil, corev1.EventTypeNormal, eventMoved, "MoveUplink",
			"link %s is a port of bridge %s, which has its addresses and routes", link, bridge)
	}
}
