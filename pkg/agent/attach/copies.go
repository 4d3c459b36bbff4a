package attach

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weft-network/weft/pkg/agent/desired"
)

// Copies are a copy of the record, a file for each attachment. They are read when Open vSwitch has lost its database and an
// agent starts that did not read it before: without them it would cut off pods that run. The folder is in /run, so a reboot,
// which ends the sandboxes, removes the copies too.
type Copies struct{ path string }

// CopiesBeside returns the folder next to the agent's socket.
func CopiesBeside(socket string) Copies {
	return Copies{filepath.Join(filepath.Dir(socket), "attachments")}
}

// attachmentCopy is the content of a file: the name and the external_ids of the attachment's Interface.
type attachmentCopy struct {
	HostName string            `json:"hostName"`
	Record   map[string]string `json:"record"`
}

const copySuffix = ".json"

// file returns the path of a copy. Container IDs and interface names have no slash: they were validated when they came in.
func (c Copies) file(containerID, ifName string) string {
	return filepath.Join(c.path, containerID+"@"+ifName+copySuffix)
}

// put writes an attachment's copy unless it is there.
func (c Copies) put(a desired.Attachment) error {
	text, err := json.Marshal(attachmentCopy{a.HostName, a.Record()})
	if err != nil {
		return err
	}
	path := c.file(a.ContainerID, a.IfName)
	if have, err := os.ReadFile(path); err == nil && string(have) == string(text) {
		return nil
	}
	if err := os.MkdirAll(c.path, 0o700); err != nil {
		return fmt.Errorf("copy of the record: %w", err)
	}
	if err := renameio.WriteFile(path, text, 0o600, renameio.WithTempDir(c.path)); err != nil {
		return fmt.Errorf("copy of the record: %w", err)
	}
	return nil
}

// try writes a file like a copy, and removes it.
func (c Copies) try() error {
	if err := os.MkdirAll(c.path, 0o700); err != nil {
		return fmt.Errorf("copy of the record: %w", err)
	}
	file, err := os.CreateTemp(c.path, ".try*")
	if err != nil {
		return fmt.Errorf("copy of the record: %w", err)
	}
	_, err = file.Write(make([]byte, os.Getpagesize()))
	if err := errors.Join(err, file.Close(), os.Remove(file.Name())); err != nil {
		return fmt.Errorf("copy of the record: %w", err)
	}
	return nil
}

// remove removes the copy of an attachment. A missing copy is not an error.
func (c Copies) remove(containerID, ifName string) error {
	if err := os.Remove(c.file(containerID, ifName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("copy of the record: %w", err)
	}
	return nil
}

// list returns the attachments that have a copy. It removes and logs other files.
func (c Copies) list() (found []desired.Attachment, err error) {
	entries, err := os.ReadDir(c.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("copies of the record: %w", err)
	}
	for _, entry := range entries {
		a, err := c.read(entry.Name())
		if err == nil {
			found = append(found, a)
			continue
		}
		ctrl.Log.WithName("attachments").Error(err, "Removed an invalid copy of the record", "file", entry.Name())
		if err := os.RemoveAll(filepath.Join(c.path, entry.Name())); err != nil {
			return nil, fmt.Errorf("copies of the record: %w", err)
		}
	}
	return found, nil
}

func (c Copies) read(name string) (a desired.Attachment, err error) {
	text, err := os.ReadFile(filepath.Join(c.path, name))
	if err != nil {
		return a, err
	}
	var content attachmentCopy
	if err := json.Unmarshal(text, &content); err != nil {
		return a, err
	}
	a = desired.ParseRecord(content.HostName, content.Record)
	if strings.TrimSuffix(name, copySuffix) != a.ContainerID+"@"+a.IfName || a.InterfaceID == "" {
		return a, fmt.Errorf("it is for port %q, container %q and interface %q", a.InterfaceID, a.ContainerID, a.IfName)
	}
	return a, nil
}

// RemoveAll removes the folder and its contents.
func (c Copies) RemoveAll() error {
	if err := os.RemoveAll(c.path); err != nil {
		return fmt.Errorf("copies of the record: %w", err)
	}
	return nil
}
