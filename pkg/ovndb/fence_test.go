package ovndb_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/pkg/unit"
)

// ends waits for the end of Run and returns its error.
func (r *running) ends(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.done:
		r.done <- nil
		return err
	case <-time.After(time.Minute):
		t.Fatal("Run does not return")
		return nil
	}
}

// I11: two writers around a change of leaders. A commit of the former leader that its path delayed fails and changes
// nothing, and the former leader ends.
func TestLateCommitOfAFormerLeaderFails(t *testing.T) {
	t.Parallel()
	nb := ovndbtest.Start(t, "ovn-nb")
	wire := ovndbtest.StartWire(t, nb)
	zombie := runWith(t, ovndb.Config{Endpoints: []string{wire.Endpoint()}, Heartbeat: time.Hour})
	zombie.apply(t, switchUnit("n1", 10))
	held, release := wire.Hold("late-port")
	late := make(chan error, 1)
	go func() { late <- zombie.try(portUnit("n1", "late-port", "u", 16)) }()
	<-held

	heir := run(t, nb)
	heir.apply(t, switchUnit("n1", 10))
	heir.apply(t, portUnit("n1", "other", "u", 16)) // the same tunnel key: the late port would break the switch
	before := dump(nb)
	release()
	if err := <-late; !ovndb.IsPending(err) {
		t.Errorf("the late commit: %v, want it pending for ever", err)
	}
	if err := zombie.ends(t); !errors.Is(err, ovndb.ErrFenced) {
		t.Errorf("the former leader ended with %v, want ErrFenced", err)
	}
	if after := dump(nb); after != before {
		t.Errorf("rows differ; before:\n%s\nafter:\n%s", before, after)
	}
	heir.whole(t)
}

// The same for a former leader that abandoned the connection and reconnected over another path before its commit
// arrived. It finds its successor while connecting, and the commit still fails at the other epoch.
func TestCommitThatOutlivesItsConnectionFails(t *testing.T) {
	t.Parallel()
	nb := ovndbtest.Start(t, "ovn-nb")
	wire, other := ovndbtest.StartWire(t, nb), ovndbtest.StartWire(t, nb)
	cfg := quick(wire.Endpoint(), other.Endpoint())
	cfg.Heartbeat = time.Hour
	e := runWith(t, cfg)
	e.apply(t, switchUnit("n1", 10))
	held, release := wire.Hold("late-port")
	go func() { _ = e.try(portUnit("n1", "late-port", "first", 16)) }()
	<-held
	e.await(t, "the other path", func() bool { return e.counter.fenced() == 2 && e.Connected() })
	e.settle(t, portUnit("n1", "late-port", "second", 16)) // meanwhile the pod was recreated
	before, log := dump(nb), nb.Transactions()
	release()
	if after := dump(nb); after != before || nb.Transactions() != log {
		t.Errorf("the late commit was carried out; before:\n%s\nafter:\n%s", before, after)
	}
	e.whole(t)
}

// A take-over whose reply is lost is recognized. If another process has taken over since, it is not mistaken for our
// own.
func TestReplyLostAfterATakeOver(t *testing.T) {
	t.Parallel()
	nb := ovndbtest.Start(t, "ovn-nb")
	wire, other := ovndbtest.StartWire(t, nb), ovndbtest.StartWire(t, nb)
	first := runWith(t, quick(wire.Endpoint(), other.Endpoint()))
	first.apply(t, switchUnit("n1", 10))
	wire.Set(ovndbtest.Passing, ovndbtest.Lost) // its next transactions are committed, but the replies are lost
	first.await(t, "its other path", func() bool { return first.counter.fenced() > 1 && first.Connected() })
	first.settle(t, switchUnit("n2", 11))

	other.Set(ovndbtest.Lost, ovndbtest.Passing)
	heir := run(t, nb)
	heir.apply(t, switchUnit("n3", 12))
	wire.Set(ovndbtest.Passing, ovndbtest.Passing)
	if err := first.ends(t); !errors.Is(err, ovndb.ErrFenced) {
		t.Errorf("the former leader ended with %v, want ErrFenced", err)
	}
	if names := nb.Ctl("--bare", "--columns=name", "list", "Logical_Switch"); !strings.Contains(names, "n3") {
		t.Errorf("switches are %q", names)
	}
	heir.whole(t)
}

// A successor connects while the former leader's last commit is on its way, and the server sends it that commit late, or
// never. The successor does not plan with rows that the commit removed.
func TestTheFormerLeadersLastCommitIsAwaited(t *testing.T) {
	t.Parallel()
	nb := ovndbtest.Start(t, "ovn-nb")
	former := runWith(t, ovndb.Config{Endpoints: []string{nb.Endpoint()}, Heartbeat: time.Hour})
	former.apply(t, switchUnit("n1", 10))
	wire := ovndbtest.StartWire(t, nb)
	wire.Mute(true) // the next connection gets its copy, and no updates
	cfg := quick(wire.Endpoint())
	cfg.Heartbeat = time.Hour
	var once sync.Once
	cfg.Admit = func(context.Context, *ovndb.Conn) error { // after the copy, and before the take-over
		once.Do(func() {
			wire.Mute(false)
			former.apply(t, unit.Unit{Key: switchUnit("n1", 10).Key})
		})
		return nil
	}
	heir := runWith(t, cfg)
	heir.apply(t, switchUnit("n1", 10))
	if names := nb.Ctl("--bare", "--columns=name", "list", "Logical_Switch"); !strings.Contains(names, "n1") {
		t.Errorf("switches are %q, want n1", names)
	}
	if drifts := heir.Drifts(); drifts.Total > 0 {
		t.Errorf("counted as foreign: %+v", drifts)
	}
	heir.whole(t)
}
