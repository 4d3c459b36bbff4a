// Package node makes the node match its NodeNetwork and reports the result in the NodeNetwork's status.
package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/addressprobe"
	"github.com/weft-network/weft/pkg/agent/attach"
	"github.com/weft-network/weft/pkg/agent/bgp"
	"github.com/weft-network/weft/pkg/agent/bindings"
	"github.com/weft-network/weft/pkg/agent/cniconfig"
	"github.com/weft-network/weft/pkg/agent/daemon"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/gateway"
	"github.com/weft-network/weft/pkg/agent/hostnet"
	"github.com/weft-network/weft/pkg/agent/ipsec"
	"github.com/weft-network/weft/pkg/agent/learning"
	"github.com/weft-network/weft/pkg/agent/nodeevents"
	"github.com/weft-network/weft/pkg/agent/prober"
	"github.com/weft-network/weft/pkg/agent/wildcards"
	"github.com/weft-network/weft/pkg/health"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/unit"
)

// startGrace is how long an agent that starts on a ready node does not report it as unready. The agent must first
// connect to the databases, while pods work as before.
const startGrace = 10 * time.Second

// Reconciler makes the node match its NodeNetwork and reports the result in the NodeNetwork's status. It has one
// request: the node.
type Reconciler struct {
	Client  client.Client
	Node    string
	Version string // of the agent
	// Events, if set, receives an event for each condition that changes.
	Events   events.EventRecorder
	Datapath networkv1alpha1.DatapathType

	OVS      *ovndb.Engine // of the Open_vSwitch database
	Bindings *bindings.Bindings
	// Controller is ovn-controller, and Switch is ovs-vswitchd. ControllerRemotes are the southbound remotes for
	// ovn-controller.
	Controller, Switch *daemon.Daemon
	ControllerRemotes  []string

	Attachments *attach.Attachments
	Foreign     *attach.ForeignHosts
	State       *attach.State
	Check       *attach.SelfCheck
	CNI         *cniconfig.Config
	Prober      *prober.Prober
	Gateway     *gateway.Gateway
	BGP         *bgp.Speaker
	Learning    *learning.Keeper
	Wildcards   *wildcards.Watch
	Addresses   *addressprobe.Prober
	IPsec       *ipsec.Tunnels
	// Running ends with the agent. It outlives a reconciliation.
	Running context.Context

	started  time.Time
	settled  bool // all stages were good at least once since the start
	resized  int  // MTU that all running pods have; 0: unknown
	reported reported
}

// New returns a reconciler for an agent that starts now.
func New(r Reconciler) *Reconciler {
	r.started = time.Now()
	return &r
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	var node corev1.Node
	if err := r.Client.Get(ctx, types.NamespacedName{Name: r.Node}, &node); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	nn := &networkv1alpha1.NodeNetwork{}
	if err := r.Client.Get(ctx, types.NamespacedName{Name: r.Node}, nn); apierrors.IsNotFound(err) {
		nn = nil
	} else if err != nil {
		return ctrl.Result{}, err
	}
	nn = r.reported.latest(nn)
	health := r.apply(ctx, &node, nn)
	if ctx.Err() != nil {
		return ctrl.Result{}, nil // the agent ends, and the connections that it closed must not be reported
	}
	wait := r.grace(nn, health)
	var err error
	if wait == 0 {
		err = r.report(ctx, nn, health)
	}
	for _, stage := range slices.Concat(health.Stages, health.Notes) {
		if retryable(stage) {
			err = errors.Join(err, stage.Err)
		}
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: wait}, nil
}

// grace returns how long to wait before a node that was ready is reported as unready, because its agent has just
// started.
func (r *Reconciler) grace(nn *networkv1alpha1.NodeNetwork, h desired.Health) time.Duration {
	r.settled = r.settled || h.Good()
	if r.settled || !isReady(nn) {
		return 0
	}
	return max(0, time.Until(r.started.Add(startGrace)))
}

// isReady reports whether the status has Ready=True, also from an earlier agent.
func isReady(nn *networkv1alpha1.NodeNetwork) bool {
	return nn != nil && meta.IsStatusConditionTrue(nn.Status.Conditions, networkv1alpha1.ConditionReady)
}

// retryable reports whether to retry a failed stage. A stage that waits for another component is enqueued by an event
// instead.
func retryable(s desired.Stage) bool {
	return s.Err != nil && (s.Reason == networkv1alpha1.ReasonHostError || s.Reason == networkv1alpha1.ReasonDatabaseError)
}

// apply runs the stages in order. A failed stage does not stop the others, so that each reports its own error.
func (r *Reconciler) apply(ctx context.Context, node *corev1.Node, nn *networkv1alpha1.NodeNetwork) desired.Health {
	h := desired.Health{}
	var spec networkv1alpha1.NodeNetworkSpec
	if nn != nil {
		// While a database is disconnected, the status keeps its last data, because the operator depends on it.
		spec, h.Status = nn.Spec, *nn.Status.DeepCopy()
		h.Status.ForeignHosts = r.Foreign.Report(h.Status.ForeignHosts, time.Now()) // before the first pod is attached
	}
	if r.Bindings.Connected() {
		h.Used = r.Bindings.Pods()
	} else if h.Status.Addresses != nil {
		h.Used = int(h.Status.Addresses.Used)
	}
	h.Status.AgentVersion = r.Version
	r.Gateway.Begin()
	h.Status.Probe = r.Prober.Status(nn)
	ovs := r.applyOVS(ctx, node, spec, &h.Status)
	controller := r.checkController(ctx, &h.Status)
	mtu := podMTU(spec, h.Status)
	r.State.Set(nn != nil, spec, mtu, h.Status.DatapathType)
	r.Bindings.Wake()
	r.State.Notify()
	if err := r.resize(mtu); err != nil {
		ctrl.LoggerFrom(ctx).Info("cannot change the MTU of running pods; retrying at the next reconciliation",
			"mtu", mtu, "reason", err.Error())
	}
	management := r.applyManagementPort(ctx, spec, mtu, &h.Status)
	h.Status.Pods = int32(r.Attachments.Count())
	h.Stages = []desired.Stage{ovs, controller, management}
	h.Stages = append(h.Stages, r.applyCNI(h.Stages))
	physical := r.Gateway.ApplyPhysical(ctx, node, spec, &h.Status)
	h.Notes = []desired.Stage{r.Check.Stage(), physical, r.Gateway.Apply(ctx, node, spec, &h.Status)}
	if announced := r.applyBGP(spec, &h.Status); spec.BGP != nil {
		h.Notes = append(h.Notes, announced)
	}
	if observed := r.applyWildcards(spec.Wildcards, &h.Status); spec.Wildcards != nil {
		h.Notes = append(h.Notes, observed)
	}
	if encrypted := r.applyIPsec(ctx, spec.Encryption, &h.Status); spec.Encryption != "" || encrypted.Err != nil {
		h.Notes = append(h.Notes, encrypted)
	}
	if h.Status.Gateway != nil {
		h.Status.Gateway.ProbesAddresses = true
	}
	h.Status.Probed = r.Addresses.Follow(spec.ProbeAddresses, h.Status.Gateway, h.Status.Probed)
	r.Gateway.ReportGatewayNetwork(ctx, &h.Status)
	if r.OVS.Connected() {
		h.Status.Move = r.Gateway.Move()
	}
	return h
}

// applyBGP announces the node's routes. Without a NodeNetwork the node announces nothing.
func (r *Reconciler) applyBGP(spec networkv1alpha1.NodeNetworkSpec, status *networkv1alpha1.NodeNetworkStatus) desired.Stage {
	stage := desired.Stage{Type: networkv1alpha1.ConditionRoutesAnnounced}
	refuse := func(router netip.Addr) (bool, string) { return r.Gateway.RefusesBFD(spec, router) }
	if err := r.BGP.Apply(spec.BGP, refuse); err != nil {
		stage.Reason, stage.Err = networkv1alpha1.ReasonHostError, err
	}
	status.BGP = r.BGP.Status()
	if stage.Err == nil {
		stage.Reason, stage.Err = desired.SessionsDown(status.BGP)
	}
	return stage
}

// applyWildcards observes the addresses of names with wildcards. Without a NodeNetwork the node observes nothing.
func (r *Reconciler) applyWildcards(want *networkv1alpha1.NodeWildcards, status *networkv1alpha1.NodeNetworkStatus) desired.Stage {
	stage := desired.Stage{Type: networkv1alpha1.ConditionWildcardsObserved}
	err := r.Wildcards.Apply(r.Running, want, status.Wildcards)
	var full bool
	status.Wildcards, full = r.Wildcards.Known()
	switch {
	case err != nil:
		stage.Reason, stage.Err = networkv1alpha1.ReasonHostError, err
	case full:
		stage.Reason, stage.Err = networkv1alpha1.ReasonTooManyAddresses, wildcards.ErrFull
	}
	return stage
}

// applyOVS creates the bridge and registers the chassis.
func (r *Reconciler) applyOVS(
	ctx context.Context, node *corev1.Node, spec networkv1alpha1.NodeNetworkSpec, status *networkv1alpha1.NodeNetworkStatus,
) desired.Stage {
	stage := desired.Stage{Type: networkv1alpha1.ConditionOVSReady}
	ovs, ok := ovndb.Only[vswitchdb.OpenvSwitch](r.OVS.Conn)
	if !ok {
		stage.Reason, stage.Err = networkv1alpha1.ReasonDatabaseUnavailable, errors.New("Open vSwitch does not answer")
		return stage
	}
	if version, _ := r.Switch.State(); version != "" {
		status.OVSVersion = version[strings.LastIndexByte(version, ' ')+1:] // the version is "(Open vSwitch) 3.5.0"
	} else if ovs.OVSVersion != nil {
		status.OVSVersion = *ovs.OVSVersion // set by the script that started Open vSwitch, if any
	}
	chassis, err := r.chassis(node, ovs, spec, status)
	if missing := (*uplinkError)(nil); errors.As(err, &missing) {
		stage.Reason, stage.Err = r.Gateway.MoveEncapsulation(node, spec, missing.tunnel.Link, err)
		return stage
	} else if err != nil {
		stage.Reason, stage.Err = networkv1alpha1.ReasonHostError, err
		return stage
	}
	chassis.Southbound, chassis.Zoned = desired.ControllerRemotes(spec, r.ControllerRemotes), len(spec.TransitAddresses) > 0
	r.Bindings.Redirect(desired.ReaderRemotes(spec, r.Bindings.Remotes))
	registration, former := desired.Registration(chassis), ovs.ExternalIDs[desired.RemoteKey]
	for _, u := range []unit.Unit{registration, desired.IntegrationBridge(chassis.Datapath, r.foreignBridge())} {
		if err := r.OVS.Apply(ctx, u); err != nil {
			stage.Reason, stage.Err = desired.ReasonOf(ovndb.IsPending(err)), err
			return stage
		}
	}
	if former != "" && former != strings.Join(chassis.Southbound, ",") {
		r.forgetCluster(ctx)
	}
	r.Bindings.Start(r.Running, chassis.SystemID)
	if err := r.Attachments.Restore(ctx); err != nil {
		stage.Reason, stage.Err = networkv1alpha1.ReasonHostError, err
	} else if err := r.Attachments.Follow(ctx); err != nil {
		stage.Reason, stage.Err = desired.ReasonOf(ovndb.IsPending(err)), err
	} else if _, err := r.Switch.State(); err != nil {
		stage.Reason, stage.Err = networkv1alpha1.ReasonSwitchUnavailable, err
	} else {
		r.Learning.Follow(r.Running, desired.BalancingDatapaths(spec)...)
	}
	return stage
}

// chassis collects the settings for ovn-controller. It keeps a system-id that exists at the start. If Open vSwitch has lost
// the system-id, chassis restores the reported one, because ports request it.
func (r *Reconciler) chassis(
	node *corev1.Node, ovs *vswitchdb.OpenvSwitch, spec networkv1alpha1.NodeNetworkSpec, status *networkv1alpha1.NodeNetworkStatus,
) (desired.Chassis, error) {
	c := desired.Chassis{
		Node: r.Node, Southbound: r.ControllerRemotes, Datapath: r.Datapath,
		SystemID: cmp.Or(r.Bindings.SystemID(), ovs.ExternalIDs["system-id"], status.Chassis, r.Node),
	}
	status.Chassis, status.DatapathType, status.EncapType = c.SystemID, c.Datapath, networkv1alpha1.EncapsulationGeneve
	tunnels, err := r.tunnels(node, spec.Encapsulation, status)
	if err != nil {
		return c, err
	}
	for _, t := range tunnels {
		if err := r.checkUplink(c.Datapath, t); err != nil {
			return c, err
		}
	}
	status.LinkMTU, status.FurtherEncapIPs = int32(tunnels[0].MTU), nil
	for i, t := range tunnels {
		c.Tunnels = append(c.Tunnels, t.Address)
		status.LinkMTU = min(status.LinkMTU, int32(t.MTU))
		if i > 0 {
			status.FurtherEncapIPs = append(status.FurtherEncapIPs, networkv1alpha1.IP(t.Address.String()))
		}
	}
	status.EncapIP = networkv1alpha1.IP(c.Tunnels[0].String())
	r.Attachments.SetTunnels(c.Tunnels)
	return c, nil
}

// foreignBridge returns the UUID of a br-int that Weft did not create. It is empty if br-int is Weft's or does not
// exist.
func (r *Reconciler) foreignBridge() string {
	bridge, ok := ovndb.Find(r.OVS.Conn, &vswitchdb.Bridge{Name: names.IntegrationBridge})
	if !ok || bridge.UUID == desired.IntegrationBridgeUUID("") {
		return ""
	}
	return bridge.UUID
}

// Bridge returns the UUID of br-int once it exists.
func Bridge(ovs *ovndb.Engine) (uuid string, ok bool) {
	bridge, ok := ovndb.Find(ovs.Conn, &vswitchdb.Bridge{Name: names.IntegrationBridge})
	if !ok {
		return "", false
	}
	return bridge.UUID, true
}

func (r *Reconciler) checkController(ctx context.Context, status *networkv1alpha1.NodeNetworkStatus) desired.Stage {
	stage := desired.Stage{Type: networkv1alpha1.ConditionControllerReady}
	version, err := r.Controller.State()
	if version != "" {
		status.OVNVersion = version
	}
	switch {
	case err != nil:
		stage.Reason, stage.Err = networkv1alpha1.ReasonControllerUnavailable, err
	case !r.Bindings.Connected():
		stage.Reason = networkv1alpha1.ReasonDatabaseUnavailable
		stage.Err = fmt.Errorf("the OVN southbound database %v is not connected", r.Bindings.Endpoints())
	case r.Controller.Trouble() != "":
		r.forgetCluster(ctx)
		stage.Reason = networkv1alpha1.ReasonDatabaseUnavailable
		stage.Err = fmt.Errorf("ovn-controller does not reach the OVN southbound database, and the agent does: "+
			"it is %s; its log says why, and its flows stay as they are", r.Controller.Trouble())
	case !r.Bindings.Registered():
		stage.Reason = networkv1alpha1.ReasonWaitingForChassis
		stage.Err = fmt.Errorf("ovn-controller has not registered chassis %s", r.Bindings.SystemID())
	}
	return stage
}

// forgetCluster makes ovn-controller forget how much it has read of the databases' cluster. Servers of another cluster count
// from the start, so that it would take their data for outdated until they have counted as far.
func (r *Reconciler) forgetCluster(ctx context.Context) {
	if err := r.Controller.Call(ctx, "sb-cluster-state-reset"); err != nil {
		ctrl.LoggerFrom(ctx).Info("ovn-controller may take the data of another cluster for outdated", "reason", err.Error())
	}
}

// podMTU returns the MTU that the operator has set or, until then, the MTU that fits this node's link.
func podMTU(spec networkv1alpha1.NodeNetworkSpec, status networkv1alpha1.NodeNetworkStatus) int {
	if spec.MTU > 0 {
		return int(spec.MTU)
	}
	return int(networkv1alpha1.PodMTU(status.LinkMTU, status.EncapIP, spec.Encapsulation.Encryption))
}

// applyManagementPort creates the host's port and, once its link exists, its addresses and routes.
func (r *Reconciler) applyManagementPort(
	ctx context.Context, spec networkv1alpha1.NodeNetworkSpec, mtu int, status *networkv1alpha1.NodeNetworkStatus,
) desired.Stage {
	stage := desired.Stage{Type: networkv1alpha1.ConditionManagementPortReady}
	bridge, ok := Bridge(r.OVS)
	switch {
	case !ok:
		stage.Reason, stage.Err = networkv1alpha1.ReasonDatabaseUnavailable, fmt.Errorf("bridge %s is not there", names.IntegrationBridge)
		return stage
	case len(spec.PodSubnets) == 0:
		stage.Reason, stage.Err = networkv1alpha1.ReasonWaitingForSpec, errors.New("the operator has not given this node a pod subnet yet")
		return stage
	}
	if err := r.OVS.Apply(ctx, desired.ManagementPort(r.Node, spec, mtu, bridge)); err != nil {
		stage.Reason, stage.Err = desired.ReasonOf(ovndb.IsPending(err)), err
		return stage
	}
	status.ManagementPort = networkv1alpha1.ManagementPortStatus{
		Name: names.ManagementInterface, MACAddress: spec.ManagementPort.MACAddress,
	}
	stage.Reason, stage.Err = r.checkManagementPort(ctx, spec, status.Gateway, mtu)
	return stage
}

func (r *Reconciler) checkManagementPort(ctx context.Context, spec networkv1alpha1.NodeNetworkSpec,
	reported *networkv1alpha1.NodeGatewayStatus, mtu int) (string, error) {
	row, ok := ovndb.Find(r.OVS.Conn, &vswitchdb.Interface{Name: names.ManagementInterface})
	if !ok || row.Ofport == nil || *row.Ofport < 0 {
		return networkv1alpha1.ReasonDatabaseUnavailable, fmt.Errorf("ovs-vswitchd has not made %s yet", names.ManagementInterface)
	}
	spec.Gateway.Mode = desired.HostMode(spec, reported)
	host, err := desired.NewHost(spec, mtu)
	if err != nil {
		return networkv1alpha1.ReasonInvalidSpec, err
	}
	var paths []desired.Path
	for _, d := range r.Gateway.Configured {
		if via, ok := hostnet.Route(d.Address, names.ManagementInterface); ok {
			paths = append(paths, desired.Path{To: d.Address, Via: via})
		}
	}
	if err := host.Spares(spec, paths); err != nil {
		return networkv1alpha1.ReasonInvalidSpec, err
	}
	if err := r.Gateway.ApplyHost(ctx, names.ManagementInterface, desired.ManagementPortKey(), host); err != nil {
		return networkv1alpha1.ReasonHostError, err
	}
	if !desired.Installed(row) {
		return networkv1alpha1.ReasonWaitingForChassis,
			fmt.Errorf("ovn-controller has not installed the flows of %s", names.ManagementInterface)
	}
	return "", nil
}

// applyCNI writes the CNI configuration after all stages before it have succeeded. If a stage fails later, the file
// stays, because the runtime must not fall back to another plugin. STATUS then reports the failure.
func (r *Reconciler) applyCNI(before []desired.Stage) desired.Stage {
	stage := desired.Stage{Type: networkv1alpha1.ConditionCNIReady}
	for _, s := range before {
		if s.Err != nil && !r.CNI.Written() {
			stage.Reason, stage.Err = networkv1alpha1.ReasonNotReady, fmt.Errorf("waits for %s", s.Type)
			return stage
		}
	}
	if err := errors.Join(r.Attachments.Copied(), r.CNI.Write()); err != nil {
		stage.Reason, stage.Err = networkv1alpha1.ReasonHostError, err
	} else if other := r.CNI.Other(); other != "" {
		stage.Reason = networkv1alpha1.ReasonOtherConfiguration
		stage.Err = fmt.Errorf("the runtime takes %s, which sorts before %s and does not hand on to it: "+
			"new pods get another network", other, cniconfig.Name)
	}
	return stage
}

// resize gives running pods the node's MTU after it has changed, and once after a start. The next reconciliation retries
// a failure.
func (r *Reconciler) resize(mtu int) error {
	if mtu == 0 || mtu == r.resized || !r.Attachments.Ready() {
		return nil
	}
	if err := r.Attachments.Resize(mtu); err != nil {
		return err
	}
	r.resized = mtu
	return nil
}

// recordChanges records an event for each condition of the node that changed. It is called after a successful write,
// which proves that before was the previous version.
func (r *Reconciler) recordChanges(before *networkv1alpha1.NodeNetwork, now []metav1.Condition) {
	if r.Events == nil {
		return
	}
	for _, change := range health.Changes(before.Status.Conditions, now) {
		severity := corev1.EventTypeNormal
		if change.Bad {
			severity = corev1.EventTypeWarning
		}
		r.Events.Eventf(before, nil, severity, change.Reason, "Report"+change.Type, "%s",
			nodeevents.Note(fmt.Errorf("%s is %s: %s", change.Type, change.Status, change.Message)))
	}
}

// report writes the status if it differs. It does nothing without a NodeNetwork, whose creation enqueues another
// reconciliation.
func (r *Reconciler) report(ctx context.Context, nn *networkv1alpha1.NodeNetwork, h desired.Health) error {
	if nn == nil {
		return nil
	}
	want := desired.NodeStatus(nn, h)
	if equality.Semantic.DeepEqual(want, nn.Status) {
		return nil
	}
	patched := nn.DeepCopy()
	patched.Status = want
	// A merge patch replaces the list of conditions, and the operator has one in the same list. With the resource
	// version, the API server refuses a patch that is based on an older list.
	if err := r.Client.Status().Patch(ctx, patched, client.MergeFromWithOptions(nn, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	r.reported.over(nn.ResourceVersion, patched)
	r.recordChanges(nn, want.Conditions)
	return nil
}
