package uplink

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/renameio/v2"
)

// ledgerVersion is the version of Ledger's file format. The program leaves a ledger with another version, and its link,
// unchanged.
const ledgerVersion = 1

// Phase is the progress of a move.
type Phase string

// The phases of a move.
const (
	// Moving means that steps are being applied. The state of the link is unknown.
	Moving Phase = "Moving"
	// Confirmed means that the probe succeeded. The link stays on its bridge.
	Confirmed Phase = "Confirmed"
	// Undoing means that the link is being restored.
	Undoing Phase = "Undoing"
	// RolledBack means that the link is restored. Reason has the cause.
	RolledBack Phase = "RolledBack"
	// Away means that the link has its addresses and routes until Open vSwitch runs again and the link is moved again. Open vSwitch
	// may still have the bridge's rows.
	Away Phase = "Away"
)

// Ledger is the state that survives a death: all that is needed to finish or to undo a move.
type Ledger struct {
	Version int   `json:"version"`
	Phase   Phase `json:"phase"`
	// Attempt identifies the move.
	Attempt string `json:"attempt"`
	// BootID is the kernel's boot ID. The snapshot is valid only during that boot.
	BootID  string    `json:"bootID"`
	Started time.Time `json:"started"`
	// Deadline is the time at which the guard undoes an unconfirmed move.
	Deadline time.Time `json:"deadline"`
	// Wanted is the request as text. A move that failed is tried again when it changes.
	Wanted string `json:"wanted"`
	// Interrupted is the number of consecutive moves during which the process died.
	Interrupted int `json:"interrupted,omitempty"`
	// Reason is the cause of the rollback, or why the link has its addresses back.
	Reason string `json:"reason,omitempty"`
	// WasAway reports whether the link had, or is being given, its addresses back because Open vSwitch did not run. A failed move
	// then ends in phase Away. On the disk, phase Away is Undoing with Forget and Given, which former versions finish.
	WasAway bool `json:"wasAway,omitempty"`
	Given   bool `json:"given,omitempty"`
	// Forget makes undo remove the ledger at its end.
	Forget   bool     `json:"forget,omitempty"`
	Target   Target   `json:"target"`
	Snapshot Snapshot `json:"snapshot"`
}

// folder is the directory of the ledgers, of which each link has one.
type folder string

func (f folder) path(link string) string { return filepath.Join(string(f), "uplink-"+link+".json") }

// write returns after the ledger and its directory entry are on the disk.
func (f folder) write(l *Ledger) error {
	l.Version = ledgerVersion
	disk := *l
	if l.Phase == Away {
		disk.Phase, disk.Forget, disk.Given = Undoing, true, true
	}
	text, err := json.MarshalIndent(disk, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return err
	}
	if err := renameio.WriteFile(f.path(l.Snapshot.Link), append(text, '\n'), 0o600, renameio.WithTempDir(string(f))); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return f.sync()
}

func (f folder) remove(link string) error {
	if err := os.Remove(f.path(link)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return f.sync()
}

// sync flushes the directory entries to the disk.
func (f folder) sync() error {
	dir, err := os.Open(string(f))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// read returns nil if the link has no ledger.
func (f folder) read(link string) (*Ledger, error) {
	text, err := os.ReadFile(f.path(link))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	l := &Ledger{}
	if err := json.Unmarshal(text, l); err != nil {
		return nil, fmt.Errorf("ledger %s: %w", f.path(link), err)
	}
	if l.Version != ledgerVersion || l.Snapshot.Link != link {
		return nil, fmt.Errorf("ledger %s: version %d of link %q; this program supports version %d",
			f.path(link), l.Version, l.Snapshot.Link, ledgerVersion)
	}
	if l.Given {
		l.Phase, l.Forget, l.Given = Away, false, false
	}
	return l, nil
}

// all reads the ledgers of all links. It returns the readable ones even if it returns an error.
func (f folder) all() ([]*Ledger, error) {
	paths, err := filepath.Glob(f.path("*"))
	if err != nil {
		return nil, err
	}
	var found []*Ledger
	var failed error
	for _, path := range paths {
		link := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "uplink-"), ".json")
		l, err := f.read(link)
		failed = errors.Join(failed, err)
		if l != nil {
			found = append(found, l)
		}
	}
	return found, failed
}
