// Package tombstone keeps the DELs that came while no agent ran, so that weft-cni can tell the runtime that they are done:
//
//	runtime ─DEL─▶ weft-cni ─▶ socket: nobody ─▶ write a tombstone ─▶ socket: nobody ─▶ success
//	                                                    │                 └─ an agent ─▶ DEL, remove the tombstone
//	                                                    ▼
//	agent: listen ─▶ ... ─▶ record without what tombstones name ─▶ remove them ─▶ serve
//
// Asking again after the write closes the gap: an agent listens before it reads tombstones, so whoever still finds nobody will be read.
// The folder is beside the socket, in /run: a reboot, which takes the interfaces away, takes it along. A tombstone names a sandbox and not
// a pod, so that a newer sandbox of the pod is never touched, and replaying one twice does nothing.
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

	"github.com/weft-network/weft/pkg/cniwire"
)

const (
	// MaxCount bounds the folder: a node has a few hundred pods.
	MaxCount = 1024
	// maxSize of one file, in bytes. All names together are below 1 KB.
	maxSize = 4096
	// partPrefix marks files that are being written, partAge how long that can take at most.
	partPrefix = ".part-"
	partAge    = time.Minute
)

// ErrFull says that the folder has MaxCount tombstones.
var ErrFull = errors.New("too many tombstones")

// Tombstone is a DEL that was answered without an agent.
type Tombstone struct {
	ContainerID string       `json:"containerID"`
	IfName      string       `json:"ifName"`
	Args        cniwire.Args `json:"args"`
}

// Names reports whether the tombstone is of this attachment. A pod's UID that both know must be the same.
func (s Tombstone) Names(containerID, ifName, podUID string) bool {
	return s.ContainerID == containerID && s.IfName == ifName && (podUID == "" || cmp.Or(s.Args.PodUID, podUID) == podUID)
}

func (s Tombstone) validate() error {
	return cniwire.Request{Version: cniwire.Version, Command: cniwire.Del, ContainerID: s.ContainerID, IfName: s.IfName, Args: s.Args,
		Config: json.RawMessage(`{"name":"weft"}`)}.Validate(nil)
}

func (s Tombstone) file() string { return fileOf(s.ContainerID, s.IfName) }

// fileOf is a name of fixed length that no input can make a path of.
func fileOf(containerID, ifName string) string {
	digest := sha256.Sum256([]byte(containerID + "/" + ifName))
	return hex.EncodeToString(digest[:16])
}

// Folder holds tombstones.
type Folder struct{ path string }

// Beside returns the folder that belongs to the agent's socket.
func Beside(socket string) Folder { return Folder{filepath.Join(filepath.Dir(socket), "tombstones")} }

// Put writes a tombstone so that it outlives the process, and the machine's power if the folder does. The folder is made if it is absent,
// for its owner only. Errors: ErrFull, a *cniwire.Error for names that are not valid, or the file system's.
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

// replace puts the content under the name in one step.
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

// Remove removes the tombstone of an attachment; that there is none is no error.
func (f Folder) Remove(containerID, ifName string) error {
	err := os.Remove(filepath.Join(f.path, fileOf(containerID, ifName)))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("tombstone of container %s: %w", containerID, err)
	}
	return nil
}

// RemoveAll removes the folder with all that is in it.
func (f Folder) RemoveAll() error {
	if err := os.RemoveAll(f.path); err != nil {
		return fmt.Errorf("tombstones: %w", err)
	}
	return nil
}

// List returns all tombstones. What is in the folder and is none is removed, and told in refused.
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
		refused = append(refused, fmt.Errorf("tombstone %s: %w", entry.Name(), errors.Join(err, os.RemoveAll(filepath.Join(f.path, entry.Name())))))
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
		return s, fmt.Errorf("is longer than %d bytes", maxSize)
	}
	if err := json.Unmarshal(content, &s); err != nil {
		return s, err
	}
	if err := s.validate(); err != nil {
		return s, err
	}
	if s.file() != name {
		return s, fmt.Errorf("is of container %s, whose name is %s", s.ContainerID, s.file())
	}
	return s, nil
}
