package tracer_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/pkg/trace"
	"github.com/weft-network/weft/pkg/trace/tracer"
)

// A real ovn-northd is active, then paused, then stopped by a signal.
func TestNorthd(t *testing.T) {
	central := ovndbtest.StartCentral(t)
	tracing := tracer.Tracer{Northbound: strings.TrimPrefix(central.NB.Endpoint(), "unix:"), Northd: central.NorthdControl()}
	expect := func(status, stale string) {
		t.Helper()
		answer, err := tracing.Run(t.Context(), trace.Request{Northd: true})
		if err != nil {
			t.Fatal(err)
		}
		if answer.Northd.Status != status || !strings.Contains(trace.Stale([]trace.NorthdState{*answer.Northd}), stale) {
			t.Errorf("ovn-northd is %+v, want %q and %q", answer.Northd, status, stale)
		}
	}
	central.Sync()
	expect("active", "")
	central.Northd("pause")
	expect("paused", "ovn-northd is paused")
	central.Northd("resume")
	if err := syscall.Kill(central.NorthdPID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	expect("", "ovn-northd does not respond (no answer within")
	if err := syscall.Kill(central.NorthdPID(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	tracing.Northd, tracing.Dir = "", t.TempDir()
	expect("", "ovn-northd.pid")
}
