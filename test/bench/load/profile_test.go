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

	"github.com/weft-network/weft/test/poll"
)

var (
	profileDir     = flag.String("profile", "", "folder for CPU and heap profiles of the operator; it needs -tags profile")
	profileSeconds = flag.Int("profile-seconds", 10, "length of a CPU profile from the beginning of its phase")
)

// pprofSocket returns the profiling socket of a controller built with the tag "profile".
func (w *world) pprofSocket() string { return filepath.Join(w.dir, "pprof.sock") }

// profiled records a CPU profile of the controller from the beginning of a phase on, and a heap profile at its end.
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

// dialController connects to a controller that may still be starting.
func (w *world) dialController(ctx context.Context, _, _ string) (conn net.Conn, err error) {
	err = poll.Until(ctx, 10*time.Second, func() (err error) {
		conn, err = new(net.Dialer).DialContext(ctx, "unix", w.pprofSocket())
		return err
	})
	return conn, err
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
