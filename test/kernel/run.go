package kernel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/test/kernel/guest"
)

// Options says what is run on which kernel. Stdout, Stderr and Messages must not be nil.
type Options struct {
	Linux   string   // the kernel's program
	Init    string   // the program that calls guest.Main as PID 1
	Memory  string   // of the kernel and its files, such as "3G"
	Program []string // an absolute path or a name in PATH, and its arguments
	Dir     string   // the program's working folder
	Env     []string // the program's environment
	Out     []string // folders that the program can change; the rest of its files is lost

	Stdout, Stderr io.Writer // the program's
	Messages       io.Writer // the kernel's
}

// Run boots the kernel, runs the program and returns its exit code; a program that signal N ended has the code 128+N. The error is non-nil
// if the kernel did not run the program to its end. The end of the context ends the kernel at once. Run leaves no process and no file
// behind, except below Out.
func Run(ctx context.Context, o Options) (code int, err error) {
	exchange, err := os.MkdirTemp("", "weft-kernel-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(exchange)) }()
	spec := guest.Spec{Program: o.Program, Dir: o.Dir, Env: o.Env, Out: o.Out, Exchange: exchange}
	if err := spec.Write(); err != nil {
		return 0, err
	}
	tail := &lastBytes{size: 4 << 10}
	if err := o.boot(ctx, exchange, tail); err != nil {
		return 0, fmt.Errorf("kernel: %w; its last messages:\n%s", err, tail)
	}
	result, err := guest.ReadResult(exchange)
	if err != nil {
		return 0, fmt.Errorf("kernel: it ended before its program: %w; its last messages:\n%s", err, tail)
	}
	if result.Error != "" {
		return 0, fmt.Errorf("kernel: %s", result.Error)
	}
	return result.Code, nil
}

// boot runs the kernel until it powers off. An error that is not of the context is one of the kernel, such as a panic.
func (o Options) boot(ctx context.Context, exchange string, tail io.Writer) error {
	linux := exec.Command(o.Linux, o.arguments(exchange)...)
	linux.Env = []string{"HOME=" + exchange, "TMPDIR=" + memoryFolder()}
	// In a process group of its own, a terminal's interrupt reaches only the caller, which ends the kernel.
	linux.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	// The processes of the program are the kernel's children, and this process's if the kernel is killed or panics.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	messages := io.MultiWriter(o.Messages, tail)
	streams, err := connect(linux, messages, o.Stdout, o.Stderr)
	if err != nil {
		return err
	}
	if err := linux.Start(); err != nil {
		streams.close()
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = unix.Kill(-linux.Process.Pid, unix.SIGKILL) })
	streams.closeWriters()
	err = linux.Wait()
	stop()
	endGroup(linux.Process.Pid)
	streams.wait()
	return errors.Join(ctx.Err(), err)
}

// endGroup kills a process group of children and collects them.
func endGroup(id int) {
	_ = unix.Kill(-id, unix.SIGKILL)
	for {
		if _, err := unix.Wait4(-id, nil, 0, nil); err != nil && !errors.Is(err, unix.EINTR) {
			return // no child is left
		}
	}
}

// arguments returns the kernel's command line. Its consoles write to the files of connect.
func (o Options) arguments(exchange string) []string {
	return []string{
		"mem=" + o.Memory, "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", "quiet", "seccomp=auto",
		"uml_dir=" + filepath.Join(exchange, "uml"), "umid=weft", // for its pid file
		"bonding.max_bonds=0", "dummy.numdummies=0", "ifb.numifbs=0", // no links that these drivers make at boot
		"con=null", "con0=null,fd:3", "con1=null,fd:4", "con2=null,fd:5",
		"init=" + o.Init, "--", guest.Argument, exchange,
	}
}

// memoryFolder is where the kernel has the file that is its memory.
func memoryFolder() string {
	var fs unix.Statfs_t
	if err := unix.Statfs("/dev/shm", &fs); err == nil && fs.Type == unix.TMPFS_MAGIC {
		return "/dev/shm"
	}
	return os.TempDir()
}

// streams copy what a process writes to its files 3, 4, ... to writers.
type streams struct {
	ends    []*os.File // of the process
	copiers sync.WaitGroup
}

// connect gives a process that is about to start a pipe for each writer. The first pipe is its standard output and error, too.
// The process does not get the writers' own files, because User-Mode Linux changes the mode of each file that it uses.
func connect(cmd *exec.Cmd, writers ...io.Writer) (*streams, error) {
	s := &streams{}
	for _, w := range writers {
		reader, end, err := os.Pipe()
		if err != nil {
			s.close()
			return nil, err
		}
		s.ends = append(s.ends, end)
		s.copiers.Go(func() {
			defer reader.Close()
			_, _ = io.Copy(w, reader)
		})
	}
	cmd.ExtraFiles, cmd.Stdout, cmd.Stderr = s.ends, s.ends[0], s.ends[0]
	return s, nil
}

func (s *streams) closeWriters() {
	for _, end := range s.ends {
		end.Close()
	}
}

func (s *streams) wait() { s.copiers.Wait() }

func (s *streams) close() {
	s.closeWriters()
	s.wait()
}

// lastBytes keeps the end of what is written to it.
type lastBytes struct {
	size int
	text []byte
}

func (l *lastBytes) Write(p []byte) (int, error) {
	l.text = append(l.text, p...)
	if len(l.text) > l.size {
		l.text = bytes.Clone(l.text[len(l.text)-l.size:])
	}
	return len(p), nil
}

func (l *lastBytes) String() string { return strings.ReplaceAll(string(l.text), "\r", "") }
