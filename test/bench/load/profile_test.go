//go:build e2e

package load

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"
)

var (
	profileDir     = flag.String("profile", "", "folder for CPU and heap profiles of the operator; it needs -tags profile")
	profileSeconds = flag.Int("profile-seconds", 10, "how long a CPU profile lasts from the begin of its phase")
)

// pprofSocket is where a controller that is built with the tag "profile" answers.
func (w *world) pprofSocket() string { return filepath.Join(w.dir, "pprof.sock") }

// profiled takes a CPU profile of the controller from the begin of a phase on, and one of its heap at the end.
func (w *world) profiled(phase string, do func()) {
	w.Helper()
	if *profileDir == "" {
		do()
		return
	}
	name := fmt.Sprintf("%s-%s", w.controller.name, phase)
	var taken sync.WaitGroup
	var err error
	taken.Go(func() { err = w.fetch(fmt.Sprintf("profile?seconds=%d", *profileSeconds), name+".cpu") })
	do()
	taken.Wait()
	w.must(errors.Join(err, w.fetch("heap?gc=1", name+".heap")))
}

// dialController connects to a controller that may be starting.
func (w *world) dialController(ctx context.Context, _, _ string) (conn net.Conn, err error) {
	for range 1000 {
		if conn, err = new(net.Dialer).DialContext(ctx, "unix", w.pprofSocket()); err == nil {
			return conn, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil, err
}

func (w *world) fetch(what, file string) error {
	api := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: w.dialController}}
	request, err := http.NewRequestWithContext(w.Context(), http.MethodGet, "http://controller/debug/pprof/"+what, nil)
	if err != nil {
		return err
	}
	answer, err := api.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(*profileDir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(*profileDir, file), text, 0o644)
}
