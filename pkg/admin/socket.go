package admin

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
)

// listen makes the socket for its owner only, in a folder that exists. One that is there was left by an earlier process of the
// same pod.
func listen(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	// It is made under another name, so that nobody meets it before its mode is set.
	fresh := path + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return nil, err
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: fresh, Net: "unix"})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false) // it has another name by then
	if err := errors.Join(os.Chmod(fresh, 0o600), os.Rename(fresh, path)); err != nil {
		return nil, errors.Join(fmt.Errorf("socket %s: %w", path, err), listener.Close(), os.RemoveAll(fresh))
	}
	return listener, nil
}
