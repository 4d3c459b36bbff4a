package ovndb_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
)

// With ovn-northd and no chassis, northd's acknowledgement is enough.
func TestPropagation(t *testing.T) {
	central := ovndbtest.StartCentral(t)
	e := runWith(t, ovndb.Config{Endpoints: []string{central.NB.Endpoint()}, Deadline: 3 * time.Second})
	for range 3 {
		took, err := e.Propagation(t.Context())
		if err != nil || took <= 0 {
			t.Errorf("took %s: %v", took, err)
		}
	}
	central.Northd("pause")
	if took, err := e.Propagation(t.Context()); !errors.Is(err, ovndb.ErrNotCopied) {
		t.Errorf("no chassis exists, and it took %s: %v", took, err)
	}
}

// A chassis that acknowledges later than a call's deadline is measured all the same, because it is the overloaded
// one.
func TestPropagationToASlowChassis(t *testing.T) {
	const slow = 4 * time.Second
	central := ovndbtest.StartCentral(t)
	e := runWith(t, ovndb.Config{Endpoints: []string{central.NB.Endpoint()}, Deadline: 2 * time.Second})
	central.SB.Ctl("create", "Chassis_Private", "name=slow", "nb_cfg=0")
	answer := time.AfterFunc(slow, func() { central.SB.Ctl("set", "Chassis_Private", "slow", "nb_cfg=1") })
	defer answer.Stop()
	if took, err := e.Propagation(t.Context()); err != nil || took < slow {
		t.Errorf("a chassis answers after %s, and it took %s: %v", slow, took, err)
	}
}

// The commands of the runbook name the slow chassis, and how long ovn-northd and the slowest chassis took.
func TestRunbookFindsTheSlowChassis(t *testing.T) {
	const slow = time.Second
	central := ovndbtest.StartCentral(t)
	e := runWith(t, ovndb.Config{Endpoints: []string{central.NB.Endpoint()}})
	central.SB.Ctl("create", "Chassis_Private", "name=slow", "nb_cfg=0")
	central.SB.Ctl("create", "Chassis_Private", "name=fast", "nb_cfg=0")
	acknowledge := func(name string) { // as ovn-controller does (ovn-sb(5))
		central.SB.Ctl("set", "Chassis_Private", name, "nb_cfg=1", fmt.Sprintf("nb_cfg_timestamp=%d", time.Now().UnixMilli()))
	}
	measured := make(chan error, 1)
	go func() {
		_, err := e.Propagation(t.Context())
		measured <- err
	}()
	chassis := func() []string {
		lines := strings.Fields(central.SB.Ctl(runbookCommand(t, "ovn-sbctl")...))
		slices.Sort(lines)
		return lines
	}
	central.NB.Ctl("--timeout=20", "wait-until", "NB_Global", ".", "sb_cfg=1")
	acknowledge("fast")
	if found := chassis(); len(found) != 2 || found[0] != "0,0,slow" || !strings.HasSuffix(found[1], ",fast") {
		t.Errorf("one chassis is late, and the page's command prints %q", found)
	}
	time.Sleep(slow)
	acknowledge("slow")
	if err := <-measured; err != nil {
		t.Fatal(err)
	}
	if found := chassis(); len(found) != 2 || !strings.HasSuffix(found[1], ",slow") {
		t.Errorf("one chassis was late, and the page's command prints %q", found)
	}
	times := map[string]int{}
	for line := range strings.Lines(central.NB.Ctl(runbookCommand(t, "ovn-nbctl")...)) {
		column, value, _ := strings.Cut(line, ":")
		times[strings.TrimSpace(column)], _ = strconv.Atoi(strings.TrimSpace(value))
	}
	began, northd, node := times["nb_cfg_timestamp"], times["sb_cfg_timestamp"], times["hv_cfg_timestamp"]
	if began == 0 || northd < began || time.Duration(node-northd)*time.Millisecond < slow {
		t.Errorf("a node took %s, and the page's command prints %v", slow, times)
	}
}

// runbookCommand returns the arguments of a program in a command of the page WeftSlowPropagation, without its database.
func runbookCommand(t *testing.T, program string) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/runbooks/WeftSlowPropagation.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		if _, command, ok := strings.Cut(line, " -- "+program+" "); ok {
			command, _, _ = strings.Cut(command, "|")
			return slices.DeleteFunc(strings.Fields(command), func(arg string) bool { return strings.HasPrefix(arg, "--db=") })
		}
	}
	t.Fatalf("the page has no command with %s", program)
	return nil
}

// If another measurement begins meanwhile, only its number is acknowledged. Ours never is.
func TestPropagationDuringAnotherMeasurement(t *testing.T) {
	central := ovndbtest.StartCentral(t)
	e := runWith(t, ovndb.Config{Endpoints: []string{central.NB.Endpoint()}, Deadline: 2 * time.Second})
	central.SB.Ctl("create", "Chassis_Private", "name=slow", "nb_cfg=0")
	other := time.AfterFunc(time.Second/2, func() { central.NB.Ctl("--wait=sb", "sync") })
	defer other.Stop()
	if took, err := e.Propagation(t.Context()); !errors.Is(err, ovndb.ErrNotAll) || took > 10*time.Second {
		t.Errorf("another measurement began, and it took %s: %v", took, err)
	}
}
