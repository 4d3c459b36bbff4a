package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/test/sandbox"
)

// The plugin and its configuration as the agent installs them.
const (
	plugin = "/opt/cni/bin/weft-cni"
	config = `{"cniVersion":"1.1.0","name":"weft","type":"weft-cni","socket":"/run/weft/cni.sock"}`
)

// patience is how often a runtime retries while agents are killed.
const patience = 20

// worker creates one pod after the other and does to it what runtimes do.
type worker struct {
	*run
	id   int
	rng  *rand.Rand
	pods int
	made int // number of sandboxes

	pod    *corev1.Pod
	result string // result of the last ADD
}

func (w *worker) loop(ctx context.Context) error {
	for !w.account.enough(w.ADDs) && ctx.Err() == nil {
		if err := w.onePod(ctx); err != nil {
			return err
		}
	}
	return nil
}

// onePod gives a pod several sandboxes, one after the other.
func (w *worker) onePod(ctx context.Context) error {
	w.pods++
	w.pod = w.bed.Parked(fmt.Sprintf("soak-%x-%d-%d", w.rng.Uint32(), w.id, w.pods), w.Node)
	if err := w.bed.API.Create(ctx, w.pod); err != nil {
		return err
	}
	for range 1 + w.rng.IntN(3) {
		if err := w.oneRound(ctx); err != nil {
			return fmt.Errorf("pod %s: %w", w.pod.Name, err)
		}
	}
	return w.deletePod(ctx)
}

// deletePod deletes the pod as kubelet does at its end. It may be gone already.
func (w *worker) deletePod(ctx context.Context) error {
	w.claims.release(w.pod.UID)
	return client.IgnoreNotFound(w.bed.API.Delete(ctx, w.pod, client.GracePeriodSeconds(0)))
}

// box is a sandbox of the pod.
type box struct {
	name, args string
	since      time.Time
}

func (w *worker) newBox(ctx context.Context) (box, error) {
	w.made++
	b := box{name: fmt.Sprintf("soak%016x%d", w.rng.Uint64(), w.made), since: time.Now()}
	b.args = fmt.Sprintf("IgnoreUnknown=1;K8S_POD_NAMESPACE=%s;K8S_POD_NAME=%s;K8S_POD_INFRA_CONTAINER_ID=%s;K8S_POD_UID=%s",
		w.pod.Namespace, w.pod.Name, b.name, w.pod.UID)
	return b, w.sandboxes.Make(ctx, b.name)
}

func (b box) call(command string) sandbox.Call {
	return sandbox.Call{Plugin: plugin, Command: command, ContainerID: b.name, NetNS: sandbox.Path(b.name),
		IfName: "eth0", Args: b.args, Config: config}
}

// add executes one ADD; ok is false if it failed. A failure without a kill at the same time counts as an error of
// the agent.
func (w *worker) add(ctx context.Context, b box) (ok bool, err error) {
	start := time.Now()
	ends, err := w.sandboxes.Call(ctx, b.call("ADD"))
	if err != nil {
		return false, err
	}
	w.account.added()
	if ends[0].Exit == 0 {
		return true, w.verify(ends[0].Output)
	}
	w.blame(start, "ADD", b, ends[0])
	return false, nil
}

// blame counts a failure while an agent is missing, and keeps any other as an error.
func (w *worker) blame(start time.Time, command string, b box, end sandbox.End) {
	if w.kills.during(start) {
		w.account.count(command + " failed while the agent was killed")
		return
	}
	w.account.fail(fmt.Errorf("%s of sandbox %s of pod %s ended with exit code %d after %s: %s", command, b.name,
		w.pod.Name, end.Exit, end.Took, end.Output))
}

// verify keeps a result and compares it with the results of the pod's other sandboxes and of other pods.
func (w *worker) verify(result string) error {
	w.result = result
	var r struct{ IPs []struct{ Address string } }
	if err := json.Unmarshal([]byte(result), &r); err != nil {
		return fmt.Errorf("result %q: %w", result, err)
	}
	if len(r.IPs) != 2 {
		w.account.fail(fmt.Errorf("pod %s got %d addresses: %s", w.pod.Name, len(r.IPs), result))
	}
	for _, ip := range r.IPs {
		prefix, err := netip.ParsePrefix(ip.Address)
		if err != nil {
			return fmt.Errorf("result %q: %w", result, err)
		}
		if other := w.claims.claim(prefix.Addr(), w.pod.UID); other != w.pod.UID {
			w.account.fail(fmt.Errorf("pod %s got %s of the living pod of UID %s", w.pod.Name, prefix, other))
		}
	}
	return nil
}

// attach creates a sandbox with an interface. Like a runtime, it discards a sandbox whose ADD failed.
func (w *worker) attach(ctx context.Context) (box, error) {
	for range patience {
		b, err := w.newBox(ctx)
		if err != nil {
			return b, err
		}
		ok, err := w.add(ctx, b)
		if ok || err != nil {
			return b, err
		}
		if err := w.end(ctx, b); err != nil {
			return b, err
		}
		if err := backOff(ctx); err != nil {
			return b, err
		}
	}
	return box{}, fmt.Errorf("%d sandboxes in a row got no interface", patience)
}

// backOff waits as kubelet does before it creates another sandbox.
func backOff(ctx context.Context) error {
	const kubelets = 10 * time.Second
	timer := time.NewTimer(kubelets)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// del executes DEL until it succeeds.
func (w *worker) del(ctx context.Context, b box, call sandbox.Call) error {
	for range patience {
		start := time.Now()
		ends, err := w.sandboxes.Call(ctx, call)
		if err != nil {
			return err
		}
		w.account.count("DEL")
		if ends[0].Exit == 0 {
			if w.kills.during(start) {
				w.account.count("DEL succeeded while the agent was killed")
			}
			return nil
		}
		w.blame(start, "DEL", b, ends[0])
	}
	return fmt.Errorf("%d DELs in a row of sandbox %s failed", patience, b.name)
}

// end executes DEL and then removes the namespace.
func (w *worker) end(ctx context.Context, b box) error {
	if err := w.del(ctx, b, b.call("DEL")); err != nil {
		return err
	}
	return w.sandboxes.Destroy(ctx, b.name)
}

// claims records which living pod has an address.
type claims struct {
	mu        sync.Mutex
	byAddress map[netip.Addr]types.UID // address -> its pod
}

func newClaims() *claims { return &claims{byAddress: map[netip.Addr]types.UID{}} }

// claim returns the holder of the address: the pod, or another one.
func (c *claims) claim(a netip.Addr, pod types.UID) (holder types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if other, taken := c.byAddress[a]; taken {
		return other
	}
	c.byAddress[a] = pod
	return pod
}

func (c *claims) release(pod types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for a, holder := range c.byAddress {
		if holder == pod {
			delete(c.byAddress, a)
		}
	}
}
