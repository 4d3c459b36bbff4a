//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// recoveryTimeout bounds how long new pods may have to wait after a kill.
const recoveryTimeout = 90 * time.Second

// victim is what gets a SIGKILL.
type victim struct {
	name string
	kill func(t *testing.T)
	// packets says that existing connections must not notice.
	packets bool
}

func victims() []victim {
	kills := func(machine string, d daemon) func(*testing.T) {
		return func(t *testing.T) { bed.signal(t, machine, d, syscall.SIGKILL) }
	}
	return []victim{
		{"operator", killOperator, true},
		{"agent", killAgent, true},
		{"northd", kills(bed.central, northd), true},
		{"northbound server", kills(bed.central, northbound), true},
		{"southbound server", kills(bed.central, southbound), true},
		{"ovn-controller", kills("n1", controller), false},
		{"Open vSwitch's database server", kills("n1", switchDatabase), false},
		{"ovs-vswitchd", kills("n1", vswitchd), false},
	}
}

// daemon is one of OVN's or Open vSwitch's.
type daemon struct {
	name            string // the lab's
	program, having string // of the product's process: the executable, and a word of its command line
}

var (
	northd         = daemon{"northd", "ovn-northd", ""}
	northbound     = daemon{"nb", "ovsdb-server", "ovnnb_db"}
	southbound     = daemon{"sb", "ovsdb-server", "ovnsb_db"}
	controller     = daemon{"ovn-controller", "ovn-controller", ""}
	switchDatabase = daemon{"ovsdb-server", "ovsdb-server", "openvswitch"}
	vswitchd       = daemon{"ovs-vswitchd", "ovs-vswitchd", ""}
)

// signal gives a signal to a daemon of a machine. One that ends by it is started again: by the lab, or by kubelet in a bare one.
func (b *testbed) signal(t *testing.T, machine string, d daemon, sig syscall.Signal) {
	t.Helper()
	if b.bare {
		signalProgram(t, machine, sig, d.program, d.having)
		return
	}
	init, err := b.Init(machine)
	must(t, err)
	defer init.Close()
	must(t, init.Signal(d.name, sig))
}

func killOperator(t *testing.T) {
	p, err := bed.pod(t.Context(), operator, "")
	must(t, err)
	signalProgram(t, p.Spec.NodeName, syscall.SIGKILL, "weft", string(p.UID)) // what makes the operands may be another on the node
}

func killAgent(t *testing.T) { signalProgram(t, "n1", syscall.SIGKILL, "weft-agent", "") }

// programs prints the processes of a program that have a word in their command line or the names of their control groups; all if it is empty.
const programs = `for p in $(busybox pidof "$1"); do grep -q -e "$2" "/proc/$p/cmdline" "/proc/$p/cgroup" && echo "$p"; done; true`

// signalProgram gives a signal to the one process in a node's own process namespace. If it ends, kubelet must start it again.
func signalProgram(t *testing.T, node string, sig syscall.Signal, program, having string) {
	t.Helper()
	found, err := bed.Exec(cleanup(), node, "sh", "-c", programs, "sh", program, having) // at a test's end too
	must(t, err)
	pids := strings.Fields(string(found))
	if len(pids) != 1 {
		t.Fatalf("node %s runs %s %s as %v, want one process", node, program, having, pids)
	}
	_, err = bed.Exec(cleanup(), node, "busybox", "kill", fmt.Sprint("-", int(sig)), pids[0])
	must(t, err)
}

// TestKills kills every program in turn while pods come and go. Afterwards new pods must get their network without anybody's
// help, and a connection between the nodes must have outlived what does not carry packets.
func TestKills(t *testing.T) {
	replacePod(t, operator, "") // kubelet delays the restart of a container that ended a short time ago
	replacePod(t, agent, "n1")
	server := bed.peerPod("flow-server", "n2")
	bed.run(t, server)
	client := bed.peerPod("flow-client", "n1", "--flow="+address(t, server, is4).String()+":7000")
	bed.run(t, client)
	eventually(t, 10*time.Second, func() error { return flowing(t.Context(), client) })
	stop := churn(t)
	for _, v := range victims() {
		t.Run(v.name, func(t *testing.T) { testKill(t, v, client) })
	}
	stop(6)
	bed.awaitConsistent(t)
	bed.mustReach(t, server, client)
}

type flowState struct {
	Connected bool
	Echoes    uint64
	GapMs     float64
	Error     string
}

// flowing is nil while the connection stands and carried something.
func flowing(ctx context.Context, p *corev1.Pod) error {
	s, err := ask[flowState](ctx, bed, p, "/flow")
	if err == nil && (!s.Connected || s.Echoes == 0) {
		return fmt.Errorf("the connection is %+v", s)
	}
	return err
}

func testKill(t *testing.T, v victim, client *corev1.Pod) {
	before, err := ask[flowState](t.Context(), bed, client, "/flow?reset")
	must(t, err)
	killed := time.Now()
	v.kill(t)
	a, b := bed.peerPod("canary-1", "n1"), bed.peerPod("canary-2", "n2")
	bed.create(t, a, b)
	must(t, poll(t.Context(), recoveryTimeout, func() error { return bed.reachEachOther(t.Context(), a, b) }))
	recovered := time.Since(killed)
	after, err := ask[flowState](t.Context(), bed, client, "/flow")
	must(t, err)
	t.Logf("new pods on both nodes reach each other %s after the kill; the connection's longest gap was %.0f ms (%d echoes)",
		milliseconds(recovered), after.GapMs, after.Echoes-before.Echoes)
	if !after.Connected {
		t.Errorf("the connection ended: %s", after.Error)
	}
	// A connection that needs what was killed stands still until that is back; a busy machine alone makes gaps too, and new pods late.
	if limit := max(2*time.Second, recovered/2).Milliseconds(); v.packets && after.GapMs > float64(limit) {
		t.Errorf("the connection stood still for %.0f ms, want at most %d", after.GapMs, limit)
	}
}

// reachEachOther is nil when pods are Ready and reach each other.
func (b *testbed) reachEachOther(ctx context.Context, pods ...*corev1.Pod) error {
	for _, p := range pods {
		if err := b.api.Get(ctx, named(p.Name), p); err != nil {
			return err
		}
		if err := notReady(p); err != nil {
			return err
		}
	}
	var failed error
	for _, p := range pods {
		failed = errors.Join(failed, b.reach(ctx, p, addressesOf(p), targetsOf(pods...)))
	}
	return failed
}

// churn lets pods come and go until stop, which leaves a number of them Ready.
func churn(t *testing.T) (stop func(replicas int)) {
	t.Helper()
	const name, low, high = "churn", 5, 15
	bed.create(t, bed.peerDeployment(name, low))
	ctx, cancel := context.WithCancel(t.Context())
	rounds := make(chan int, 1)
	go func() {
		n := 0
		for ctx.Err() == nil {
			for _, replicas := range []int{high, low} {
				// A killed part may keep it from settling for a while: the next round comes all the same.
				if bed.scale(ctx, name, int32(replicas)) == nil {
					_ = poll(ctx, 20*time.Second, func() error { return bed.settled(ctx, name, replicas) })
				}
			}
			n++
		}
		rounds <- n
	}()
	return func(replicas int) {
		t.Helper()
		cancel()
		t.Logf("%d rounds from %d pods to %d and back", <-rounds, low, high)
		must(t, bed.scale(t.Context(), name, int32(replicas)))
		eventually(t, scaleTimeout, func() error { return bed.settled(t.Context(), name, replicas) })
	}
}
