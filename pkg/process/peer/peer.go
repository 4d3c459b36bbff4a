// Package peer identifies the process at the other end of a Unix socket.
package peer

import (
	"errors"
	"net"
)

// PID returns the process ID of the peer from the kernel.
func PID(conn *net.UnixConn) (pid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { pid, failed = pidOf(int(fd)) })
	return pid, errors.Join(err, failed)
}
