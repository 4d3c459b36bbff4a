package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/hostnet"
	"github.com/weft-network/weft/pkg/names"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/trigger"
	"github.com/weft-network/weft/pkg/unit"
	"github.com/weft-network/weft/pkg/vswitchdb"
)

// nodeReconciler keeps the node as its NodeNetwork says, and says in its status how that goes. It has one request: the node.
type nodeReconciler struct {
	client      client.Client
	node        string
	version     string
	events      events.EventRecorder // nil: changes of conditions are not told
	ovs         *ovndb.Engine
	southbound  *southbound
	controller  *daemon
	vswitchd    *daemon
	attachments *attachments
	state       *nodeState
	cni         *cniConfig
	check       *selfCheck
	prober      *prober
	reported    reported
	trigger     *trigger.Trigger
	datapath    networkv1alpha1.DatapathType
	started     time.Time
	settled     bool      // all was good once since the start
	resized     int       // MTU that all running pods have; 0: not known
	outside     *outside  // the link to the outside
	services    *services // what is reached from outside
	uplinks     *uplinks
	moves       string // the move of a link that this look at the node found wanting
	apiServer   netip.AddrPort
	uplink      atomic.Value    // name of the link that holds the encapsulation address: a string
	running     context.Context // ends with the agent; outlives a reconciliation
}

// Reconcile implements reconcile.Reconciler.
func (r *nodeReconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	var node corev1.Node
	if err := r.client.Get(ctx, types.NamespacedName{Name: r.node}, &node); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	nn := &networkv1alpha1.NodeNetwork{}
	if err := r.client.Get(ctx, types.NamespacedName{Name: r.node}, nn); apierrors.IsNotFound(err) {
		nn = nil
	} else if err != nil {
		return ctrl.Result{}, err
	}
	nn = r.reported.latest(nn)
	health := r.apply(ctx, &node, nn)
	if ctx.Err() != nil {
		return ctrl.Result{}, nil // the agent ends: the connections that it closed are no news
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

// grace is how long to wait before a node that was ready is called unready, because its agent has just started.
func (r *nodeReconciler) grace(nn *networkv1alpha1.NodeNetwork, h desired.Health) time.Duration {
	r.settled = r.settled || h.Good()
	if r.settled || !isReady(nn) {
		return 0
	}
	return max(0, time.Until(r.started.Add(startGrace)))
}

// isReady reports whether the status says so, of an agent before this one too.
func isReady(nn *networkv1alpha1.NodeNetwork) bool {
	return nn != nil && meta.IsStatusConditionTrue(nn.Status.Conditions, networkv1alpha1.ConditionReady)
}

// retryable stages are tried again; what waits for somebody else comes back by an event.
func retryable(s desired.Stage) bool {
	return s.Err != nil && (s.Reason == networkv1alpha1.ReasonHostError || s.Reason == networkv1alpha1.ReasonDatabaseError)
}

// apply takes the stages in order. A stage that fails does not stop the others: each says what it lacks.
func (r *nodeReconciler) apply(ctx context.Context, node *corev1.Node, nn *networkv1alpha1.NodeNetwork) desired.Health {
	h := desired.Health{}
	var spec networkv1alpha1.NodeNetworkSpec
	if nn != nil {
		// What was known stays known while a database is away: the operator builds on it.
		spec, h.Status = nn.Spec, *nn.Status.DeepCopy()
	}
	if r.southbound.connected() {
		h.Used = r.southbound.pods()
	} else if h.Status.Addresses != nil {
		h.Used = int(h.Status.Addresses.Used)
	}
	h.Status.AgentVersion = r.version
	r.moves = ""
	h.Status.Probe = r.prober.answer(nn)
	ovs := r.applyOVS(ctx, node, spec, &h.Status)
	controller := r.checkController(&h.Status)
	mtu := podMTU(spec, h.Status)
	r.state.set(nn != nil, spec, mtu, h.Status.DatapathType)
	r.wakeRequests()
	r.state.told()
	if err := r.resize(mtu); err != nil {
		ctrl.LoggerFrom(ctx).Info("MTU of running pods is not changed", "mtu", mtu, "reason", err.Error())
	}
	management := r.applyManagementPort(ctx, spec, mtu, &h.Status)
	h.Status.Pods = int32(r.attachments.count())
	h.Stages = []desired.Stage{ovs, controller, management}
	h.Stages = append(h.Stages, r.applyCNI(h.Stages))
	h.Notes = []desired.Stage{r.check.stage(), r.applyGateway(ctx, node, spec, &h.Status)}
	if r.ovs.Connected() {
		h.Status.Move = r.moves
	}
	return h
}

// applyOVS makes the bridge and registers the chassis.
func (r *nodeReconciler) applyOVS(ctx context.Context, node *corev1.Node, spec networkv1alpha1.NodeNetworkSpec, status *networkv1alpha1.NodeNetworkStatus) desired.Stage {
	stage := desired.Stage{Type: networkv1alpha1.ConditionOVSReady}
	ovs, ok := ovndb.Only[vswitchdb.OpenvSwitch](r.ovs.Conn)
	if !ok {
		stage.Reason, stage.Err = networkv1alpha1.ReasonDatabaseUnavailable, errors.New("Open vSwitch does not answer")
		return stage
	}
	if version, _ := r.vswitchd.state(); version != "" {
		status.OVSVersion = version[strings.LastIndexByte(version, ' ')+1:] // it says "(Open vSwitch) 3.5.0"
	} else if ovs.OVSVersion != nil {
		status.OVSVersion = *ovs.OVSVersion // whoever started it wrote that, if anybody did
	}
	chassis, err := r.chassis(node, ovs, status)
	if errors.Is(err, errUplink) {
		stage.Reason, stage.Err = r.moveEncapsulation(node, spec, err)
		return stage
	} else if err != nil {
		stage.Reason, stage.Err = networkv1alpha1.ReasonHostError, err
		return stage
	}
	for _, u := range []unit.Unit{desired.Registration(chassis), desired.IntegrationBridge(chassis.Datapath, r.foreignBridge())} {
		if err := r.ovs.Apply(ctx, u); err != nil {
			stage.Reason, stage.Err = reasonOf(err), err
			return stage
		}
	}
	r.southbound.start(r.running, chassis.SystemID)
	if err := r.attachments.restore(ctx); err != nil {
		stage.Reason, stage.Err = networkv1alpha1.ReasonHostError, err
	} else if err := r.attachments.follow(ctx); err != nil {
		stage.Reason, stage.Err = reasonOf(err), err
	} else if _, err := r.vswitchd.state(); err != nil {
		stage.Reason, stage.Err = networkv1alpha1.ReasonSwitchUnavailable, err
	}
	return stage
}

func reasonOf(err error) string {
	if ovndb.IsPending(err) {
		return networkv1alpha1.ReasonDatabaseUnavailable
	}
	return networkv1alpha1.ReasonDatabaseError
}

// chassis gathers what ovn-controller must be told. A system-id that is there at the start stays, and one that was reported
// comes back when Open vSwitch forgot it: ports ask for it.
func (r *nodeReconciler) chassis(node *corev1.Node, ovs *vswitchdb.OpenvSwitch, status *networkv1alpha1.NodeNetworkStatus) (desired.Chassis, error) {
	c := desired.Chassis{Node: r.node, Southbound: r.southbound.told, Datapath: r.datapath,
		SystemID: cmp.Or(r.southbound.systemID, ovs.ExternalIDs["system-id"], status.Chassis, r.node)}
	status.Chassis, status.DatapathType, status.EncapType = c.SystemID, c.Datapath, networkv1alpha1.EncapsulationGeneve
	address, err := internalIP(node)
	if err != nil {
		return c, err
	}
	uplink, err := hostnet.LinkOf(address)
	if err != nil {
		return c, fmt.Errorf("encapsulation: Node's InternalIP %s: %w", address, err)
	}
	r.uplink.Store(uplink.Name)
	if err := r.checkUplink(c.Datapath, address, uplink.Name); err != nil {
		return c, err
	}
	c.EncapIP = address.String()
	status.EncapIP, status.LinkMTU = networkv1alpha1.IP(c.EncapIP), int32(uplink.MTU)
	return c, nil
}

// errUplink says that tunnelled packets could not be received; a change of the bridges comes back here.
var errUplink = errors.New("the userspace datapath receives Geneve only on a bridge with datapath_type=netdev")

// checkUplink makes sure that Open vSwitch sees the packets that come to the encapsulation address. In the kernel it does
// anyway; in userspace the address has to be on a bridge of that datapath, which the node's administrator makes.
func (r *nodeReconciler) checkUplink(datapath networkv1alpha1.DatapathType, address netip.Addr, link string) error {
	if datapath != networkv1alpha1.DatapathNetdev {
		return nil
	}
	bridge, ok := ovndb.Find(r.ovs.Conn, &vswitchdb.Bridge{Name: link})
	if ok && bridge.DatapathType == string(networkv1alpha1.DatapathNetdev) {
		return nil
	}
	return fmt.Errorf("encapsulation address %s is on link %s: %w", address, link, errUplink)
}

// internalIP is the Node's first InternalIP: the one that kubelet puts first is the primary family's.
func internalIP(node *corev1.Node) (netip.Addr, error) {
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			address, err := netip.ParseAddr(a.Address)
			if err != nil {
				return netip.Addr{}, fmt.Errorf("Node %s: InternalIP: %w", node.Name, err)
			}
			return address, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("Node %s has no InternalIP", node.Name)
}

// foreignBridge is the UUID of a br-int that somebody else made; empty if it is ours or absent.
func (r *nodeReconciler) foreignBridge() string {
	bridge, ok := ovndb.Find(r.ovs.Conn, &vswitchdb.Bridge{Name: names.IntegrationBridge})
	if !ok || bridge.UUID == desired.IntegrationBridgeUUID("") {
		return ""
	}
	return bridge.UUID
}

// bridge is the UUID of br-int once it exists.
func (r *nodeReconciler) bridge() (string, bool) {
	bridge, ok := ovndb.Find(r.ovs.Conn, &vswitchdb.Bridge{Name: names.IntegrationBridge})
	if !ok {
		return "", false
	}
	return bridge.UUID, true
}

func (r *nodeReconciler) checkController(status *networkv1alpha1.NodeNetworkStatus) desired.Stage {
	stage := desired.Stage{Type: networkv1alpha1.ConditionControllerReady}
	version, err := r.controller.state()
	if version != "" {
		status.OVNVersion = version
	}
	switch {
	case err != nil:
		stage.Reason, stage.Err = networkv1alpha1.ReasonControllerUnavailable, err
	case !r.southbound.connected():
		stage.Reason, stage.Err = networkv1alpha1.ReasonDatabaseUnavailable, fmt.Errorf("the OVN southbound database %v is not connected", r.southbound.remotes)
	case r.controller.trouble() != "":
		stage.Reason, stage.Err = networkv1alpha1.ReasonDatabaseUnavailable, fmt.Errorf("ovn-controller does not reach the OVN southbound database, and the agent does: it is %s; its log says why, and its flows stay as they are", r.controller.trouble())
	case !r.southbound.registered():
		stage.Reason, stage.Err = networkv1alpha1.ReasonWaitingForChassis, fmt.Errorf("ovn-controller has not registered chassis %s", r.southbound.systemID)
	}
	return stage
}

// podMTU is the MTU given by the operator or, before it knows, this node's own.
func podMTU(spec networkv1alpha1.NodeNetworkSpec, status networkv1alpha1.NodeNetworkStatus) int {
	if spec.MTU > 0 {
		return int(spec.MTU)
	}
	return int(networkv1alpha1.PodMTU(status.LinkMTU, status.EncapIP))
}

// applyManagementPort makes the host's port and, when its link is there, its addresses and routes.
func (r *nodeReconciler) applyManagementPort(ctx context.Context, spec networkv1alpha1.NodeNetworkSpec, mtu int, status *networkv1alpha1.NodeNetworkStatus) desired.Stage {
	stage := desired.Stage{Type: networkv1alpha1.ConditionManagementPortReady}
	bridge, ok := r.bridge()
	switch {
	case !ok:
		stage.Reason, stage.Err = networkv1alpha1.ReasonDatabaseUnavailable, fmt.Errorf("bridge %s is not there", names.IntegrationBridge)
		return stage
	case len(spec.PodSubnets) == 0:
		stage.Reason, stage.Err = networkv1alpha1.ReasonWaitingForSpec, errors.New("the operator has not given this node a pod subnet yet")
		return stage
	}
	if err := r.ovs.Apply(ctx, desired.ManagementPort(r.node, spec, mtu, bridge)); err != nil {
		stage.Reason, stage.Err = reasonOf(err), err
		return stage
	}
	status.ManagementPort = networkv1alpha1.ManagementPortStatus{Name: names.ManagementInterface, MACAddress: spec.ManagementPort.MACAddress}
	stage.Reason, stage.Err = r.checkManagementPort(spec, mtu)
	return stage
}

func (r *nodeReconciler) checkManagementPort(spec networkv1alpha1.NodeNetworkSpec, mtu int) (string, error) {
	row, ok := ovndb.Find(r.ovs.Conn, &vswitchdb.Interface{Name: names.ManagementInterface})
	if !ok || row.Ofport == nil || *row.Ofport < 0 {
		return networkv1alpha1.ReasonDatabaseUnavailable, fmt.Errorf("ovs-vswitchd has not made %s yet", names.ManagementInterface)
	}
	host, err := desired.NewHost(spec, mtu)
	if err != nil {
		return networkv1alpha1.ReasonInvalidSpec, err
	}
	if err := hostnet.Apply(names.ManagementInterface, host); err != nil {
		return networkv1alpha1.ReasonHostError, err
	}
	if !desired.Installed(row) {
		return networkv1alpha1.ReasonWaitingForChassis, fmt.Errorf("ovn-controller has not installed the flows of %s", names.ManagementInterface)
	}
	return "", nil
}

// applyCNI writes the runtime's configuration once everything before is good. It stays when something breaks later: the
// runtime must not fall back to another plugin, and STATUS tells.
func (r *nodeReconciler) applyCNI(before []desired.Stage) desired.Stage {
	stage := desired.Stage{Type: networkv1alpha1.ConditionCNIReady}
	for _, s := range before {
		if s.Err != nil && !r.cni.written() {
			stage.Reason, stage.Err = networkv1alpha1.ReasonNotReady, fmt.Errorf("waits for %s", s.Type)
			return stage
		}
	}
	if err := r.cni.write(); err != nil {
		stage.Reason, stage.Err = networkv1alpha1.ReasonHostError, err
	} else if other := r.cni.other(); other != "" {
		stage.Reason, stage.Err = networkv1alpha1.ReasonOtherConfiguration, fmt.Errorf("the runtime takes %s, which sorts before %s and does not hand on to it: new pods get another network", other, configName)
	}
	return stage
}

// wakeRequests lets CNI requests that wait look at the node's state again.
func (r *nodeReconciler) wakeRequests() {
	if conn := r.southbound.conn.Load(); conn != nil {
		conn.Wake()
	}
}

// report writes the status if it differs. Without a NodeNetwork there is nowhere to report to; its creation comes back here.
func (r *nodeReconciler) report(ctx context.Context, nn *networkv1alpha1.NodeNetwork, h desired.Health) error {
	if nn == nil {
		return nil
	}
	want := desired.NodeStatus(nn, h)
	if equality.Semantic.DeepEqual(want, nn.Status) {
		return nil
	}
	patched := nn.DeepCopy()
	patched.Status = want
	// A merge patch replaces the list of conditions, in which the operator has one too: the resource version makes one fail that does
	// not know it.
	if err := r.client.Status().Patch(ctx, patched, client.MergeFromWithOptions(nn, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	r.reported.over(nn.ResourceVersion, patched)
	r.tellConditions(nn, want.Conditions)
	return nil
}
