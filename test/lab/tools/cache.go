package tools

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
)

// Cache is the folder that keeps the tools.
type Cache struct{ Dir string }

// DefaultCache is $WEFT_CACHE, or "weft" in the user's cache folder.
func DefaultCache() (Cache, error) {
	if dir := os.Getenv("WEFT_CACHE"); dir != "" {
		abs, err := filepath.Abs(dir)
		return Cache{abs}, err
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return Cache{}, fmt.Errorf("tool cache: set WEFT_CACHE: %w", err)
	}
	return Cache{filepath.Join(dir, "weft")}, nil
}

// Bin returns the path of a program built from Go modules, such as "kubectl".
func (c Cache) Bin(name string) string { return filepath.Join(c.Dir, "bin", name) }

// OVN returns the path of a program of OVN or Open vSwitch, such as "ovn-nbctl".
func (c Cache) OVN(name string) string { return filepath.Join(c.Dir, "ovn", "bin", name) }

// Schema returns the path of a database schema, such as "ovn-nb".
func (c Cache) Schema(name string) string {
	return filepath.Join(c.Dir, "ovn", "share", name+".ovsschema")
}

// Root returns the file tree of the packages of OVN, Open vSwitch and strongSwan.
func (c Cache) Root() string { return filepath.Join(c.Dir, "ovn", "root") }

// BusyBox returns the path of the static busybox for images.
func (c Cache) BusyBox() string { return filepath.Join(c.Root(), "usr", "bin", "busybox") }

func (c Cache) stampPath(tool string) string { return filepath.Join(c.Dir, "stamps", tool) }

// fresh reports whether a tool was made from exactly this stamp and its file still exists.
func (c Cache) fresh(tool, stamp, file string) bool {
	had, err := os.ReadFile(c.stampPath(tool))
	if err != nil || string(had) != stamp {
		return false
	}
	_, err = os.Stat(file)
	return err == nil
}

func (c Cache) writeStamp(tool, stamp string) error {
	if err := os.MkdirAll(filepath.Dir(c.stampPath(tool)), 0o755); err != nil {
		return err
	}
	return renameio.WriteFile(c.stampPath(tool), []byte(stamp), 0o644)
}

// lock keeps other processes from making the same tool. The kernel releases it when the process ends.
func (c Cache) lock(tool string) (release func(), err error) {
	dir := filepath.Join(c.Dir, "locks")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, tool), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		file.Close()
		return nil, fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	return func() { file.Close() }, nil
}

// once runs build unless the stamp shows that the tool exists.
func (c Cache) once(tool, stamp, file string, build func() error) (built bool, err error) {
	if c.fresh(tool, stamp, file) {
		return false, nil
	}
	release, err := c.lock(tool)
	if err != nil {
		return false, err
	}
	defer release()
	if c.fresh(tool, stamp, file) { // another process made it while this one waited
		return false, nil
	}
	if err := build(); err != nil {
		return false, err
	}
	return true, c.writeStamp(tool, stamp)
}
