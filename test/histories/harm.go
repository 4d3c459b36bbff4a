package histories

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// doFault injects a fault between a process and a server.
func (w *world) doFault(_ context.Context, s Step) (handled bool, err error) {
	switch s.Do {
	case "delay", "deliver", "lose", "double", "api", "wire", "late-rows", "disconnect":
	default:
		return false, nil
	}
	if w.lead == nil || w.awayFor > 0 {
		return true, nil
	}
	switch s.Do {
	case "delay":
		w.lead.link.gate(s.Name).set(true)
	case "deliver":
		w.lead.link.gate(s.Name).set(false)
	case "lose":
		w.lead.link.lose(s.Name)
	case "double":
		w.lead.link.gate(s.Name).double(true)
	case "api":
		w.lead.link.faults.arm(s.N, fault(s.What))
	case "wire":
		w.lead.wire.faults.arm(s.N, fault(s.What))
	case "late-rows":
		w.lead.wire.rows.set(true)
		w.lateFor = s.N
	case "disconnect":
		w.lead.wire.disconnect()
	}
	return true, nil
}

// doProcess ends and starts processes of the operator and of the database, and waits.
func (w *world) doProcess(ctx context.Context, s Step) (handled bool, err error) {
	if w.awayFor > 0 && slices.Contains([]string{"crash", "away", "restart"}, s.Do) {
		return true, nil
	}
	switch s.Do {
	case "crash":
		w.lead.kill()
		return true, w.start()
	case "away":
		w.lead.kill()
		w.awayFor = s.N
	case "restart":
		if err := w.lead.stop(); err != nil && !w.overtaken {
			return true, err
		}
		w.lead.kill()
		return true, w.start()
	case "stale":
		w.stale = int64(s.N)
	case "wake":
		return true, w.wake(ctx)
	case "wait":
		_ = until(w.news, time.Duration(s.N)*50*time.Millisecond, w.wrong) // a failure may be intended by the history
	case "quiet":
		return true, w.quiet(ctx)
	case "kill-server":
		if w.serverUp {
			w.killServer()
			w.downFor = s.N
		}
	case "empty":
		w.emptyDatabase()
		return true, w.runServer()
	default:
		return false, nil
	}
	return true, nil
}

// emptyDatabase deletes all rows. A process that starts now, or that ends before it has rewritten everything, can
// restore a pod's addresses only from the pod's status.
func (w *world) emptyDatabase() {
	if w.serverUp {
		w.killServer()
	}
	w.server.Empty()
	w.strangers, w.foreign = true, foreignRows{}
	w.emptied = true
}

// doDatabase makes foreign writes to the database.
func (w *world) doDatabase(_ context.Context, s Step) (handled bool, err error) {
	switch s.Do {
	case "vandal":
		err = w.vandalise(s.What, s.N)
	case "foreign":
		err = w.addForeign(s.What, s.N)
	default:
		return false, nil
	}
	w.strangers = true
	if !w.serverUp {
		err = nil // the server is down, so no write is possible
	}
	if err != nil {
		err = fmt.Errorf("foreign write: %w", err)
	}
	return true, err
}
