//go:build e2e

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-network/weft/test/lab"
	"github.com/weft-network/weft/test/lab/tools"
	"github.com/weft-network/weft/test/poll"
)

// namespace holds all objects that the tests create.
const namespace = "e2e"

// bed is the lab that the tests share.
var bed *testbed

// began is when the time limit of go test began.
var began = time.Now()

// needLabsDaemons are the tests that do not run in a bare lab, where dist/install.yaml brings OVN and Open vSwitch.
// They stop daemons of the lab, which kubelet would restart, or they read and replace the files and key pairs that
// the lab gave them.
var needLabsDaemons = []string{
	"TestNodeReboot",                // stops and starts all of a node, Open vSwitch before kubelet
	"TestRebuild",                   // replaces database files in the lab's folder
	"TestRebuildThatFails",          // the same
	"TestRotatedAuthority",          // replaces the lab's key pairs
	"TestSouthboundLost",            // removes database files in the lab's folder
	"TestStatusNamesInjectedFaults", // keeps daemons down until the status reports it
	"TestUninstall",                 // removes config/default; TestInstall of test/install does it for dist/install.yaml
}

func TestMain(m *testing.M) {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	code, err := run(ctx, m)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

// use is the environment variable that makes the tests use a running lab. It is also set in the process that runs
// the tests.
const use = "WEFT_E2E_USE"

// nodesVariable is the environment variable with the number of the lab's nodes; usual are two.
const nodesVariable = "WEFT_E2E_NODES"

func run(ctx context.Context, m *testing.M) (code int, err error) {
	if valueOf("list") != "" {
		return m.Run(), nil // no test to run
	}
	cluster, err := lab.Open(lab.Options{Name: cmp.Or(os.Getenv("WEFT_E2E_LAB"), "e2e"), Output: os.Stderr})
	if err != nil {
		return 0, err
	}
	if os.Getenv(use) == "" {
		return runInLabs(ctx, cluster)
	}
	if bed, err = newTestbed(ctx, cluster); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// valueOf returns the value of a flag of go test.
func valueOf(name string) string { return flag.Lookup("test." + name).Value.String() }

// runInLabs runs the tests in a bare lab, and then the tests that need the lab's daemons in a lab with daemons, even
// if tests failed in the first.
func runInLabs(ctx context.Context, cluster *lab.Cluster) (code int, err error) {
	selected, err := selectedTests(ctx)
	if err != nil {
		return 0, err
	}
	for _, bare := range []bool{true, false} {
		elsewhere := func(test string) bool { return bare == slices.Contains(needLabsDaemons, test) }
		if !slices.ContainsFunc(selected, func(test string) bool { return !elsewhere(test) }) {
			continue
		}
		failed, failure := runInLab(ctx, cluster, bare, slices.DeleteFunc(slices.Clone(selected),
			func(test string) bool { return !elsewhere(test) }))
		code, err = max(code, failed), errors.Join(err, failure)
	}
	return code, err
}

// selectedTests lists the tests that the flags select.
func selectedTests(ctx context.Context) (selected []string, err error) {
	all, err := list(ctx, ".")
	if err != nil {
		return nil, err
	}
	for _, test := range needLabsDaemons {
		if !slices.Contains(all, test) {
			return nil, fmt.Errorf("needLabsDaemons lists %s, but no such test exists", test)
		}
	}
	return list(ctx, cmp.Or(topLevel(valueOf("run")), "."))
}

// list runs this program to list the tests whose names match a pattern.
func list(ctx context.Context, pattern string) ([]string, error) {
	out, err := exec.CommandContext(ctx, os.Args[0], "-test.list="+pattern).Output()
	if err != nil {
		return nil, fmt.Errorf("list the tests: %w", err)
	}
	return strings.Fields(string(out)), nil
}

// topLevel reduces a pattern for tests and sub-tests to its pattern for tests: A/x|B/y becomes A|B.
func topLevel(pattern string) string {
	var kept bytes.Buffer
	depth, below, escaped := 0, false, false // depth of brackets; after a slash
	for _, r := range pattern {
		switch {
		case escaped:
			escaped = false
		case r == '\\':
			escaped = true
		case r == '[' || r == '(':
			depth++
		case r == ']' || r == ')':
			depth--
		case depth == 0 && r == '/':
			below = true
		case depth == 0 && r == '|':
			below = false
		}
		if !below {
			kept.WriteRune(r)
		}
	}
	return kept.String()
}

func TestTopLevel(t *testing.T) {
	for pattern, want := range map[string]string{
		"": "", "TestA": "TestA", "^TestA$/^b$": "^TestA$", "TestA/b|TestC/d/e": "TestA|TestC",
		"Test[A/]/b": "Test[A/]", `Test(A|B)/x\[|C`: "Test(A|B)|C",
	} {
		if got := topLevel(pattern); got != want {
			t.Errorf("topLevel(%q) = %q, want %q", pattern, got, want)
		}
	}
}

// runInLab creates a lab and runs the tests there, except the tests in elsewhere.
func runInLab(ctx context.Context, cluster *lab.Cluster, bare bool, elsewhere []string) (code int, err error) {
	down := func() error { return cluster.Down(context.Background()) }
	if err := down(); err != nil {
		return 0, err
	}
	if os.Getenv("WEFT_E2E_KEEP") == "" {
		defer func() { err = errors.Join(err, down()) }()
	}
	nodes := 0
	if text := os.Getenv(nodesVariable); text != "" {
		if nodes, err = strconv.Atoi(text); err != nil {
			return 0, fmt.Errorf("%s: %w", nodesVariable, err)
		}
	}
	if err := cluster.Up(ctx, lab.UpOptions{Nodes: nodes, Bare: bare, DNS: true, Release: os.Getenv(lab.ReleaseVariable)}); err != nil {
		return 0, err
	}
	return runTests(ctx, elsewhere)
}

// runTests runs the tests in a child process, so that the lab is removed however they end. A panic and a timeout of
// go test end the process immediately.
func runTests(ctx context.Context, elsewhere []string) (code int, err error) {
	args := append(slices.Clone(os.Args[1:]), "-test.skip="+without(elsewhere))
	if timeout := flag.Lookup("test.timeout").Value.(flag.Getter).Get().(time.Duration); timeout > 0 {
		args = append(args, "-test.timeout="+max(timeout-time.Since(began), time.Second).String()) // go test's limit covers both runs
	}
	tests := exec.CommandContext(ctx, os.Args[0], args...)
	tests.Env = append(os.Environ(), use+"=1")
	tests.Stdout, tests.Stderr = os.Stdout, os.Stderr
	err = tests.Run()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return 1, nil // the child process printed the reason
	}
	return 0, err
}

// without returns a pattern that skips these tests in addition to the flag's pattern. The first matching alternative
// of a skip pattern wins, even if it only skips sub-tests, so these tests come first.
func without(tests []string) string {
	var patterns []string
	if len(tests) > 0 {
		patterns = append(patterns, "^("+strings.Join(tests, "|")+")$")
	}
	if skip := valueOf("skip"); skip != "" {
		patterns = append(patterns, skip)
	}
	return strings.Join(patterns, "|")
}

// buildPeer builds the tests' own program in a folder that pods mount from the nodes.
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
	return poll.Slowly(ctx, 30*time.Second, func() error {
		return b.api.Get(ctx, named("default"), &corev1.ServiceAccount{})
	})
}
