package admin

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
)

// listen creates the socket, accessible only to its owner, in an existing folder. It replaces the socket of an
// earlier process of the same pod.
func listen(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	// The socket is created under another name, so that no client can connect before its mode is set.
	fresh := path + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return nil, err
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: fresh, Net: "unix"})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false) // it has been renamed by then
	if err := errors.Join(os.Chmod(fresh, 0o600), os.Rename(fresh, path)); err != nil {
		return nil, errors.Join(fmt.Errorf("socket %s: %w", path, err), listener.Close(), os.RemoveAll(fresh))
	}
	return listener, nil
}
