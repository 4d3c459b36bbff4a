//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-network/weft/test/lab"
	"github.com/weft-network/weft/test/lab/tools"
)

// namespace holds all that the tests create.
const namespace = "e2e"

// bed is the lab that the tests share.
var bed *testbed

func TestMain(m *testing.M) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	code, err := run(ctx, m)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

// use says that a lab is up already; it is set in the process that runs the tests.
const use = "WEFT_E2E_USE"

func run(ctx context.Context, m *testing.M) (code int, err error) {
	cluster, err := lab.Open(lab.Options{Name: cmp.Or(os.Getenv("WEFT_E2E_LAB"), "e2e"), Output: os.Stderr})
	if err != nil {
		return 0, err
	}
	if os.Getenv(use) == "" {
		return runInLab(ctx, cluster)
	}
	if bed, err = newTestbed(ctx, cluster); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// runInLab runs the tests in a process of their own, so that the lab is taken down however they end: a panic and a timeout of
// go test end the process at once.
func runInLab(ctx context.Context, cluster *lab.Cluster) (code int, err error) {
	down := func() error { return cluster.Down(context.Background()) }
	if err := down(); err != nil {
		return 0, err
	}
	if os.Getenv("WEFT_E2E_KEEP") == "" {
		defer func() { err = errors.Join(err, down()) }()
	}
	if err := cluster.Up(ctx, lab.UpOptions{DNS: true}); err != nil {
		return 0, err
	}
	tests := exec.CommandContext(ctx, os.Args[0], os.Args[1:]...)
	tests.Env = append(os.Environ(), use+"=1")
	tests.Stdout, tests.Stderr = os.Stdout, os.Stderr
	err = tests.Run()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return 1, nil // it has said why itself
	}
	return 0, err
}

// buildPeer puts the tests' own program where the nodes can see it: pods mount it from there.
func buildPeer(ctx context.Context, dir string) error {
	source, err := tools.SourceRoot()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", filepath.Join(dir, "peer"), "./test/e2e/peer")
	cmd.Dir, cmd.Env = source, append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build peer: %w\n%s", err, text)
	}
	return nil
}

func makeNamespace(ctx context.Context, b *testbed) error {
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := ignoreExists(b.api.Create(ctx, object)); err != nil {
		return err
	}
	return poll(ctx, 30*time.Second, func() error {
		return b.api.Get(ctx, named("default"), &corev1.ServiceAccount{})
	})
}
