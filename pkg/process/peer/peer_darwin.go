package peer

import "golang.org/x/sys/unix"

func pidOf(fd int) (int, error) { return unix.GetsockoptInt(fd, unix.SOL_LOCAL, unix.LOCAL_PEERPID) }
