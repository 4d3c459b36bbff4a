//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/pkg/ports"
)

// product is the namespace into which the manifests install.
const product = "weft-system"

// part names one of the product's workloads by its label.
type part string

const (
	operator part = "operator"
	operands part = "operands"
	agent    part = "agent"
)

// pod returns the single pod of a part; node is empty for the operator.
func (b *testbed) pod(ctx context.Context, p part, node string) (*corev1.Pod, error) {
	list, err := b.pods(ctx, client.InNamespace(product), client.MatchingLabels{"app.kubernetes.io/component": string(p)})
	if err != nil {
		return nil, err
	}
	var found []*corev1.Pod
	for i := range list {
		if node == "" || list[i].Spec.NodeName == node {
			found = append(found, &list[i])
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("%d pods of the %s on node %q, want 1", len(found), p, node)
	}
	return found[0], nil
}

// TestOperatorRestartWritesNothing checks that a new operator takes the epoch and writes nothing else if nothing has
// changed.
func TestOperatorRestartWritesNothing(t *testing.T) {
	pods := runBystanders(t)
	before := logOf(t, bed.northboundFile())
	fresh := replacePod(t, operator, "")
	samples := awaitIdle(t, fresh, ports.OperatorMetrics, "OVN_Northbound", func(m metrics) error {
		if n := m.sum("controller_runtime_reconcile_total", `controller="pod"`, `result="success"`); n < float64(pods) {
			return fmt.Errorf("the operator has reconciled %v pods, want at least %d", n, pods)
		}
		if n := m.sum("controller_runtime_reconcile_total", `controller="sweep"`, `result="success"`); n == 0 {
			return errors.New("the operator has not swept")
		}
		return nil
	})
	if n := samples.transactions("OVN_Northbound", "write"); n != 0 {
		t.Errorf("the new operator wrote %v times, want 0", n)
	}
	if n := samples.transactions("OVN_Northbound", "fence"); n != 1 {
		t.Errorf("the new operator took the epoch %v times, want 1", n)
	}
	added := addedTo(t, before, bed.northboundFile())
	if len(added) != 1 || len(added[0].tables) != 1 || !strings.HasPrefix(added[0].tables[0], "table NB_Global ") {
		t.Errorf("the database logs %+v, want the epoch in NB_Global only", added)
	}
}

// TestAgentRestartWritesNothing checks that a new agent leaves Open vSwitch unchanged if nothing has changed.
func TestAgentRestartWritesNothing(t *testing.T) {
	runBystanders(t)
	before := logOf(t, bed.switchFile("n1"))
	fresh := replacePod(t, agent, "n1")
	samples := awaitIdle(t, fresh, ports.AgentMetrics, "Open_vSwitch", func(m metrics) error {
		if n := m.sum("controller_runtime_reconcile_total", `controller="node"`, `result="success"`); n == 0 {
			return errors.New("the agent has not reconciled its node")
		}
		return m.idle("OVN_Southbound")
	})
	if n := samples.transactions("Open_vSwitch", "write"); n != 0 {
		t.Errorf("the new agent wrote %v times, want 0", n)
	}
	if added := addedTo(t, before, bed.switchFile("n1")); len(added) != 0 {
		t.Errorf("the database logs %+v, want nothing", added)
	}
}

// runBystanders creates pods that a restarted process could damage, and returns the number of pods in the cluster.
func runBystanders(t *testing.T) int {
	t.Helper()
	bed.run(t, bed.peerPod("bystander-1", "n1"), bed.peerPod("bystander-2", "n1"), bed.peerPod("bystander-3", "n2"))
	bed.awaitConsistent(t)
	all, err := bed.pods(t.Context())
	must(t, err)
	return len(all)
}

// replacePod deletes a pod of the product and waits until its successor is Ready.
func replacePod(t *testing.T, p part, node string) *corev1.Pod {
	t.Helper()
	old, err := bed.pod(t.Context(), p, node)
	must(t, err)
	must(t, bed.api.Delete(t.Context(), old))
	var fresh *corev1.Pod
	took := eventually(t, readyTimeout, func() error {
		if fresh, err = bed.pod(t.Context(), p, node); err != nil {
			return err
		}
		if fresh.UID == old.UID {
			return fmt.Errorf("pod %s still exists", old.Name)
		}
		return notReady(fresh)
	})
	t.Logf("%s Ready %s after its deletion", p, milliseconds(took))
	return fresh
}

// awaitIdle waits until a process has finished its work after the start.
func awaitIdle(t *testing.T, p *corev1.Pod, port int, database string, more func(metrics) error) metrics {
	t.Helper()
	var samples metrics
	eventually(t, convergence, func() (err error) {
		if samples, err = bed.scrape(t.Context(), p, port); err != nil {
			return err
		}
		return errors.Join(samples.idle(database), more(samples))
	})
	return samples
}

// logOf waits until nothing is added to a database's log any more, because ovn-controller and northd write after the
// product.
func logOf(t *testing.T, file databaseFile) []transaction {
	t.Helper()
	const quiet = 3 * time.Second
	last, since := -1, time.Time{}
	var log []transaction
	eventually(t, convergence, func() (err error) {
		if log, err = bed.log(t.Context(), file); err != nil {
			return err
		}
		if len(log) != last {
			last, since = len(log), time.Now()
		}
		if quietFor := time.Since(since); quietFor < quiet {
			return fmt.Errorf("%s on %s was written %s ago and is not quiet yet", file.path, file.machine, quietFor)
		}
		return nil
	})
	return log
}

// addedTo returns the transactions added to a database's log.
func addedTo(t *testing.T, before []transaction, file databaseFile) []transaction {
	t.Helper()
	after, err := bed.log(t.Context(), file)
	must(t, err)
	if len(after) < len(before) {
		t.Fatalf("the log of %s was compacted during the test: %d records, %d before", file.path, len(after), len(before))
	}
	return after[len(before):]
}
