//go:build e2e

package central

import (
	"os"
	"time"
)

// cold starts northd with a full northbound database and a southbound database that has only chassis.
func (w *world) cold() {
	w.Helper()
	w.request()
	server, began := w.cpu(w.central.SB.PID()), time.Now()
	w.central.RunNorthd()
	w.reached()
	w.note(time.Since(began).Seconds(), false, "from nothing, s")
	w.note(w.cpu(w.central.NorthdPID()).Seconds(), false, "from nothing, northd CPU s")
	w.note((w.cpu(w.central.SB.PID()) - server).Seconds(), false, "from nothing, SB server CPU s")
}

// claimAll makes every chassis claim its ports.
func (w *world) claimAll() {
	w.Helper()
	northd, server := w.cpu(w.central.NorthdPID()), w.cpu(w.central.SB.PID())
	n, err := w.sb.Claim(0)
	w.must(err)
	if pods := w.size.Ports / w.size.Zones; n < pods {
		w.Fatalf("%d ports were claimed, want one for each of the %d pods", n, pods)
	}
	w.sync()
	w.note((w.cpu(w.central.NorthdPID()) - northd).Seconds(), false, "claims of all ports, northd CPU s")
	w.note((w.cpu(w.central.SB.PID()) - server).Seconds(), false, "claims of all ports, SB server CPU s")
}

// tables are the southbound tables that grow with the cluster.
var tables = []string{"Datapath_Binding", "Port_Binding", "Logical_Flow", "Logical_DP_Group", "Multicast_Group",
	"Load_Balancer", "Port_Group", "Address_Set", "Chassis_Template_Var"}

// rows notes the number of rows, and the disk space and memory that they take.
func (w *world) rows() {
	w.Helper()
	for _, table := range tables {
		n, err := w.sb.Rows(table)
		w.must(err)
		w.note(float64(n), true, "rows of %s", table)
	}
	info, err := os.Stat(w.central.SB.File())
	w.must(err)
	w.note(float64(info.Size())/1e6, false, "file of the SB database, MB")
	w.noteMB(w.central.NB.PID(), "memory of the NB server, MB")
	w.noteMB(w.central.SB.PID(), "memory of the SB server, MB")
	w.noteMB(w.central.NorthdPID(), "memory of northd, MB")
}

// recomputeAll makes northd recompute everything, which must not write anything.
func (w *world) recomputeAll() {
	w.Helper()
	const times = 3
	northd, server, began := w.cpu(w.central.NorthdPID()), w.cpu(w.central.SB.PID()), time.Now()
	for range times {
		w.northd("inc-engine/recompute")
		w.sync()
	}
	w.note(time.Since(began).Seconds()/times, false, "all anew, s")
	w.note((w.cpu(w.central.NorthdPID())-northd).Seconds()/times, false, "all anew, northd CPU s")
	w.note((w.cpu(w.central.SB.PID())-server).Seconds()/times, false, "all anew, SB server CPU s")
	w.noteMB(w.central.NorthdPID(), "all anew, memory of northd, MB")
}
