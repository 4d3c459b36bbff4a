// Package tombstone records DELs that arrive while no agent runs, so that weft-cni can report success to the runtime:
//
//	runtime ─DEL─▶ weft-cni ─▶ no agent at the socket ─▶ write a tombstone ─▶ still no agent ─▶ success
//	                                                           │                 └─ an agent ─▶ DEL, remove the tombstone
//	                                                           ▼
//	agent: listen ─▶ ... ─▶ drop the attachments that tombstones name ─▶ remove the tombstones ─▶ serve
//
// The second attempt to connect, after the write, closes a race: an agent listens before it reads the tombstones. So
// if weft-cni still finds no agent, the next agent will read its tombstone.
//
// The folder is next to the socket in /run. A reboot, which removes the interfaces, removes the tombstones too. A
// tombstone names a sandbox and not a pod, so a newer sandbox of the pod is never affected, and applying a tombstone
// twice has no effect.
package tombstone

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/pkg/cni/cniwire"
)

const (
	// MaxCount is the maximum number of tombstones. A node has a few hundred pods.
	MaxCount = 1024
	// maxSize is the maximum size of a file, in bytes. All names together have less than 1 KB.
	maxSize = 4096
	// partPrefix marks files that are being written. partAge is the longest time that a write may take.
	partPrefix = ".part-"
	partAge    = time.Minute
)

// ErrFull means that the folder has MaxCount tombstones.
var ErrFull = errors.New("too many tombstones")

// Tombstone is a DEL that was answered without an agent.
type Tombstone struct {
	ContainerID string       `json:"containerID"`
	IfName      string       `json:"ifName"`
	Args        cniwire.Args `json:"args"`
}

// Names reports whether the tombstone names this attachment. If both have the pod's UID, the UIDs must be equal.
func (s Tombstone) Names(containerID, ifName, podUID string) bool {
	return s.ContainerID == containerID && s.IfName == ifName && (podUID == "" || cmp.Or(s.Args.PodUID, podUID) == podUID)
}

func (s Tombstone) validate() error {
	return cniwire.Request{Version: cniwire.Version, Command: cniwire.Del, ContainerID: s.ContainerID, IfName: s.IfName, Args: s.Args,
		Config: json.RawMessage(`{"name":"weft"}`)}.Validate(nil)
}

func (s Tombstone) file() string { return fileOf(s.ContainerID, s.IfName) }

// fileOf returns a file name of fixed length. No input can turn it into a path.
func fileOf(containerID, ifName string) string {
	digest := sha256.Sum256([]byte(containerID + "/" + ifName))
	return hex.EncodeToString(digest[:16])
}

// Folder holds tombstones.
type Folder struct{ path string }

// Beside returns the folder next to the agent's socket.
func Beside(socket string) Folder { return Folder{filepath.Join(filepath.Dir(socket), "tombstones")} }

// Put writes a tombstone durably: it survives the end of the process, and a power failure if the folder does. Put
// creates a missing folder, for its owner only. It returns ErrFull, a *cniwire.Error for invalid names, or an error
// of the file system.
func (f Folder) Put(s Tombstone) error {
	if err := s.validate(); err != nil {
		return err
	}
	content, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("tombstone of container %s: %w", s.ContainerID, err)
	}
	if err := f.write(s.file(), content); err != nil {
		return fmt.Errorf("tombstone of container %s: %w", s.ContainerID, err)
	}
	return nil
}

func (f Folder) write(name string, content []byte) error {
	if err := os.MkdirAll(f.path, 0o700); err != nil {
		return err
	}
	dir, err := os.OpenFile(f.path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	present, err := dir.Readdirnames(MaxCount)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if len(present) >= MaxCount {
		return fmt.Errorf("%w in %s: %d", ErrFull, f.path, MaxCount)
	}
	if err := f.replace(name, content); err != nil {
		return err
	}
	return dir.Sync()
}

// replace writes the content under the name atomically.
func (f Folder) replace(name string, content []byte) error {
	part, err := os.CreateTemp(f.path, partPrefix)
	if err != nil {
		return err
	}
	_, err = part.Write(content)
	err = errors.Join(err, part.Sync(), part.Close())
	if err == nil {
		err = os.Rename(part.Name(), filepath.Join(f.path, name))
	}
	if err != nil {
		_ = os.Remove(part.Name())
	}
	return err
}

// Remove removes the tombstone of an attachment. A missing tombstone is not an error.
func (f Folder) Remove(containerID, ifName string) error {
	err := os.Remove(filepath.Join(f.path, fileOf(containerID, ifName)))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("tombstone of container %s: %w", containerID, err)
	}
	return nil
}

// RemoveAll removes the folder and its contents.
func (f Folder) RemoveAll() error {
	if err := os.RemoveAll(f.path); err != nil {
		return fmt.Errorf("tombstones: %w", err)
	}
	return nil
}

// List returns all tombstones. It removes anything else in the folder and returns an error for each such entry in
// refused.
func (f Folder) List() (found []Tombstone, refused []error, err error) {
	entries, err := os.ReadDir(f.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("tombstones: %w", err)
	}
	for _, entry := range entries {
		if isBeingWritten(entry) {
			continue
		}
		s, err := f.read(entry.Name())
		if err == nil {
			found = append(found, s)
			continue
		}
		err = errors.Join(err, os.RemoveAll(filepath.Join(f.path, entry.Name())))
		refused = append(refused, fmt.Errorf("tombstone %s: %w", entry.Name(), err))
	}
	return found, refused, nil
}

func isBeingWritten(entry os.DirEntry) bool {
	if !strings.HasPrefix(entry.Name(), partPrefix) {
		return false
	}
	info, err := entry.Info()
	return err != nil || time.Since(info.ModTime()) < partAge
}

func (f Folder) read(name string) (s Tombstone, err error) {
	file, err := os.OpenFile(filepath.Join(f.path, name), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return s, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxSize+1))
	switch {
	case err != nil:
		return s, err
	case len(content) > maxSize:
		return s, fmt.Errorf("the file is longer than %d bytes", maxSize)
	}
	if err := json.Unmarshal(content, &s); err != nil {
		return s, err
	}
	if err := s.validate(); err != nil {
		return s, err
	}
	if s.file() != name {
		return s, fmt.Errorf("it is for container %s and should be named %s", s.ContainerID, s.file())
	}
	return s, nil
}
