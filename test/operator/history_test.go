package operator

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/history"
	"github.com/weft-network/weft/pkg/process/admin"
)

// history returns what "kubectl weft history" receives for an object.
func (o *operator) history(object string) admin.History {
	o.world.Helper()
	var answer admin.History
	if err := o.query(nil, &answer, "history", "--", object); err != nil {
		o.world.Fatal(err)
	}
	return answer
}

// has reports whether a history has a change of a row of a table because of an object and a reconciler.
func has(h admin.History, op, table, object, reconciler string) bool {
	return slices.ContainsFunc(h.Entries, func(e history.Entry) bool {
		return slices.ContainsFunc(e.Changes, func(c history.Change) bool { return c.Op == op && c.Table == table }) &&
			slices.ContainsFunc(e.Causes, func(c history.Cause) bool { return string(c.Object) == object && c.Reconciler == reconciler })
	})
}

// Every transaction of the operator names the object and the reconciler in the server's log and in the history, and
// the history of an object has the changes of others because of it, and the changes of other programs.
func TestHistoryNamesCauses(t *testing.T) {
	w := newWorld(t)
	w.network(dualStack()...)
	o := w.start()
	w.join("n1")
	web := w.podLabelled("n1", "web", "web")
	port := w.port(web)
	w.must(api.Create(w.Context(), policyObject("p", "web", "client")))
	w.isolates("p", 3)
	o.settle()

	of := o.history("pod/default/web")
	if !has(of, "insert", "Logical_Switch_Port", "pod/default/web", "pod") ||
		!has(of, "add", "Port_Group", "networkpolicy/default/p", "networkpolicy") {
		t.Errorf("history of the pod: %+v", of)
	}
	if of = o.history("networkpolicy/default/p"); !has(of, "insert", "ACL", "networkpolicy/default/p", "networkpolicy") ||
		!has(of, "insert", "Port_Group", "networkpolicy/default/p", "networkpolicy") {
		t.Errorf("history of the policy: %+v", of)
	}
	if of = o.history("node/n1"); !has(of, "insert", "Logical_Switch", "node/n1", "node") || of.Since.IsZero() ||
		of.Writer != "weft" {
		t.Errorf("history of the node: %+v", of)
	}
	if of = o.history("clusternetwork/default"); !has(of, "insert", "Logical_Router", "clusternetwork/default", "network") {
		t.Errorf("history of the network: %+v", of)
	}
	if log := w.nb.Log(); !strings.Contains(log, "pod/default/web (reconciler pod)") ||
		!strings.Contains(log, "networkpolicy/default/p (reconciler networkpolicy)") {
		t.Error("the server's log lacks causes:\n" + log)
	}

	w.nb.Ctl("lsp-set-addresses", port.Name, "unknown")
	w.until(func() error {
		entries := o.history("pod/default/web").Entries
		if n := len(entries); n < 2 || entries[n-2].By != history.ByOther || entries[n-2].State != "Repaired" || !entries[n-1].Causes[0].Repair {
			return fmt.Errorf("history of the pod: %+v", entries)
		}
		return nil
	})

	if err := o.query(nil, &of, "history", "--", "ingress/default/web"); err == nil || !strings.Contains(err.Error(), "networkpolicy") {
		t.Errorf("an object without rows: %v", err)
	}
	if !w.causesAreNamed() {
		t.Error("a transaction of the operator has no cause:\n" + w.nb.Log())
	}
	o.stop()
	again := w.start()
	w.until(func() error {
		if err := again.query(nil, &of, "history"); err != nil || of.Since.IsZero() || !again.engine.Connected() {
			return errors.Join(err, fmt.Errorf("recorded since %s", of.Since))
		}
		return nil
	})
	again.settle()
	if of := again.history("pod/default/web"); len(of.Entries) != 0 {
		t.Errorf("an operator that was started again has the history %+v", of)
	}
}

// causesAreNamed reports whether each transaction of the operator in the server's log names a cause.
func (w *world) causesAreNamed() bool {
	for line := range strings.Lines(w.nb.Log()) {
		if _, comment, ok := strings.Cut(line, `"weft: `); ok && !strings.Contains(comment, "takes over") &&
			!strings.Contains(comment, "measures propagation") && !strings.Contains(comment, "(reconciler ") {
			return false
		}
	}
	return true
}

// The operations of a plan insert what the plan names, and the operator writes nothing.
func TestOperationsOfAPlan(t *testing.T) {
	w := newWorld(t)
	w.network(dualStack()...)
	o := w.start()
	w.join("n1")
	w.port(w.podLabelled("n1", "web", "web"))
	w.awaitTopologyReady()
	o.settle()
	committed, policy := o.transactions(), policyObject("p", "web", "client")
	var planned admin.Changes
	var answer admin.Operations
	w.must(o.query(w.list(policy), &planned, "plan"))
	w.must(o.query(w.list(policy), &answer, "operations"))
	inserted := map[string]int{}
	for _, c := range planned.Changes {
		if c.Op == ovndb.OpInsert {
			inserted[c.Table]++
		}
	}
	for _, text := range answer.Operations {
		var operation struct{ Op, Table string }
		w.must(json.Unmarshal(text, &operation))
		if operation.Op == "insert" {
			inserted[operation.Table]--
		}
	}
	if inserted["ACL"] != 0 || inserted["Port_Group"] != 0 || len(answer.Operations) == 0 || len(planned.Changes) == 0 {
		t.Errorf("the plan and its operations differ by %v", inserted)
	}
	if n := o.transactions() - committed; n != 0 {
		t.Errorf("%d transactions", n)
	}
}
