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

// run takes the lab down whatever happens; an interrupt ends the process once it is down.
func run(ctx context.Context, m *testing.M) (code int, err error) {
	cluster, err := lab.Open(lab.Options{Name: cmp.Or(os.Getenv("WEFT_E2E_LAB"), "e2e"), Output: os.Stderr})
	if err != nil {
		return 0, err
	}
	keep := os.Getenv("WEFT_E2E_KEEP") != ""
	down := func() error { return cluster.Down(context.Background()) }
	if os.Getenv("WEFT_E2E_USE") == "" {
		if err := errors.Join(down(), cluster.Up(ctx, lab.UpOptions{})); err != nil {
			if keep {
				return 0, err
			}
			return 0, errors.Join(err, down())
		}
	} else {
		keep = true
	}
	if !keep {
		defer func() { err = errors.Join(err, down()) }()
		defer onInterrupt(ctx, down)()
	}
	if bed, err = newTestbed(ctx, cluster); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// onInterrupt takes the lab down when somebody ends the tests, which do not look at a context of ours.
func onInterrupt(ctx context.Context, down func() error) (release func() bool) {
	return context.AfterFunc(ctx, func() {
		_ = down() // nothing more can be done about it
		os.Exit(1)
	})
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
