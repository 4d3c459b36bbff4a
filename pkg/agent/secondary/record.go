package secondary

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/weft-network/weft/pkg/agent/attach"
)

// record is an interface that another plugin made, or is to make.
type record struct {
	Sandbox    attach.Sandbox                `json:"sandbox"`
	Interface  string                        `json:"interface"`
	Definition string                        `json:"definition"`
	Hash       string                        `json:"hash"`
	Config     json.RawMessage               `json:"config"`
	Element    nadv1.NetworkSelectionElement `json:"element"`
	Resource   string                        `json:"resource,omitempty"`
	DeviceID   string                        `json:"deviceID,omitempty"`
	Device     *nadv1.DeviceInfo             `json:"device,omitempty"`
	Begun      time.Time                     `json:"begun"`
	// Done: the ADD has succeeded with Result.
	Done   bool            `json:"done"`
	Result json.RawMessage `json:"result,omitempty"`
}

const suffix = ".json"

// file returns the path of a record. Container IDs and interface names have no slash: they were validated when they came in.
func (d *Delegates) file(containerID, ifName string) string {
	return filepath.Join(d.State, "attachments", containerID+"@"+ifName+suffix)
}

func (d *Delegates) write(r *record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	path := d.file(r.Sandbox.ContainerID, r.Interface)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("record of interface %s: %w", r.Interface, err)
	}
	if err := renameio.WriteFile(path, text, 0o600); err != nil {
		return fmt.Errorf("record of interface %s: %w", r.Interface, err)
	}
	return nil
}

// read returns the record of an interface; nil without one.
func (d *Delegates) read(containerID, ifName string) (*record, error) {
	return readFile(d.file(containerID, ifName))
}

func readFile(path string) (*record, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := &record{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("record %s: %w", path, err)
	}
	return r, nil
}

func (d *Delegates) forget(r *record) error {
	err := os.Remove(d.file(r.Sandbox.ContainerID, r.Interface))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// records returns the records of a sandbox, or of all for an empty ID, in the order in which they were begun.
func (d *Delegates) records(containerID string) (found []record, err error) {
	entries, err := os.ReadDir(filepath.Join(d.State, "attachments"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		of, _, ok := strings.Cut(strings.TrimSuffix(entry.Name(), suffix), "@")
		if !ok || !strings.HasSuffix(entry.Name(), suffix) || containerID != "" && of != containerID {
			continue
		}
		r, err := readFile(filepath.Join(d.State, "attachments", entry.Name()))
		if err != nil {
			return nil, err
		}
		if r != nil {
			found = append(found, *r)
		}
	}
	slices.SortFunc(found, func(a, b record) int { return cmp.Or(a.Begun.Compare(b.Begun), cmp.Compare(a.Interface, b.Interface)) })
	return found, nil
}
