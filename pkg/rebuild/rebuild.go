package rebuild

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Options say what to rebuild, and where it is.
type Options struct {
	// RunDir has the control sockets ovnnb_db.ctl, ovnsb_db.ctl and ovn-northd.<pid>.ctl.
	RunDir string
	// NB and SB are OVSDB remotes of the databases, "unix:PATH" or "tcp:ADDRESS:PORT"; several, of one cluster, are separated by commas.
	NB, SB string
	// NBFile and SBFile are the files of the databases. NBFile is needed with Northbound.
	NBFile, SBFile string
	// NBSchema and SBSchema are schema files for a database whose server does not answer.
	NBSchema, SBSchema string
	// Northbound makes the northbound database anew too.
	Northbound bool
	// DropForeign loses the northbound rows that are not Weft's.
	DropForeign bool
	// NewKeys goes on when tunnel keys differ from before.
	NewKeys  bool
	Programs Programs
	// Wait bounds each wait: for the operator, for ovn-northd, for a server, for the chassis.
	Wait time.Duration
	// Told hears of each step at its end.
	Told func(Step)
}

// Chassis is what a NodeNetwork's status says of its node.
type Chassis struct {
	Name, Hostname, EncapType, EncapIP string
	// Alive says that the node's ovn-controller is expected to follow.
	Alive bool
}

// Kubernetes is what the cluster's objects say.
type Kubernetes interface {
	// Chassis are those of all NodeNetworks.
	Chassis(ctx context.Context) ([]Chassis, error)
	// Ports are the names of the logical switch ports of the pods that have an address.
	Ports(ctx context.Context) ([]string, error)
	// InSync asks the operator that leads: nil if the northbound database is as it shall be.
	InSync(ctx context.Context) error
}

// Report is how a run went.
type Report struct {
	Steps   []Step  `json:"steps"`
	Seconds float64 `json:"seconds"`
	// PausedSeconds is how long ovn-northd paused: new pods waited.
	PausedSeconds float64 `json:"pausedSeconds,omitempty"`
	// Chassis and Bound count what the new southbound database was seeded with.
	Chassis int `json:"chassis"`
	Bound   int `json:"bound"`
	// Previous are the files of before.
	Previous []string `json:"previous,omitempty"`
	// Silent are chassis that do not follow; Unbound are ports that are bound no more.
	Silent  []string `json:"silent,omitempty"`
	Unbound []string `json:"unbound,omitempty"`
	// Notes are worth knowing and no failures.
	Notes []string `json:"notes,omitempty"`
	Error string   `json:"error,omitempty"`
}

// rebuild is one run.
type rebuild struct {
	Options
	run
	kubernetes Kubernetes
	report     Report

	oldSB, liveNB *database // oldSB is nil when nobody answers there
	chassis       []Chassis
	before        snapshot        // of the old southbound database, once ovn-northd pauses
	northds       []string        // control sockets
	replaced      map[string]bool // databases by name: ovn-northd has to connect again
	paused        time.Time

	incomplete bool // the northbound database lacks what the operator has to write, and there is no other to put in its place

	sockets string // folder of the sockets and logs of what runs aside
	aside   aside
}

// folderOf is where a database that shall take a file's place is made: on the same file system.
func folderOf(file string) string { return filepath.Join(filepath.Dir(file), ".weft-rebuild") }

// Run rebuilds. The report is complete also when there is an error.
func Run(ctx context.Context, o Options, k Kubernetes) (Report, error) {
	r := &rebuild{replaced: map[string]bool{}, Options: o, run: run{told: o.Told}, kubernetes: k, sockets: filepath.Join(o.RunDir, ".weft-rebuild")}
	start := time.Now()
	err := r.locked(ctx)
	r.report.Steps, r.report.Seconds = r.done, time.Since(start).Seconds()
	if err != nil {
		r.report.Error = err.Error()
	}
	if !r.committed {
		r.report.Previous = nil // they are in their places again
	}
	if r.incomplete {
		r.report.Notes = append(r.report.Notes, "ovn-northd stays paused, since the northbound database is not complete: run this again")
	}
	return r.report, err
}

// locked runs when no other run does.
func (r *rebuild) locked(ctx context.Context) error {
	file, err := os.OpenFile(filepath.Join(r.RunDir, "weft-rebuild.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer file.Close() // ends the lock
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("another rebuild runs (%s: %w)", file.Name(), err)
	}
	folders := map[string]bool{r.sockets: true, folderOf(r.SBFile): true}
	if r.Northbound {
		folders[folderOf(r.NBFile)] = true
	}
	for dir := range folders {
		// A run that was killed may have left it.
		if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	defer r.close()
	return r.steps(ctx, r.plan())
}

// close ends connections and what runs aside.
func (r *rebuild) close() {
	r.aside.stop()
	for _, d := range []*database{r.oldSB, r.liveNB} {
		if d != nil {
			d.Close()
		}
	}
}

func (r *rebuild) plan() []step {
	steps := []step{{"look", r.look}, {"pause ovn-northd", r.pauseNorthd}}
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

// look reads what there is and refuses what cannot work, before anything is touched.
func (r *rebuild) look(ctx context.Context) (string, error) {
	var err error
	if r.chassis, err = r.kubernetes.Chassis(ctx); err != nil {
		return "", err
	}
	if r.Northbound {
		if err := r.lookNorthbound(ctx); err != nil {
			return "", err
		}
	} else if r.liveNB, err = dial(ctx, r.NB, northbound); err != nil {
		return "", fmt.Errorf("%w; a northbound database that is lost is made anew with --nb", err)
	} else {
		r.askOperator(ctx)
	}
	known, err := r.lookSouthbound(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d NodeNetworks, %s", len(r.chassis), known), nil
}

// operatorPatience is how long an operator may take to say that all is well, when that is only worth a note.
const operatorPatience = 5 * time.Second

// askOperator notes an operator that is away or finds the northbound database other than it wants: the southbound one is computed from
// what is there, and follows as always when the operator goes on.
func (r *rebuild) askOperator(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(ctx, operatorPatience, fmt.Errorf("no answer within %s", operatorPatience))
	defer cancel()
	if err := r.kubernetes.InSync(ctx); err != nil {
		r.report.Notes = append(r.report.Notes, fmt.Sprintf("the operator: %v", err))
	}
}

// lookSouthbound connects to the southbound database, if it answers.
func (r *rebuild) lookSouthbound(ctx context.Context) (string, error) {
	var err error
	if r.oldSB, err = dial(ctx, r.SB, southbound); err != nil {
		if err := standaloneFile(r.SBFile); err != nil {
			return "", err
		}
		r.report.Notes = append(r.report.Notes, fmt.Sprintf("the southbound database does not answer (%v): chassis and bindings come from the NodeNetworks", err))
		return "no southbound database", nil
	}
	if err := errors.Join(standalone(ctx, r.SB, southbound), r.southbound().check(ctx)); err != nil {
		return "", err
	}
	all, err := r.oldSB.snapshot(ctx, "Chassis")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d chassis", len(all["Chassis"])), monitorAll(all["Chassis"])
}

// monitorAll refuses chassis that follow a part of the database by conditions: while those are renewed after the swap,
// ovn-controller sees less than there is and takes flows out.
func monitorAll(chassis []row) error {
	var partial []string
	for _, c := range chassis {
		if c.pairs("other_config")["ovn-monitor-all"] != "true" {
			partial = append(partial, c.text("name"))
		}
	}
	if len(partial) > 0 {
		return fmt.Errorf("chassis without ovn-monitor-all=true, whose flows would not survive: %s", strings.Join(partial, ", "))
	}
	return nil
}

// standalone refuses a database that several servers keep: there is no one file to swap.
func standalone(ctx context.Context, remote, name string) error {
	d, err := dial(ctx, remote, serverDatabase)
	if err != nil {
		return err
	}
	defer d.Close()
	results, err := d.transact(ctx, selectRows("Database", is("name", name)))
	if err != nil {
		return err
	}
	for _, r := range results[0] {
		if model := r.text("model"); model != "standalone" {
			return fmt.Errorf("database %s is %s; only a standalone one can be rebuilt", name, model)
		}
	}
	return nil
}

// standaloneFile is standalone for a file that no server has open; one that is absent or damaged is fine.
func standaloneFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	magic := make([]byte, len(clusterMagic))
	if n, _ := file.Read(magic); string(magic[:n]) == clusterMagic {
		return fmt.Errorf("%s is of a member of a raft cluster; only a standalone database can be rebuilt", path)
	}
	return nil
}

// clusterMagic begins the file of a raft member; a standalone database's begins with "OVSDB JSON" (ovsdb(7)).
const clusterMagic = "OVSDB CLUSTER"

// northbound and southbound are the live databases to swap.
func (r *rebuild) northbound() target {
	return target{name: northbound, file: r.NBFile, remote: r.NB, control: filepath.Join(r.RunDir, "ovnnb_db.ctl"), start: r.Wait}
}

func (r *rebuild) southbound() target {
	return target{name: southbound, file: r.SBFile, remote: r.SB, control: filepath.Join(r.RunDir, "ovnsb_db.ctl"), start: r.Wait}
}

// bounded is a context for one wait.
func (r *rebuild) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, r.Wait, fmt.Errorf("not within %s", r.Wait))
}
