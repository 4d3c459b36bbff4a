package chassis_test

import (
	"strings"
	"testing"

	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/test/poll"
)

// The chassis follow the ports, each change in one transaction. A restart, and the changes of others, cause none.
func TestChassisFollowThePorts(t *testing.T) {
	z := newZone(t)
	z.SB.Ctl("chassis-add", "n1", "geneve", "192.0.2.1")
	z.addNode("n2", "geneve 192.0.2.2")
	stop := z.run()
	z.await("n1 local geneve 192.0.2.1", "n2 remote geneve 192.0.2.2")
	z.addNode("n3", "geneve 192.0.2.3")
	z.await("n1 local geneve 192.0.2.1", "n2 remote geneve 192.0.2.2", "n3 remote geneve 192.0.2.3")
	z.setEncaps("n2", "geneve 2001:db8::2")
	z.await("n1 local geneve 192.0.2.1", "n2 remote geneve 2001:db8::2", "n3 remote geneve 192.0.2.3")
	z.removeNode("n3")
	z.await("n1 local geneve 192.0.2.1", "n2 remote geneve 2001:db8::2")
	if got := z.writes(); got != 4 {
		t.Errorf("%d transactions, want 4", got)
	}
	binding := func() bool {
		text := strings.TrimSpace(z.SB.Ctl("--bare", "--columns=chassis", "find", "Port_Binding", "logical_port=tstor-n2"))
		return text == strings.TrimSpace(z.SB.Ctl("--bare", "--columns=_uuid", "find", "Chassis", "name=n2"))
	}
	poll.Eventually(t, patience, poll.True("ovn-northd binds the port", binding))

	stop()
	z.run()
	z.SB.Ctl("set", "Chassis", "n1", "nb_cfg=7")
	z.addNode("n4", "geneve 192.0.2.4") // shows that the databases have been compared
	z.await("n1 local geneve 192.0.2.1", "n2 remote geneve 2001:db8::2", "n4 remote geneve 192.0.2.4")
	if got := z.writes(); got != 5 {
		t.Errorf("%d transactions after a restart and a port, want 5", got)
	}
}

// What was removed while no process ran goes at the start.
func TestAStartRemovesWhatIsObsolete(t *testing.T) {
	z := newZone(t)
	z.addNode("n2", "geneve 192.0.2.2")
	z.addNode("n3", "geneve 192.0.2.3")
	stop := z.run()
	z.await("n2 remote geneve 192.0.2.2", "n3 remote geneve 192.0.2.3")
	stop()
	z.removeNode("n2")
	z.Sync()
	z.run()
	z.await("n3 remote geneve 192.0.2.3")
}

// A port, or a chassis, that cannot be written is logged once and delays no other.
func TestBadPortsHarmNoOthers(t *testing.T) {
	z := newZone(t)
	z.SB.Ctl("chassis-add", "n1", "geneve", "192.0.2.1")
	z.addPort("none", `external_ids:weft.dev/encap="geneve 192.0.2.8"`)
	z.addNode("bad", "192.0.2.9")
	z.addNode("taken", "geneve 192.0.2.1")
	z.addNode("n2", "geneve 192.0.2.2")
	z.run()
	z.await("n1 local geneve 192.0.2.1", "n2 remote geneve 192.0.2.2")
	z.addNode("n3", "geneve 192.0.2.3")
	z.await("n1 local geneve 192.0.2.1", "n2 remote geneve 192.0.2.2", "n3 remote geneve 192.0.2.3")
	for _, parts := range [][]string{
		{"cannot make a chassis", `"port"="tstor-none"`, "requested-chassis is missing"},
		{"cannot make a chassis", `"port"="tstor-bad"`, "weft.dev/encap"},
		{"cannot write the chassis", `"chassis"="taken"`},
	} {
		if got := z.log.count(parts...); got != 1 {
			t.Errorf("%d lines of the log have %q, want 1", got, parts)
		}
	}
	// The tunnel end becomes free.
	z.SB.Ctl("chassis-del", "n1")
	z.setEncaps("bad", "geneve 192.0.2.9")
	z.await("taken remote geneve 192.0.2.1", "n2 remote geneve 192.0.2.2", "n3 remote geneve 192.0.2.3", "bad remote geneve 192.0.2.9")
}

// Two nodes that swap their addresses do not block each other, although the database has each tunnel end once.
func TestATunnelEndMoves(t *testing.T) {
	z := newZone(t)
	z.addNode("n2", "geneve 192.0.2.2")
	z.addNode("n3", "geneve 192.0.2.3")
	z.run()
	z.await("n2 remote geneve 192.0.2.2", "n3 remote geneve 192.0.2.3")
	z.NB.Ctl("set", "Logical_Switch_Port", "tstor-n2", `external_ids:weft.dev/encap="geneve 192.0.2.3"`,
		"--", "set", "Logical_Switch_Port", "tstor-n3", `external_ids:weft.dev/encap="geneve 192.0.2.2"`)
	z.await("n2 remote geneve 192.0.2.3", "n3 remote geneve 192.0.2.2")
	z.NB.Ctl("lsp-del", "tstor-n2", "--", "set", "Logical_Switch_Port", "tstor-n3", "options:requested-chassis=n4")
	z.await("n4 remote geneve 192.0.2.2")
}

// Nothing is removed while the northbound database is away, nor while it is empty and ovn-northd paused, as during a
// rebuild.
func TestChassisOutliveTheNorthboundDatabase(t *testing.T) {
	z := newZone(t)
	z.addNode("n2", "geneve 192.0.2.2")
	z.Sync()
	z.run()
	z.await("n2 remote geneve 192.0.2.2")
	z.Northd("pause")
	z.NB.Kill()
	poll.Eventually(t, patience, poll.True("the loss is logged", func() bool {
		return z.log.count("OVN_Northbound", `"connected"=false`) > 0
	}))
	z.SB.Ctl("chassis-del", "n2") // a foreign change shows that the process works
	z.await("n2 remote geneve 192.0.2.2")

	z.NB.Empty()
	z.NB.Run()
	z.NB.Ctl("ls-add", "transit")
	z.addNode("n3", "geneve 192.0.2.3") // shows that the ports of the empty database have been read
	z.await("n2 remote geneve 192.0.2.2", "n3 remote geneve 192.0.2.3")
	z.Northd("resume")
	z.await("n3 remote geneve 192.0.2.3")
}

// In a cluster only the process beside the leader writes.
func TestOnlyTheLeadersProcessWrites(t *testing.T) {
	z := &zone{T: t, Central: &ovndbtest.Central{NB: ovndbtest.Start(t, "ovn-nb")}}
	z.NB.Ctl("ls-add", "transit")
	cluster := ovndbtest.StartCluster(t, "ovn-sb", 3)
	writers := map[*ovndbtest.Member]string{}
	for _, m := range cluster.Members {
		writers[m] = "process beside " + m.Endpoint() + ":"
		z.runOn(m.Endpoint(), writers[m])
	}
	leader := cluster.Leader()
	add := func(name, ip string) {
		t.Helper()
		z.addNode(name, "geneve "+ip)
		poll.Eventually(t, patience, poll.True("chassis "+name, func() bool {
			return strings.TrimSpace(cluster.Ctl("--bare", "--columns=name", "find", "Chassis", "name="+name)) == name
		}))
	}
	writes := func(m *ovndbtest.Member) int {
		t.Helper()
		return strings.Count(ovndbtest.Command(t, "ovsdb-tool", "show-log", leader.File()), writers[m])
	}
	add("n2", "192.0.2.2")
	first := leader
	if leader.Transfer() == leader {
		t.Fatal("the leader has not changed")
	}
	leader = cluster.Leader()
	add("n3", "192.0.2.3")
	for _, m := range cluster.Members {
		want := 0
		if m == first || m == leader {
			want = 1
		}
		if got := writes(m); got != want {
			t.Errorf("the process beside %s: %d transactions, want %d", m.Endpoint(), got, want)
		}
	}
}
