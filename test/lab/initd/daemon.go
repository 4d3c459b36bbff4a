package initd

import (
	"fmt"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	restartDelay    = 200 * time.Millisecond // doubled after each short run
	restartDelayMax = 2 * time.Second
	lasted          = 10 * time.Second // a run of this length resets the delay
)

// daemon is one program that restarts whenever it ends, until it is stopped.
type daemon struct {
	step   Step
	env    []string
	log    string
	reaper *reaper

	mu     sync.Mutex
	pid    int // in the machine's pid namespace; 0 while it does not run
	starts int
	wanted bool
	wake   chan struct{} // signals that wanted changed
}

func newDaemon(step Step, spec Spec, r *reaper) *daemon {
	return &daemon{step: step, env: spec.Env, log: filepath.Join(spec.LogDir, step.Name+".log"), reaper: r,
		wanted: true, wake: make(chan struct{}, 1)}
}

// keep runs the daemon forever.
func (d *daemon) keep() {
	delay := restartDelay
	for {
		if !d.isWanted() {
			<-d.wake
			continue
		}
		began := time.Now()
		d.runOnce()
		if time.Since(began) > lasted {
			delay = restartDelay
		}
		if d.isWanted() {
			d.pause(delay)
			delay = min(2*delay, restartDelayMax)
		}
	}
}

func (d *daemon) pause(delay time.Duration) {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.wake:
	}
}

func (d *daemon) runOnce() {
	pid, ended, err := d.reaper.start(d.step.Argv, d.env, d.log)
	if err != nil {
		appendLog(d.log, err.Error())
		return
	}
	d.setPID(pid)
	status := <-ended
	d.setPID(0)
	appendLog(d.log, fmt.Sprintf("--- %s (pid %d) ended: %s", d.step.Name, pid, describe(status)))
}

func describe(s syscall.WaitStatus) string {
	if s.Signaled() {
		return "signal " + s.Signal().String()
	}
	return fmt.Sprintf("exit status %d", s.ExitStatus())
}

func (d *daemon) setPID(pid int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pid = pid
	if pid != 0 {
		d.starts++
	}
}

func (d *daemon) isWanted() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.wanted
}

// want starts or stops the daemon. Stopping only signals it; its status shows the end.
func (d *daemon) want(wanted bool, sig syscall.Signal) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted = wanted
	select {
	case d.wake <- struct{}{}:
	default:
	}
	if !wanted && d.pid != 0 {
		return syscall.Kill(d.pid, sig)
	}
	return nil
}

func (d *daemon) signal(sig syscall.Signal) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pid == 0 {
		return fmt.Errorf("%s is not running", d.step.Name)
	}
	return syscall.Kill(d.pid, sig)
}

func (d *daemon) status() Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	return Status{Name: d.step.Name, PID: d.pid, Starts: d.starts, Wanted: d.wanted}
}
