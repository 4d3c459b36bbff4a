package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/test/lab"
)

// use is set if a lab runs already, also in the process that runs the tests. keep (WEFT_BED_KEEP=1) leaves the lab
// up.
const use, keep = "WEFT_BED_USE", "WEFT_BED_KEEP"

// Main runs a test binary in its own lab and returns the exit code. The tests run in a child process, so that the
// lab is removed however they end. A panic and a timeout of go test end the process immediately.
func Main(m *testing.M, name string, o lab.UpOptions) int {
	if os.Getenv(use) != "" {
		return m.Run() // signals end it immediately
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	code, err := inLab(ctx, name, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testbed:", err)
		return 1
	}
	return code
}

func inLab(ctx context.Context, name string, o lab.UpOptions) (code int, err error) {
	cluster, err := lab.Open(lab.Options{Name: name, Output: os.Stderr})
	if err != nil {
		return 0, err
	}
	down := func() error { return cluster.Down(context.Background()) }
	if err := down(); err != nil {
		return 0, err
	}
	if os.Getenv(keep) == "" {
		defer func() { err = errors.Join(err, down()) }()
	}
	if err := cluster.Cache.Make(ctx, "all", os.Stderr); err != nil {
		return 0, err
	}
	if err := cluster.Up(ctx, o); err != nil {
		return 0, err
	}
	tests := exec.CommandContext(ctx, os.Args[0], os.Args[1:]...)
	tests.Env = append(os.Environ(), use+"=1")
	tests.Stdout, tests.Stderr = os.Stdout, os.Stderr
	err = tests.Run()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return 1, nil // the child process printed the reason
	}
	return 0, err
}
