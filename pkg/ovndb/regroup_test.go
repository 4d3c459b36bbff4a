package ovndb_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/weft-network/weft/pkg/unit"
)

// regroup makes ports join the group, and others leave it.
func (j *joining) regroup(join, leave []unit.Unit) {
	change := unit.Regrouping{Rows: []unit.Ref{groupRef()},
		Members: func(u unit.Unit) []unit.Membership { return []unit.Membership{inGroup(u)} }}
	for _, u := range join {
		change.Join = append(change.Join, u.Key)
	}
	for _, u := range leave {
		change.Leave = append(change.Leave, u.Key)
	}
	change.Leave = append(change.Leave, "port/never/applied")
	j.Regroup([]unit.Regrouping{change})
}

func (j *joining) retry(t *testing.T) {
	t.Helper()
	if err := j.Retry(t.Context(), j.group.Key); err != nil {
		t.Error(err)
	}
}

// Ports join a group that exists and leave it in one transaction, without being applied.
func TestRegroup(t *testing.T) {
	j := newJoining(t)
	j.join(j.ports[:3]...)
	j.apply(t, j.group)
	n := j.counter.count()
	j.regroup(j.ports[3:], j.ports[:2])
	j.retry(t)
	j.expect(t, "two left and two joined", 3, n+1)
	for _, port := range j.ports[:2] {
		j.apply(t, port)
	}
	j.regroup(j.ports[2:], j.ports[:2]) // again
	j.retry(t)
	j.expect(t, "again", 3, n+1)
	j.regroup(nil, j.ports)
	j.retry(t)
	j.expect(t, "all left", 0, n+2)
	j.regroup(j.ports, nil)
	j.regroup(nil, j.ports[1:])
	j.retry(t)
	j.await(t, "the last change", func() bool {
		return len(strings.Fields(j.nb.Ctl("--bare", "--columns=ports", "list", "Port_Group"))) == 1
	})
	j.expect(t, "joined, and left before that was written", 1, j.counter.count())
}

// Ports may leave a group that is not written yet, while its insertion is in flight, or while there is no connection.
func TestRegroupAtABadMoment(t *testing.T) {
	j := newJoining(t)
	j.join(j.ports...)
	j.regroup(nil, j.ports[:1])
	n := j.counter.count()
	j.counter.beforeSettling(func() { j.regroup(nil, j.ports[1:2]) })
	j.apply(t, j.group)
	j.await(t, "the second port", func() bool { return j.counter.count() == n+2 })
	j.expect(t, "one left before, one in flight", 3, n+2)
	j.nb.Kill()
	j.await(t, "the end of the connection", func() bool { return !j.Connected() })
	j.regroup(j.ports[:1], j.ports[2:4])
	j.nb.Run()
	j.await(t, "the connection", j.Connected)
	j.settle(t, j.group)
	j.settle(t, switchUnit("n2", 11)) // all units were compared before
	j.await(t, "one port that joined, and one that stayed", func() bool {
		return len(strings.Fields(j.nb.Ctl("--bare", "--columns=ports", "list", "Port_Group"))) == 2
	})
	if got := j.counter.driftLog(); len(got) > 0 {
		t.Errorf("reported as drift: %v", got)
	}
}

// A port that is applied again and leaves its group before it is compared has not changed by others: the group's unit removes it.
func TestAUnitIsComparedWhileItLeaves(t *testing.T) {
	j := newJoining(t)
	j.join(j.ports...)
	j.apply(t, j.group)
	same := j.ports[0]
	same.Members = append(slices.Clone(same.Members), inGroup(same))
	now, cancel := context.WithCancel(t.Context())
	cancel() // Apply must not wait for the outcome
	n := j.counter.count()
	j.counter.beforeSettling(func() {
		_ = j.Apply(now, same)
		j.regroup(nil, j.ports[:1])
	})
	j.apply(t, switchUnit("n2", 11))
	j.settle(t, j.group)
	j.expect(t, "compared while it leaves", 4, n+2)
	j.nb.Ctl("destroy", "Port_Group", "g")
	j.await(t, "the report of a foreign change", func() bool { return len(j.counter.driftLog()) > 0 })
}

// What a former process left in a group is no foreign change when the group's unit comes after that of a port, which nobody wants in it.
func TestWhatAFormerProcessLeftInAGroup(t *testing.T) {
	former := newJoining(t)
	former.join(former.ports...)
	former.apply(t, former.group)
	j := &joining{running: run(t, former.nb), nb: former.nb, group: former.group}
	j.apply(t, switchUnit("n1", 10))
	for _, port := range former.ports {
		j.apply(t, port)
	}
	j.apply(t, j.group)
	n := j.counter.count()
	for _, port := range former.ports {
		j.apply(t, port)
	}
	j.expect(t, "applied again", 5, n)
	j.Complete()
	j.settle(t, j.group)
	j.expect(t, "everything is known", 0, n+1)
}
