package beside

import (
	"io/fs"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// endsWithUs makes a program end when this process does.
func endsWithUs(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	return nil
}

// Lock locks a file, or returns an error if another process has.
func Lock(file *os.File) error { return unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

// Own gives a file the owner of another file.
func Own(file string, like fs.FileInfo) error {
	if stat, ok := like.Sys().(*syscall.Stat_t); ok {
		return os.Chown(file, int(stat.Uid), int(stat.Gid))
	}
	return nil
}

// bound limits the address space of a program. A program that needs more ends.
func (p *Process) bound(bytes uint64) error {
	if bytes == 0 {
		return nil
	}
	limit := &unix.Rlimit{Cur: bytes, Max: bytes}
	return unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_AS, limit, nil)
}
