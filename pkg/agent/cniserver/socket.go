package cniserver

import (
	"fmt"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Listen creates the socket, which only its owner may use, in a directory that only its owner may enter. It replaces an
// existing socket atomically, so that a runtime finds an agent that listens or a refused connection, but never a missing
// file. For the same reason the file stays when the listener closes.
func Listen(path string) (*net.UnixListener, error) {
	if err := makePrivate(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("CNI socket %s: %w", path, err)
	}
	listener, err := listenInPlaceOf(path)
	if err != nil {
		return nil, fmt.Errorf("CNI socket %s: %w", path, err)
	}
	return listener, nil
}

func makePrivate(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is no directory", dir)
	}
	return os.Chmod(dir, 0o700)
}

func listenInPlaceOf(path string) (*net.UnixListener, error) {
	fresh := path + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return nil, err
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: fresh, Net: "unix"})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false)
	if err := publish(fresh, path); err != nil {
		listener.Close()
		return nil, err
	}
	return listener, nil
}

func publish(fresh, path string) error {
	if err := os.Chmod(fresh, 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}

// checkPeer reads the peer's user from the kernel (SO_PEERCRED, unix(7)). The file's mode already refuses other users;
// this check also holds if a mount or a mode is wrong.
func checkPeer(conn *net.UnixConn, uid uint32) error {
	peer, err := peerOf(conn)
	if err != nil {
		return fmt.Errorf("credentials of the peer: %w", err)
	}
	if peer.Uid != uid {
		return fmt.Errorf("peer is user %d, process %d, not user %d", peer.Uid, peer.Pid, uid)
	}
	return nil
}

func peerOf(conn *net.UnixConn) (*unix.Ucred, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var peer *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		peer, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return nil, err
	}
	return peer, credErr
}
