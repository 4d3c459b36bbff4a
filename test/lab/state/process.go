package state

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// NewProcess describes a running process.
func NewProcess(machine string, pid int) (Process, error) {
	start, err := startTime(pid)
	return Process{machine, pid, start}, err
}

func startTime(pid int) (uint64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStartTime(stat)
}

// parseStartTime reads field 22 of proc_pid_stat(5). Field 2 is the command in parentheses, which may contain any
// character.
func parseStartTime(stat []byte) (uint64, error) {
	const field, first = 22, 3 // the first field after the command is number 3
	_, after, ok := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(") "))
	fields := bytes.Fields(after)
	if !ok || len(fields) <= field-first {
		return 0, fmt.Errorf("process stat %q: too short", stat)
	}
	return strconv.ParseUint(string(fields[field-first]), 10, 64)
}

// Alive reports whether exactly this process still runs.
func (p Process) Alive() bool {
	start, err := startTime(p.PID)
	return err == nil && start == p.StartTime
}

// Kill ends the process, and with it its whole pid namespace, and waits until it is gone. It is no error if the
// process is gone already.
func (p Process) Kill(timeout time.Duration) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: pidfd of %d: %w", p.Machine, p.PID, err)
	}
	defer unix.Close(fd)
	if !p.Alive() { // another process has the pid; the pidfd always refers to the same process
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("%s: kill %d: %w", p.Machine, p.PID, err)
	}
	return p.awaitEnd(fd, timeout)
}

// awaitEnd polls the pidfd, which becomes readable when the process, and as PID 1 all of its namespace, has ended.
func (p Process) awaitEnd(fd int, timeout time.Duration) error {
	for deadline := time.Now().Add(timeout); ; {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(time.Until(deadline).Milliseconds()))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("%s: await end of %d: %w", p.Machine, p.PID, err)
		case n == 1:
			return nil
		default:
			return fmt.Errorf("%s: process %d still exists %s after SIGKILL", p.Machine, p.PID, timeout)
		}
	}
}
