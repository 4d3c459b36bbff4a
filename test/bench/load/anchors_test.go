//go:build e2e

package load

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-network/weft/test/bench/figures"
	"github.com/weft-network/weft/test/bench/probe"
)

// atOnce deletes a pod without waiting for a kubelet.
func atOnce() metav1.DeleteOptions { return *metav1.NewDeleteOptions(0) }

// apiServerAlone creates pods without any watch, and removes them.
func (w *world) apiServerAlone(n int) figures.Rate {
	w.Helper()
	const warm = 500 // the first calls of a server that has just started are slow
	create := func(ctx context.Context, i int) error {
		_, err := w.api.CoreV1().Pods(alone).Create(ctx, podOf(i, n, alone), metav1.CreateOptions{})
		return err
	}
	w.each(n, warm, create)
	before, began := w.cpu(), time.Now()
	w.each(0, n, create)
	took := time.Since(began)
	var used time.Duration
	for name, spent := range w.cpu() {
		used += spent - before[name]
	}
	w.each(0, n+warm, func(ctx context.Context, i int) error {
		return w.api.CoreV1().Pods(alone).Delete(ctx, podName(i), atOnce())
	})
	return figures.Rate{PerSecond: float64(n) / took.Seconds(), CPUms: figures.Milliseconds(used) / float64(n)}
}

// databaseAlone writes groups of ports to an empty database.
func databaseAlone(t *testing.T, raft bool, nodes, ports int) figures.Rate {
	t.Helper()
	const group = 100
	nb := startNorthbound(t, raft)
	defer nb.end()
	db, err := probe.Dial(nb.observed(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	write := func(operations []any) {
		t.Helper()
		result, err := db.Call("transact", append([]any{"OVN_Northbound"}, operations...)...)
		if err != nil || strings.Contains(string(result), `"error"`) {
			t.Fatalf("transaction: %v\n%s", err, result)
		}
	}
	var switches []string
	var made []any
	for i := range nodes {
		switches = append(switches, uuid.NewString())
		made = append(made, map[string]any{"op": "insert", "table": "Logical_Switch", "uuid": switches[i],
			"row": map[string]any{"name": nodeName(i)}})
	}
	write(made)
	cpu := cpuOf(t, nb.pids())
	began := time.Now()
	for first := 0; first < ports; first += group {
		var operations []any
		for i := first; i < min(first+group, ports); i++ {
			operations = append(operations, portOperations(i, switches[i%nodes])...)
		}
		write(operations)
	}
	took := time.Since(began)
	after := cpuOf(t, nb.pids())
	return figures.Rate{PerSecond: float64(ports) / took.Seconds(), CPUms: figures.Milliseconds(after-cpu) / float64(ports)}
}

// cpuOf returns the CPU time of several processes.
func cpuOf(t *testing.T, pids map[string]int) (sum time.Duration) {
	t.Helper()
	for _, pid := range pids {
		used, err := probe.CPU(pid)
		if err != nil {
			t.Fatal(err)
		}
		sum += used
	}
	return sum
}

func portOperations(i int, parent string) []any {
	id := uuid.NewString()
	address := fmt.Sprintf("0a:58:0a:%02x:%02x:%02x 10.%d.%d.%d", i>>16&255, i>>8&255, i&255, i>>16&255, i>>8&255, i&255)
	return []any{
		map[string]any{"op": "insert", "table": "Logical_Switch_Port", "uuid": id,
			"row": map[string]any{"name": namespace + "_" + podName(i), "addresses": address,
				"port_security": address, "external_ids": json.RawMessage(`["map",[["namespace","bench"],["pod","true"]]]`)}},
		map[string]any{"op": "mutate", "table": "Logical_Switch", "where": []any{[]any{"_uuid", "==", []any{"uuid", parent}}},
			"mutations": []any{[]any{"ports", "insert", []any{"uuid", id}}}},
	}
}
