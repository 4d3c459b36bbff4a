// Package guest is PID 1 of a kernel of test/kernel: it makes the file tree and the network, runs one program and powers off.
package guest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// IsGuest reports whether this process is PID 1 of a kernel of test/kernel, which appends arguments of its own.
func IsGuest() bool { return os.Getpid() == 1 && len(os.Args) >= 3 && os.Args[1] == Argument }

// Main does the work of PID 1 and does not return.
func Main() {
	exchange := os.Args[2]
	code, err := run(exchange)
	result := Result{Code: code}
	if err != nil {
		result.Error = err.Error()
	}
	if err := result.write(exchange); err != nil { // the exchange folder may not be writable yet
		fmt.Fprintf(os.Stderr, "guest: %v; the program: %+v\n", err, result)
	}
	unix.Sync() // the folders of Out
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	for { // the end of PID 1 would be a panic
		_ = unix.Pause()
	}
}

func run(exchange string) (code int, err error) {
	spec, err := readSpec(exchange)
	if err != nil {
		return 0, err
	}
	if err := enterRoot(spec); err != nil {
		return 0, fmt.Errorf("prepare the file tree: %w", err)
	}
	if err := prepareSystem(); err != nil {
		return 0, err
	}
	return runProgram(spec)
}

// prepareSystem sets what a boot of an ordinary machine sets.
func prepareSystem() error {
	const files = 1 << 20 // as systemd's
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	return errors.Join(err,
		unix.Sethostname([]byte("weft-kernel")),
		unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: files, Max: files}))
}

// runProgram runs the program until it ends, then ends all other processes, and returns the program's exit code.
func runProgram(spec Spec) (code int, err error) {
	stdout, err := openConsole("/dev/tty1")
	if err != nil {
		return 0, err
	}
	stderr, err := openConsole("/dev/tty2")
	if err != nil {
		return 0, err
	}
	process, err := start(spec, stdout, stderr)
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", spec.Program[0], err)
	}
	code, err = reapUntil(process.pid)
	_ = unix.Kill(-1, unix.SIGKILL) // a daemon that the program left behind has its output open
	return code, errors.Join(err, process.drain(), stdout.drain(), stderr.drain())
}

// process is the running program.
type process struct {
	pid    int
	copied []<-chan error // each gets one value when an output has ended
}

// drain waits until all outputs have ended.
func (p process) drain() (err error) {
	for _, done := range p.copied {
		err = errors.Join(err, <-done)
	}
	return err
}

// start starts the program. Its outputs are pipes, as they usually are in a test, and no terminals.
func start(spec Spec, consoles ...console) (p process, err error) {
	path, err := lookPath(spec)
	if err != nil {
		return p, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return p, err
	}
	defer null.Close()
	files := []*os.File{null}
	for _, c := range consoles {
		reader, writer, err := os.Pipe()
		if err != nil {
			return p, err
		}
		defer writer.Close()
		files = append(files, writer)
		done := make(chan error, 1)
		p.copied = append(p.copied, done)
		go func() {
			_, err := io.Copy(c, reader)
			done <- err
		}()
	}
	started, err := os.StartProcess(path, spec.Program, &os.ProcAttr{
		Dir: spec.Dir, Env: spec.Env, Files: files, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return p, err
	}
	p.pid = started.Pid
	return p, started.Release() // reapUntil waits for it
}

// lookPath finds the program in the PATH of its own environment.
func lookPath(spec Spec) (string, error) {
	for _, pair := range spec.Env {
		if len(pair) > 5 && pair[:5] == "PATH=" {
			if err := os.Setenv("PATH", pair[5:]); err != nil {
				return "", err
			}
		}
	}
	if err := os.Chdir(spec.Dir); err != nil {
		return "", err
	}
	return exec.LookPath(spec.Program[0])
}

// reapUntil collects ended processes, which all become children of PID 1, until the program has ended.
func reapUntil(program int) (code int, err error) {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, fmt.Errorf("wait for the program: %w", err)
		case pid == program && status.Signaled():
			return 128 + int(status.Signal()), nil
		case pid == program && status.Exited():
			return status.ExitStatus(), nil
		}
	}
}

// console is a terminal of the kernel, whose other end is a file of the machine.
type console struct{ *os.File }

// openConsole opens a terminal that passes bytes on as they are.
func openConsole(path string) (console, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return console{}, err
	}
	mode, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	if err != nil {
		return console{}, fmt.Errorf("%s: %w", path, err)
	}
	mode.Oflag &^= unix.OPOST
	return console{file}, unix.IoctlSetTermios(int(file.Fd()), unix.TCSETS, mode)
}

// drain waits until the machine has what was written.
func (c console) drain() error { return unix.IoctlSetInt(int(c.Fd()), unix.TCSBRK, 1) }
