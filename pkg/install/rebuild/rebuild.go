package rebuild

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weft-network/weft/pkg/install/beside"
	"github.com/weft-network/weft/pkg/ovn/wire"
)

// Options select what to rebuild and where it is.
type Options struct {
	// RunDir is the folder of the control sockets ovnnb_db.ctl, ovnsb_db.ctl and ovn-northd.<pid>.ctl.
	RunDir string
	// NB and SB are OVSDB remotes of the databases, "unix:PATH" or "tcp:ADDRESS:PORT". The remotes of a cluster are
	// separated by commas.
	NB, SB string
	// NBFile and SBFile are the files of the databases. NBFile is required with Northbound.
	NBFile, SBFile string
	// NBSchema and SBSchema are schema files. They are used if the database's server does not answer.
	NBSchema, SBSchema string
	// Northbound also rebuilds the northbound database.
	Northbound bool
	// DropForeign permits losing the northbound rows that are not Weft's.
	DropForeign bool
	// NewKeys permits changed tunnel keys.
	NewKeys  bool
	Programs beside.Programs
	// Wait limits each wait: for the operator, ovn-northd, a server and the chassis.
	Wait time.Duration
	// OnStep, if set, is called after each step.
	OnStep func(Step)
}

// Kubernetes reads the cluster's objects.
type Kubernetes interface {
	// Chassis returns the chassis of all NodeNetworks.
	Chassis(ctx context.Context) ([]beside.Chassis, error)
	// Ports returns the names of the logical switch ports of all pods that have an address.
	Ports(ctx context.Context) ([]string, error)
	// InSync returns nil if the leading operator reports that the northbound database is in sync.
	InSync(ctx context.Context) error
}

// Report describes a run.
type Report struct {
	Steps   []Step  `json:"steps"`
	Seconds float64 `json:"seconds"`
	// PausedSeconds is how long ovn-northd was paused. New pods waited for that time.
	PausedSeconds float64 `json:"pausedSeconds,omitempty"`
	// Chassis and Bound are the numbers of chassis and bound ports that the new southbound database was seeded with.
	Chassis int `json:"chassis"`
	Bound   int `json:"bound"`
	// Previous lists the files of the replaced databases.
	Previous []string `json:"previous,omitempty"`
	// Silent lists chassis that do not follow. Unbound lists ports that are no longer bound.
	Silent  []string `json:"silent,omitempty"`
	Unbound []string `json:"unbound,omitempty"`
	// Notes are observations that are not failures.
	Notes []string `json:"notes,omitempty"`
	Error string   `json:"error,omitempty"`
}

// rebuild is one run.
type rebuild struct {
	Options
	run
	kubernetes Kubernetes
	report     Report

	oldSB, liveNB *wire.Database // oldSB is nil if the southbound server does not answer
	chassis       []beside.Chassis
	before        wire.Snapshot   // the old southbound database, read after ovn-northd has paused
	northds       []string        // control sockets
	replaced      map[string]bool // databases by name to which ovn-northd must reconnect
	paused        time.Time

	incomplete bool // the operator has not filled the northbound database yet, and there is no previous one to restore

	sockets string // folder of the sockets and logs of the processes aside
	aside   aside
}

// folderOf returns the folder in which to create the replacement of a file. It is on the same file system.
func folderOf(file string) string { return filepath.Join(filepath.Dir(file), ".weft-rebuild") }

// Run rebuilds the databases. The report is complete even if there is an error.
func Run(ctx context.Context, o Options, k Kubernetes) (Report, error) {
	r := &rebuild{
		replaced: map[string]bool{}, Options: o, run: run{onStep: o.OnStep}, kubernetes: k,
		sockets: filepath.Join(o.RunDir, ".weft-rebuild"),
	}
	start := time.Now()
	err := r.locked(ctx)
	r.report.Steps, r.report.Seconds = append([]Step{}, r.done...), time.Since(start).Seconds()
	if err != nil {
		r.report.Error = err.Error()
	}
	if !r.committed {
		r.report.Previous = nil // they were restored
	}
	if r.incomplete {
		r.report.Notes = append(r.report.Notes,
			"ovn-northd stays paused because the northbound database is incomplete: run the command again")
	}
	return r.report, err
}

// locked runs the steps while it holds the lock that excludes other runs.
func (r *rebuild) locked(ctx context.Context) error {
	file, err := os.OpenFile(filepath.Join(r.RunDir, "weft-rebuild.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("--run-dir %s does not exist: run this on the machine where the OVN databases and ovn-northd run", r.RunDir)
	}
	if err != nil {
		return err
	}
	defer file.Close() // releases the lock
	if err := beside.Lock(file); err != nil {
		return fmt.Errorf("another rebuild is running (%s: %w)", file.Name(), err)
	}
	folders := map[string]bool{r.sockets: true, folderOf(r.SBFile): true}
	if r.Northbound {
		folders[folderOf(r.NBFile)] = true
	}
	for dir := range folders {
		// A killed run leaves its folder behind.
		if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	defer r.close()
	return r.steps(ctx, r.plan())
}

// close closes the connections and stops the processes aside.
func (r *rebuild) close() {
	r.aside.stop()
	for _, d := range []*wire.Database{r.oldSB, r.liveNB} {
		if d != nil {
			d.Close()
		}
	}
}

func (r *rebuild) plan() []step {
	steps := []step{{"inspect", r.inspect}, {"pause ovn-northd", r.pauseNorthd}}
	if r.Northbound {
		steps = append(steps, step{"empty the northbound database", r.emptyNorthbound}, step{"await the operator", r.awaitOperator})
	}
	return append(steps,
		step{"copy the northbound database", r.copyNorthbound},
		step{"seed chassis", r.seedChassis},
		step{"compute the southbound database", r.compute},
		step{"seed bindings", r.seedBindings},
		step{"compare tunnel keys", r.compareKeys},
		step{"swap", r.swapSouthbound},
		step{"resume ovn-northd", r.resumeNorthd},
		step{"await the chassis", r.awaitChassis})
}

// inspect reads the existing state and returns an error if the rebuild cannot work, before anything is changed.
func (r *rebuild) inspect(ctx context.Context) (string, error) {
	var err error
	if r.chassis, err = r.kubernetes.Chassis(ctx); err != nil {
		return "", err
	}
	if r.Northbound {
		if err := r.inspectNorthbound(ctx); err != nil {
			return "", err
		}
	} else if r.liveNB, err = wire.Dial(ctx, r.NB, wire.Northbound); err != nil {
		return "", fmt.Errorf("%w; use --nb to rebuild a lost northbound database", err)
	} else {
		r.checkOperator(ctx)
	}
	known, err := r.inspectSouthbound(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d NodeNetworks, %s", len(r.chassis), known), nil
}

// operatorPatience is how long the operator may take to answer if its answer only results in a note.
const operatorPatience = 5 * time.Second

// checkOperator adds a note if the operator does not answer or finds drift in the northbound database. The southbound
// database is computed from the existing rows, and follows as usual when the operator continues.
func (r *rebuild) checkOperator(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(ctx, operatorPatience, fmt.Errorf("no answer within %s", operatorPatience))
	defer cancel()
	if err := r.kubernetes.InSync(ctx); err != nil {
		r.report.Notes = append(r.report.Notes, fmt.Sprintf("the operator: %v", err))
	}
}

// inspectSouthbound connects to the southbound database if its server answers.
func (r *rebuild) inspectSouthbound(ctx context.Context) (string, error) {
	var err error
	if r.oldSB, err = wire.Dial(ctx, r.SB, wire.Southbound); err != nil {
		if err := standaloneFile(r.SBFile); err != nil {
			return "", err
		}
		r.report.Notes = append(r.report.Notes,
			fmt.Sprintf("the southbound database does not answer (%v): using chassis and bindings from the NodeNetworks", err))
		return "no southbound database", nil
	}
	if err := errors.Join(standalone(ctx, r.SB, wire.Southbound), r.southbound().check(ctx)); err != nil {
		return "", err
	}
	all, err := r.oldSB.Snapshot(ctx, "Chassis")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d chassis", len(all["Chassis"])), monitorAll(all["Chassis"])
}

// monitorAll returns an error if chassis monitor only a part of the database by conditions. While such a chassis
// renews its conditions after the swap, its ovn-controller sees too few rows and removes flows.
func monitorAll(chassis []wire.Row) error {
	var partial []string
	for _, c := range chassis {
		if c.Pairs("other_config")["ovn-monitor-all"] != "true" {
			partial = append(partial, c.Text("name"))
		}
	}
	if len(partial) > 0 {
		return fmt.Errorf("chassis without ovn-monitor-all=true would lose flows: %s", strings.Join(partial, ", "))
	}
	return nil
}

// standalone returns an error for a clustered database, which has no single file to swap.
func standalone(ctx context.Context, remote, name string) error {
	d, err := wire.Dial(ctx, remote, wire.ServerDatabase)
	if err != nil {
		return err
	}
	defer d.Close()
	results, err := d.Transact(ctx, wire.Select("Database", wire.Is("name", name)))
	if err != nil {
		return err
	}
	for _, r := range results[0] {
		if model := r.Text("model"); model != "standalone" {
			return fmt.Errorf("database %s is %s; only a standalone database can be rebuilt", name, model)
		}
	}
	return nil
}

// standaloneFile is standalone for a file without a running server. An absent or damaged file is accepted.
func standaloneFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	magic := make([]byte, len(clusterMagic))
	if n, _ := file.Read(magic); string(magic[:n]) == clusterMagic {
		return fmt.Errorf("%s belongs to a member of a raft cluster; only a standalone database can be rebuilt", path)
	}
	return nil
}

// clusterMagic begins the file of a raft member. The file of a standalone database begins with "OVSDB JSON"
// (ovsdb(7)).
const clusterMagic = "OVSDB CLUSTER"

// northbound returns the live northbound database.
func (r *rebuild) northbound() target {
	return target{name: wire.Northbound, file: r.NBFile, remote: r.NB, control: filepath.Join(r.RunDir, "ovnnb_db.ctl"), start: r.Wait}
}

// southbound returns the live southbound database.
func (r *rebuild) southbound() target {
	return target{name: wire.Southbound, file: r.SBFile, remote: r.SB, control: filepath.Join(r.RunDir, "ovnsb_db.ctl"), start: r.Wait}
}

// bounded returns a context that limits one wait.
func (r *rebuild) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, r.Wait, fmt.Errorf("not within %s", r.Wait))
}
