package chassis_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/pkg/install/chassis"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/test/isolation"
	"github.com/weft-network/weft/test/poll"
)

func TestMain(m *testing.M) {
	os.Exit(isolation.Run(unix.CLONE_NEWNET|unix.CLONE_NEWNS|unix.CLONE_NEWPID, func() int {
		if err := isolation.Furnish(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		code := m.Run()
		if err := goleak.Find(); code == 0 && err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	}))
}

const (
	// patience bounds the wait for a change.
	patience = 20 * time.Second
	// writer marks the transactions of a process in the server's log.
	writer = "chassis under test"
)

// zone is the databases of one zone.
type zone struct {
	*testing.T
	*ovndbtest.Central
	log lines
}

// lines are the lines of a log.
type lines struct {
	mu   sync.Mutex
	text []string
}

func newZone(t *testing.T) *zone {
	t.Helper()
	z := &zone{T: t, Central: ovndbtest.StartCentral(t)}
	z.NB.Ctl("ls-add", "transit")
	return z
}

// run runs the process on the zone's databases until the test ends or stop is called.
func (z *zone) run() (stop func()) { return z.runOn(z.SB.Endpoint(), writer) }

// runOn runs a process beside a southbound server. Its transactions have the writer's name.
func (z *zone) runOn(southbound, writer string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		chassis.Run(ctx, chassis.Options{Northbound: []string{z.NB.Endpoint()}, Southbound: southbound, Writer: writer,
			LeftAfter: 200 * time.Millisecond, Log: funcr.New(z.log.add, funcr.Options{})})
	}()
	stop = func() { cancel(); <-ended }
	z.Cleanup(stop)
	return stop
}

func (l *lines) add(_, args string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, args)
}

// count counts the lines that contain all parts.
func (l *lines) count(parts ...string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, line := range l.text {
		found := true
		for _, part := range parts {
			found = found && strings.Contains(line, part)
		}
		if found {
			n++
		}
	}
	return n
}

// addNode adds the port of a node elsewhere. The node's chassis has its name.
func (z *zone) addNode(name, encaps string) {
	z.Helper()
	z.addPort(name, "options:requested-chassis="+name, "external_ids:weft.dev/hostname="+name,
		`external_ids:weft.dev/encap="`+encaps+`"`)
}

// addPort adds a port of type remote with these columns.
func (z *zone) addPort(node string, columns ...string) {
	z.Helper()
	port := "tstor-" + node
	z.NB.Ctl(append([]string{"lsp-add", "transit", port, "--", "set", "Logical_Switch_Port", port, "type=remote"}, columns...)...)
}

// setEncaps changes the tunnel ends of a node elsewhere.
func (z *zone) setEncaps(node, encaps string) {
	z.Helper()
	z.NB.Ctl("set", "Logical_Switch_Port", "tstor-"+node, `external_ids:weft.dev/encap="`+encaps+`"`)
}

func (z *zone) removeNode(name string) {
	z.Helper()
	z.NB.Ctl("lsp-del", "tstor-"+name)
}

// chassis returns the chassis in the southbound database and their tunnel ends: "n2 remote geneve 192.0.2.2".
func (z *zone) chassis() map[string]bool {
	z.Helper()
	found := map[string]bool{}
	table := func(table, columns string) []string {
		text := strings.TrimSpace(z.SB.Ctl("--format=csv", "--data=bare", "--no-headings", "--columns="+columns, "list", table))
		if text == "" {
			return nil
		}
		return strings.Split(text, "\n")
	}
	ends := map[string]string{}
	for _, line := range table("Encap", "chassis_name,ip,type") {
		fields := strings.Split(line, ",")
		ends[fields[0]] += " " + fields[2] + " " + fields[1]
	}
	for _, line := range table("Chassis", "name,other_config") {
		name, config, _ := strings.Cut(line, ",")
		kind := "local"
		if strings.Contains(config, "is-remote=true") {
			kind = "remote"
		}
		found[name+" "+kind+ends[name]] = true
	}
	return found
}

// await waits until the southbound database has exactly these chassis.
func (z *zone) await(want ...string) {
	z.Helper()
	poll.Eventually(z, patience, func() error {
		have := z.chassis()
		same := len(have) == len(want)
		for _, line := range want {
			same = same && have[line]
		}
		if !same {
			return fmt.Errorf("the chassis are %v, want %q", have, want)
		}
		return nil
	})
}

// writes counts the transactions of the processes.
func (z *zone) writes() int {
	z.Helper()
	return strings.Count(z.SB.Log(), writer)
}

// private returns the names in Chassis_Private.
func (z *zone) private() string {
	z.Helper()
	return strings.TrimSpace(z.SB.Ctl("--bare", "--columns=name", "list", "Chassis_Private"))
}
