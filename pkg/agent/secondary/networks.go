package secondary

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/pkg/agent/attach"
	"github.com/weft-network/weft/pkg/agent/bindings"
	"github.com/weft-network/weft/pkg/agent/cniserver"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/ovn/sbdb"
	"github.com/weft-network/weft/pkg/process/trigger"
)

const (
	// undoTimeout bounds what a failed ADD takes back.
	undoTimeout = 20 * time.Second
	// plugTimeout bounds one pass over a pod. The pod's DEL waits for it.
	plugTimeout = 20 * time.Second
	// workers is how many pods are plugged at once.
	workers = 4
)

// Ports attaches interfaces on Networks: attach.Handler.
type Ports interface {
	AttachPort(ctx context.Context, sandbox attach.Sandbox, port, ifName, network, request string) error
	DetachPort(ctx context.Context, port, containerID, ifName string) error
	UnplugPort(ctx context.Context, port, containerID, ifName string) error
	HasPort(sandbox attach.Sandbox, port, request string) bool
	Differs(a desired.Attachment) bool
	DiffersFrom(a desired.Attachment, binding *sbdb.PortBinding) bool
}

// Options are what Networks need.
type Options struct {
	// API reads pods and definitions from the API server, past any cache, and writes the pods' status.
	API client.Client
	// Delegates runs other plugins; nil: their definitions are refused.
	Delegates   *Delegates
	Ports       Ports
	Attachments *attach.Attachments
	Bindings    *bindings.Bindings
	Turns       *cniserver.Turns
	Events      events.EventRecorder
	// MTU returns the MTU of the pods' interfaces on the cluster network, in bytes.
	MTU func() int
	Log logr.Logger
}

// Networks attaches and detaches the secondary interfaces of this node's pods.
type Networks struct {
	Options

	queue workqueue.TypedRateLimitingInterface[string] // logical ports of pods on the cluster network

	mu   sync.Mutex
	done map[string]string // logical port -> the generation of requests that its sandbox has
}

// New returns Networks whose queue ends with ctx, also if Run is never called.
func New(ctx context.Context, o Options) *Networks {
	retries := workqueue.NewTypedItemExponentialFailureRateLimiter[string](trigger.FirstRetry, trigger.LastRetry)
	queue := workqueue.NewTypedRateLimitingQueue(retries)
	context.AfterFunc(ctx, queue.ShutDown)
	return &Networks{Options: o, queue: queue, done: map[string]string{}}
}

// Bound receives a binding that came or changed. It never blocks.
func (n *Networks) Bound(binding *sbdb.PortBinding) {
	port := binding.LogicalPort
	namespace, pod, ok := names.PodOfPort(port)
	if !ok {
		return
	}
	if _, _, ofCluster := names.ParsePodPort(port); ofCluster {
		if n.isBehind(port, binding.ExternalIDs[ovnexpr.NetworksKey]) {
			n.queue.Add(port)
		}
		return
	}
	if have, ok := n.Attachments.Get(port); !ok || n.Ports.DiffersFrom(have, binding) {
		n.queue.Add(names.PodPort(names.DefaultNetwork, namespace, pod))
	}
}

// isBehind reports whether a pod's sandbox may not have what the pod requests. A pod that requests nothing, and did
// not before, is never behind.
func (n *Networks) isBehind(port, generation string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.done[port] != generation
}

// note records that a sandbox has what its pod requests, in a generation.
func (n *Networks) note(port, generation string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if generation == "" {
		delete(n.done, port)
		return
	}
	n.done[port] = generation
}

// everyPod is the key of the queue that stands for all pods of the node.
const everyPod = ""

// CompareAll compares every pod of the node: when the attachments are known, and when the southbound database is
// connected. It never blocks.
func (n *Networks) CompareAll() { n.queue.Add(everyPod) }

// enqueueAll enqueues every pod that has a sandbox, and removes what sandboxes left that have no interface on the
// cluster network any more: their DEL came while no agent ran.
func (n *Networks) enqueueAll(ctx context.Context) error {
	if !n.Attachments.Ready() {
		return nil // the end of the restoration comes back here
	}
	ports, err := n.removeAllLeft(ctx)
	for _, port := range ports {
		n.queue.Add(port)
	}
	return err
}

// removeAllLeft removes what sandboxes left that have no interface on the cluster network any more. It returns the
// logical ports of the other sandboxes.
func (n *Networks) removeAllLeft(ctx context.Context) (ports []string, failures error) {
	alive := map[string]bool{} // container IDs
	for _, have := range n.Attachments.All() {
		if namespace, pod, ok := names.ParsePodPort(have.InterfaceID); ok {
			alive[have.ContainerID] = true
			ports = append(ports, names.PodPort(names.DefaultNetwork, namespace, pod))
		}
	}
	if n.Delegates == nil {
		return ports, nil
	}
	records, failures := n.Delegates.records("")
	for _, r := range slices.Backward(records) {
		if !alive[r.Sandbox.ContainerID] {
			failures = errors.Join(failures, n.removeLeft(ctx, r))
		}
	}
	return ports, failures
}

// removeLeft removes what a sandbox left, unless a request of its pod is under way.
func (n *Networks) removeLeft(ctx context.Context, r record) error {
	done, ok := n.Turns.Try(r.Sandbox.Namespace, r.Sandbox.Pod)
	if !ok {
		return nil
	}
	defer done()
	if main, ok := n.Attachments.Get(names.PodPort(names.DefaultNetwork, r.Sandbox.Namespace, r.Sandbox.Pod)); ok &&
		main.ContainerID == r.Sandbox.ContainerID {
		return nil // its ADD ended meanwhile
	}
	return n.Delegates.remove(ctx, r.Sandbox.ContainerID, r.Interface)
}

// Run plugs and unplugs until ctx ends.
func (n *Networks) Run(ctx context.Context) error {
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for n.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	n.queue.ShutDown()
	group.Wait()
	return nil
}

// next serves one pod of the queue.
func (n *Networks) next(ctx context.Context) bool {
	port, shutdown := n.queue.Get()
	if shutdown {
		return false
	}
	defer n.queue.Done(port)
	bounded, cancel := context.WithTimeout(ctx, plugTimeout)
	defer cancel()
	serve := n.sync
	if port == everyPod {
		serve = func(ctx context.Context, _ string) error { return n.enqueueAll(ctx) }
	}
	switch err := serve(bounded, port); {
	case ctx.Err() != nil:
	case err == nil:
		n.queue.Forget(port)
	default:
		if !errors.Is(err, errBusy) {
			n.Log.Error(err, "Could not give a pod the networks that it requests; retrying", "port", port)
		}
		n.queue.AddRateLimited(port)
	}
	return true
}

// Detach implements attach.Secondary.
func (n *Networks) Detach(ctx context.Context, containerID string) (failures error) {
	for _, have := range slices.Backward(n.Attachments.OnNetworks(containerID)) {
		failures = errors.Join(failures, n.Ports.DetachPort(ctx, have.InterfaceID, have.ContainerID, have.IfName))
	}
	if n.Delegates != nil {
		failures = errors.Join(failures, n.Delegates.removeAll(ctx, containerID))
	}
	return failures
}
