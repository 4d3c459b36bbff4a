package rebuild

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-network/weft/pkg/install/beside"

	"github.com/weft-network/weft/pkg/ovn/unixctl"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
)

// objects implements Kubernetes for tests.
type objects struct {
	chassis []beside.Chassis
	ports   func() ([]string, error)
}

func (o objects) Chassis(context.Context) ([]beside.Chassis, error) { return o.chassis, nil }
func (o objects) InSync(context.Context) error                      { return nil }
func (o objects) Ports(context.Context) ([]string, error) {
	if o.ports == nil {
		return nil, nil
	}
	return o.ports()
}

// central is a pair of databases with an ovn-northd, and the options to rebuild them.
type central struct {
	*ovndbtest.Central
	options Options
}

func dirOf(s *ovndbtest.Server) string {
	return filepath.Dir(strings.TrimPrefix(s.Endpoint(), "unix:"))
}

// startCentral creates a switch with two ports, of which one is bound to a chassis.
func startCentral(t *testing.T) *central {
	t.Helper()
	c := &central{Central: ovndbtest.StartCentral(t)}
	runDir := shortDir(t)
	c.options = Options{RunDir: runDir, NB: c.NB.Endpoint(), SB: c.SB.Endpoint(),
		NBFile: filepath.Join(dirOf(c.NB), "db"), SBFile: filepath.Join(dirOf(c.SB), "db"), Programs: programs(t), Wait: 10 * time.Second}
	for name, socket := range map[string]string{
		"ovnnb_db.ctl":     filepath.Join(dirOf(c.NB), "ctl"),
		"ovnsb_db.ctl":     filepath.Join(dirOf(c.SB), "ctl"),
		"ovn-northd.1.ctl": filepath.Join(dirOf(c.NB), "northd.ctl"),
	} {
		if err := os.Symlink(socket, filepath.Join(runDir, name)); err != nil {
			t.Fatal(err)
		}
	}
	c.fill()
	c.Sync()
	c.SB.Ctl("--", "--id=@e", "create", "Encap", "chassis_name=n1", "type=geneve", `ip="192.0.2.1"`,
		"--", "--id=@c", "create", "Chassis", "name=n1", "hostname=n1", "encaps=@e", "other_config:ovn-monitor-all=true",
		"other_config:kept=yes",
		"--", "create", "Chassis_Private", "name=n1", "chassis=@c")
	c.SB.Ctl("lsp-bind", "bound", "n1", "--", "set", "Port_Binding", "bound", "up=true")
	c.Sync()
	return c
}

func (c *central) fill() {
	c.NB.Ctl("--", "ls-add", "s", "--", "set", "Logical_Switch", "s", "other_config:requested-tnl-key=70000",
		"--", "lsp-add", "s", "bound", "--", "lsp-set-addresses", "bound", "0a:58:00:00:00:01 10.0.0.1",
		"--", "set", "Logical_Switch_Port", "bound", "options:requested-tnl-key=40",
		"--", "lsp-add", "s", "unbound", "--", "set", "Logical_Switch_Port", "unbound", "options:requested-tnl-key=30")
}

func (c *central) northd(t *testing.T) string {
	t.Helper()
	status, err := unixctl.Call(t.Context(), filepath.Join(c.options.RunDir, "ovn-northd.1.ctl"), "status")
	if err != nil {
		t.Fatal(err)
	}
	return status
}

// of returns a column of the southbound row with this name.
func (c *central) of(table, name, column string) string {
	return strings.TrimSpace(c.SB.Ctl("--bare", "--columns="+column, "list", table, name))
}

// mustBeWhole checks that the southbound database is unchanged.
func (c *central) mustBeWhole(t *testing.T, chassis string) {
	t.Helper()
	for _, test := range []struct{ table, name, column, want string }{
		{"Chassis", "n1", "_uuid", chassis}, {"Port_Binding", "bound", "chassis", chassis}, {"Port_Binding", "bound", "up", "true"},
		{"Port_Binding", "bound", "tunnel_key", "40"}, {"Port_Binding", "unbound", "tunnel_key", "30"},
		{"Port_Binding", "unbound", "chassis", ""},
	} {
		if got := c.of(test.table, test.name, test.column); got != test.want {
			t.Errorf("%s %s: %s is %q, want %q", test.table, test.name, test.column, got, test.want)
		}
	}
	if flows := c.SB.Ctl("lflow-list", "s"); strings.Count(flows, "table=") < 50 {
		t.Errorf("the switch has too few flows:\n%s", flows)
	}
	if status := c.northd(t); !strings.Contains(status, "active") {
		t.Errorf("ovn-northd: %s", status)
	}
	if _, err := os.Stat(filepath.Join(dirOf(c.SB), ".weft-rebuild")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder of the new databases: %v", err)
	}
}

func TestRebuildKeepsWhatOthersWrote(t *testing.T) {
	c := startCentral(t)
	c.SB.Ctl("--id=@k", "create", "Connection", "target=\"ptcp:0:127.0.0.1\"", "--", "set", "SB_Global", ".", "connections=@k")
	chassis := c.of("Chassis", "n1", "_uuid")
	c.options.Wait = 3 * time.Second // no ovn-controller runs here
	report, err := Run(t.Context(), c.options, objects{})
	if err != nil {
		t.Fatal(err)
	}
	c.Sync()
	c.mustBeWhole(t, chassis)
	if got := c.of("Chassis", "n1", "other_config"); !strings.Contains(got, "kept=yes") {
		t.Errorf("other_config of the chassis: %s", got)
	}
	if got := c.SB.Ctl("--bare", "--columns=target", "list", "Connection"); !strings.Contains(got, "ptcp:0:127.0.0.1") {
		t.Errorf("listeners: %q", got)
	}
	if !slices.Equal(report.Silent, []string{"n1"}) || report.Bound != 1 || len(report.Unbound) != 0 || len(report.Previous) != 1 {
		t.Errorf("report: %+v", report)
	}
}

// The run fails if the ovn-controller of a live node does not follow.
func TestAChassisThatShouldFollowAndDoesNot(t *testing.T) {
	c := startCentral(t)
	c.options.Wait = 3 * time.Second
	chassis := []beside.Chassis{{Name: "n1", EncapType: "geneve", EncapIP: "192.0.2.1", Alive: true}}
	_, err := Run(t.Context(), c.options, objects{chassis: chassis})
	if err == nil || !strings.Contains(err.Error(), "n1") {
		t.Errorf("the run ended with %v", err)
	}
}

func TestRefusalsChangeNothing(t *testing.T) {
	c := startCentral(t)
	chassis := c.of("Chassis", "n1", "_uuid")
	for name, test := range map[string]struct {
		change  func()
		option  func(*Options)
		message string
	}{
		"partial monitor": {func() { c.SB.Ctl("remove", "Chassis", "n1", "other_config", "ovn-monitor-all") }, nil, "n1"},
		"foreign rows":    {nil, func(o *Options) { o.Northbound = true }, "--drop-foreign-rows"},
		"a northd elsewhere": {nil, func(o *Options) {
			o.Wait, o.RunDir = time.Second, shortDir(t)
		}, "another ovn-northd"},
		"another file":    {nil, func(o *Options) { o.SBFile = filepath.Join(dirOf(c.SB), "other") }, "does not have"},
		"no such program": {nil, func(o *Options) { o.Programs.OVSDBTool = "/nonexistent/ovsdb-tool" }, "/nonexistent"},
		"no northbound":   {nil, func(o *Options) { o.NB = "unix:/nonexistent" }, "--nb"},
	} {
		t.Run(name, func(t *testing.T) {
			o := c.options
			if test.change != nil {
				test.change()
				defer c.SB.Ctl("set", "Chassis", "n1", "other_config:ovn-monitor-all=true")
			}
			if test.option != nil {
				test.option(&o)
			}
			if _, err := Run(t.Context(), o, objects{}); err == nil || !strings.Contains(err.Error(), test.message) {
				t.Errorf("the run ended with %v, want %q", err, test.message)
			}
			c.mustBeWhole(t, chassis)
		})
	}
}

// The northbound database is emptied while ovn-northd pauses. The operator, here the test, fills it again.
func TestNorthboundIsFilledAgain(t *testing.T) {
	c := startCentral(t)
	chassis := c.of("Chassis", "n1", "_uuid")
	c.NB.Ctl("set", "NB_Global", ".", "options:kept=yes")
	c.options.Northbound, c.options.DropForeign, c.options.Wait = true, true, 3*time.Second
	calls := 0
	report, err := Run(t.Context(), c.options, objects{ports: func() ([]string, error) {
		if calls++; calls == 1 {
			if left := c.NB.Ctl("ls-list"); left != "" {
				t.Errorf("switches are left: %s", left)
			}
			if status := c.northd(t); !strings.Contains(status, "paused") {
				t.Errorf("ovn-northd: %s", status)
			}
			c.fill()
		}
		return []string{"bound", "unbound"}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if report.Bound != 1 || len(report.Unbound) != 0 {
		t.Errorf("report: %+v", report)
	}
	c.Sync()
	c.mustBeWhole(t, chassis)
	if got := c.NB.Ctl("get", "NB_Global", ".", "options:kept"); !strings.Contains(got, "yes") {
		t.Errorf("the administrator's option: %q", got)
	}
}

func TestNorthboundIsRestoredIfTheOperatorDoesNotFillIt(t *testing.T) {
	c := startCentral(t)
	chassis := c.of("Chassis", "n1", "_uuid")
	c.options.Northbound, c.options.DropForeign = true, true
	away := errors.New("the operator is away")
	report, err := Run(t.Context(), c.options, objects{ports: func() ([]string, error) { return nil, away }})
	if !errors.Is(err, away) || report.Previous != nil {
		t.Errorf("the run ended with %v and %+v", err, report)
	}
	c.Sync()
	if left := c.NB.Ctl("ls-list"); !strings.Contains(left, "(s)") {
		t.Errorf("switches: %q", left)
	}
	c.mustBeWhole(t, chassis)
}

// If the northbound database was lost, there is no file to restore. If ovn-northd resumed with an empty database, it
// would empty the southbound database.
func TestNorthdStaysPausedWhileALostNorthboundIsIncomplete(t *testing.T) {
	c := startCentral(t)
	chassis := c.of("Chassis", "n1", "_uuid")
	o := c.options
	o.Northbound, o.NBSchema = true, ovndbtest.SchemaFile(t, "ovn-nb")
	c.NB.Kill()
	if err := os.Remove(o.NBFile); err != nil {
		t.Fatal(err)
	}
	started := make(chan struct{})
	go func() {
		defer close(started)
		for _, err := os.Stat(o.NBFile); err != nil; _, err = os.Stat(o.NBFile) {
			time.Sleep(10 * time.Millisecond) // a supervisor also retries
		}
		c.NB.Run()
	}()
	away := errors.New("the operator is away")
	report, err := Run(t.Context(), o, objects{ports: func() ([]string, error) { return nil, away }})
	<-started
	if !errors.Is(err, away) || !strings.Contains(strings.Join(report.Notes, "\n"), "stays paused") {
		t.Errorf("the run ended with %v and %q", err, report.Notes)
	}
	if status := c.northd(t); !strings.Contains(status, "paused") {
		t.Errorf("ovn-northd: %s", status)
	}
	if got := c.of("Port_Binding", "bound", "chassis"); got != chassis {
		t.Errorf("the port is bound to %q", got)
	}

	c.fill() // the operator is back
	c.options.Wait = 3 * time.Second
	if _, err := Run(t.Context(), c.options, objects{}); err != nil {
		t.Fatal(err)
	}
	c.Sync()
	c.mustBeWhole(t, chassis)
}

func TestChangedKeysStopTheRun(t *testing.T) {
	c := startCentral(t)
	if _, err := unixctl.Call(t.Context(), filepath.Join(c.options.RunDir, "ovn-northd.1.ctl"), "pause"); err != nil {
		t.Fatal(err)
	}
	c.SB.Ctl("set", "Port_Binding", "unbound", "tunnel_key=31")
	_, err := Run(t.Context(), c.options, objects{})
	if err == nil || !strings.Contains(err.Error(), "port unbound: 30, was 31") {
		t.Errorf("the run ended with %v", err)
	}
	if status := c.northd(t); !strings.Contains(status, "paused") {
		t.Errorf("ovn-northd, which the administrator had paused: %s", status)
	}
}

// Two concurrent runs would swap each other's files.
func TestOneRunAtATime(t *testing.T) {
	c := startCentral(t)
	c.options.Wait = 3 * time.Second
	chassis := objects{}
	_, err := Run(t.Context(), c.options, objectsFunc{chassis, func() {
		if _, err := Run(t.Context(), c.options, chassis); err == nil || !strings.Contains(err.Error(), "another rebuild") {
			t.Errorf("the second run ended with %v", err)
		}
	}})
	if err != nil {
		t.Error(err)
	}
}

// objectsFunc calls do before it returns the chassis.
type objectsFunc struct {
	objects
	do func()
}

func (o objectsFunc) Chassis(ctx context.Context) ([]beside.Chassis, error) {
	o.do()
	return o.objects.Chassis(ctx)
}

func TestRaftMembersAreRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "member")
	ovndbtest.Command(t, "ovsdb-tool", "create-cluster", file, ovndbtest.SchemaFile(t, "ovn-sb"), "unix:"+file+".raft")
	if err := standaloneFile(file); err == nil || !strings.Contains(err.Error(), "raft") {
		t.Errorf("a member's file: %v", err)
	}
	fresh, _ := freshFile(t, t.TempDir())
	for _, path := range []string{fresh, file + ".absent"} {
		if err := standaloneFile(path); err != nil {
			t.Error(err)
		}
	}
}
