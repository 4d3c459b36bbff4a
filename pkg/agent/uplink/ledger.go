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

// ledgerVersion is that of Ledger's form. One that this program does not know is left alone, and so is its link.
const ledgerVersion = 1

// Phase is how far a move is.
type Phase string

// The phases.
const (
	// Moving: steps are being done, and nothing is certain.
	Moving Phase = "Moving"
	// Confirmed: the move was probed and stays.
	Confirmed Phase = "Confirmed"
	// Undoing: the link comes back.
	Undoing Phase = "Undoing"
	// RolledBack: the link is as before, and Reason says why.
	RolledBack Phase = "RolledBack"
)

// Ledger is what survives a death: all that is needed to finish a move or to undo it.
type Ledger struct {
	Version int   `json:"version"`
	Phase   Phase `json:"phase"`
	// Attempt is unique among moves.
	Attempt string `json:"attempt"`
	// BootID is the kernel's: what the snapshot says holds until it changes.
	BootID  string    `json:"bootID"`
	Started time.Time `json:"started"`
	// Deadline is when the guard undoes what is not confirmed.
	Deadline time.Time `json:"deadline"`
	// Wanted is what was asked for: a move that failed is made again when that changes.
	Wanted string `json:"wanted"`
	// Interrupted counts the moves in a row that ended with their process.
	Interrupted int `json:"interrupted,omitempty"`
	// Reason says why the move was undone.
	Reason string `json:"reason,omitempty"`
	// Forget says that the ledger goes when the undoing is done.
	Forget   bool     `json:"forget,omitempty"`
	Target   Target   `json:"target"`
	Snapshot Snapshot `json:"snapshot"`
}

// folder holds the ledgers, one per link.
type folder string

func (f folder) path(link string) string { return filepath.Join(string(f), "uplink-"+link+".json") }

// write brings the ledger to the disk, name included, before it returns.
func (f folder) write(l *Ledger) error {
	l.Version = ledgerVersion
	text, err := json.MarshalIndent(l, "", "  ")
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

// sync brings the names to the disk.
func (f folder) sync() error {
	dir, err := os.Open(string(f))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// read returns nil if there is no ledger of the link.
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
		return nil, fmt.Errorf("ledger %s: version %d of link %q; this program knows version %d", f.path(link), l.Version, l.Snapshot.Link, ledgerVersion)
	}
	return l, nil
}

// all reads the ledgers of all links.
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
