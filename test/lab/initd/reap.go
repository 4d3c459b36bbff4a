package initd

import (
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// reaper starts processes and reaps every child that ends: its own, and the children that PID 1 inherits.
type reaper struct {
	mu      sync.Mutex
	waiting map[int]chan<- syscall.WaitStatus // pid -> channel of its starter
}

func newReaper() *reaper { return &reaper{waiting: map[int]chan<- syscall.WaitStatus{}} }

// start runs a program with its output appended to a log file. The lock covers both the fork and the map entry, so
// that a child that ends immediately still finds its starter.
func (r *reaper) start(argv, env []string, logFile string) (pid int, ended <-chan syscall.WaitStatus, err error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, nil, err
	}
	defer null.Close()
	if err := os.MkdirAll(filepath.Dir(logFile), 0o755); err != nil {
		return 0, nil, err
	}
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, nil, err
	}
	defer log.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err = syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{
		Dir: "/", Env: env,
		Files: []uintptr{null.Fd(), log.Fd(), log.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, nil, &os.PathError{Op: "start", Path: argv[0], Err: err}
	}
	done := make(chan syscall.WaitStatus, 1)
	r.waiting[pid] = done
	return pid, done, nil
}

// serve reaps children whenever the kernel signals that one ended.
func (r *reaper) serve(childEnded <-chan os.Signal) {
	for range childEnded {
		for r.collect() {
		}
	}
}

func (r *reaper) collect() (more bool) {
	var status syscall.WaitStatus
	pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
	if err == syscall.EINTR {
		return true
	}
	if err != nil || pid <= 0 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if starter, ok := r.waiting[pid]; ok {
		starter <- status
		delete(r.waiting, pid)
	}
	return true
}
