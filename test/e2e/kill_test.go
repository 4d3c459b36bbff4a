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

	"github.com/weft-network/weft/test/poll"
)

// recoveryTimeout bounds how long new pods may have to wait after a kill.
const recoveryTimeout = 90 * time.Second

// victim is a process that the test kills with SIGKILL.
type victim struct {
	name string
	kill func(t *testing.T)
	// packets is true if existing connections must not be interrupted.
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

// daemon is a daemon of OVN or Open vSwitch.
type daemon struct {
	name            string // in the lab
	program, having string // of the product's process: its executable, and a word of its command line
}

var (
	northd         = daemon{"northd", "ovn-northd", ""}
	northbound     = daemon{"nb", "ovsdb-server", "ovnnb_db"}
	southbound     = daemon{"sb", "ovsdb-server", "ovnsb_db"}
	controller     = daemon{"ovn-controller", "ovn-controller", ""}
	switchDatabase = daemon{"ovsdb-server", "ovsdb-server", "openvswitch"}
	vswitchd       = daemon{"ovs-vswitchd", "ovs-vswitchd", ""}
)

// signal sends a signal to a daemon of a machine. If the daemon ends, the lab restarts it, or kubelet in a bare lab.
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
	signalProgram(t, p.Spec.NodeName, syscall.SIGKILL, "weft", string(p.UID)) // another process on the node may have the same program
}

func killAgent(t *testing.T) { signalProgram(t, "n1", syscall.SIGKILL, "weft-agent", "") }

// programs prints the processes of a program whose command line or control group names contain a word; an empty word
// matches all.
const programs = `for p in $(busybox pidof "$1"); do grep -q -e "$2" "/proc/$p/cmdline" "/proc/$p/cgroup" && echo "$p"; done; true`

// signalProgram sends a signal to the single matching process in a node's own process namespace. If the process
// ends, kubelet must restart it.
func signalProgram(t *testing.T, node string, sig syscall.Signal, program, having string) {
	t.Helper()
	found, err := bed.Exec(cleanup(), node, "sh", "-c", programs, "sh", program, having) // also during the test's cleanup
	must(t, err)
	pids := strings.Fields(string(found))
	if len(pids) != 1 {
		t.Fatalf("node %s runs %s %s as %v, want one process", node, program, having, pids)
	}
	_, err = bed.Exec(cleanup(), node, "busybox", "kill", fmt.Sprint("-", int(sig)), pids[0])
	must(t, err)
}

// TestKills kills every program in turn while pods come and go. Afterwards new pods must get their network without
// help. A connection between the nodes must survive the end of every program that forwards no packets.
func TestKills(t *testing.T) {
	replacePod(t, operator, "") // kubelet delays the restart of a container that ended recently
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

// flowing returns nil while the connection is open and has carried data.
func flowing(ctx context.Context, p *corev1.Pod) error {
	s, err := getJSON[flowState](ctx, bed, p, "/flow")
	if err == nil && (!s.Connected || s.Echoes == 0) {
		return fmt.Errorf("the connection carries no data: %+v", s)
	}
	return err
}

func testKill(t *testing.T, v victim, client *corev1.Pod) {
	before, err := getJSON[flowState](t.Context(), bed, client, "/flow?reset")
	must(t, err)
	killed := time.Now()
	v.kill(t)
	a, b := bed.peerPod("canary-1", "n1"), bed.peerPod("canary-2", "n2")
	bed.create(t, a, b)
	must(t, poll.Slowly(t.Context(), recoveryTimeout, func() error { return bed.reachEachOther(t.Context(), a, b) }))
	recovered := time.Since(killed)
	after, err := getJSON[flowState](t.Context(), bed, client, "/flow")
	must(t, err)
	t.Logf("new pods on both nodes reach each other %s after the kill; the connection's longest gap was %.0f ms (%d echoes)",
		milliseconds(recovered), after.GapMs, after.Echoes-before.Echoes)
	if !after.Connected {
		t.Errorf("the connection ended: %s", after.Error)
	}
	// A connection that needs the victim would stall until the victim is back. A busy machine also causes gaps, but
	// then new pods are late too: the limit grows with them.
	if limit := max(2*time.Second, recovered/2).Milliseconds(); v.packets && after.GapMs > float64(limit) {
		t.Errorf("the connection stalled for %.0f ms, want at most %d", after.GapMs, limit)
	}
}

// reachEachOther returns nil if the pods are Ready and reach each other.
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

// churn creates and deletes pods until stop, which leaves the given number Ready.
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
				// A killed component may delay it. The next round starts regardless.
				if bed.scale(ctx, name, int32(replicas)) == nil {
					_ = poll.Slowly(ctx, 20*time.Second, func() error { return bed.settled(ctx, name, replicas) })
				}
			}
			n++
		}
		rounds <- n
	}()
	return func(replicas int) {
		t.Helper()
		cancel()
		t.Logf("%d rounds, from %d pods to %d and back", <-rounds, low, high)
		must(t, bed.scale(t.Context(), name, int32(replicas)))
		eventually(t, scaleTimeout, func() error { return bed.settled(t.Context(), name, replicas) })
	}
}
