package upstream

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/weft-network/weft/test/lab"
)

// Options selects what to run, and where.
type Options struct {
	Cluster *lab.Cluster
	Suites  []Suite
	// Folder receives a JUnit report and the log of each suite.
	Folder string
	// Processes is the number of parallel tests.
	Processes int
	Output    io.Writer
}

// Run starts the lab unless it runs, runs the suites and prints the results. It returns an error if a test failed.
func Run(ctx context.Context, o Options) error {
	for _, what := range []string{"all", "upstream"} {
		if err := o.Cluster.Cache.Make(ctx, what, o.Output); err != nil {
			return err
		}
	}
	if _, err := o.Cluster.Nodes(); err != nil {
		if err := o.Cluster.Up(ctx, lab.UpOptions{DNS: true, ThroughNode: true}); err != nil {
			return err
		}
	}
	if err := importImages(ctx, o.Cluster); err != nil {
		return err
	}
	if err := os.MkdirAll(o.Folder, 0o755); err != nil {
		return err
	}
	var results []Result
	failed := 0
	for _, suite := range o.Suites {
		run := o.run
		if suite.PolicyAPI != "" {
			run = o.runPolicyAPI
		}
		result, err := run(ctx, suite)
		if err != nil {
			return fmt.Errorf("suite %s: %w", suite.Name, err)
		}
		results, failed = append(results, result), failed+len(result.Failed)
	}
	if err := write(o.Output, results); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d tests failed; %s has the reports and logs", failed, o.Folder)
	}
	return nil
}

// run runs one suite of Kubernetes' tests.
func (o Options) run(ctx context.Context, suite Suite) (Result, error) {
	nodes, err := o.Cluster.Nodes()
	if err != nil {
		return Result{}, err
	}
	cache := o.Cluster.Cache
	argv := []string{cache.Bin("ginkgo"), "run", "--no-color", "-v", "--procs=" + strconv.Itoa(o.Processes),
		"--timeout=3h", "--output-dir=" + o.Folder,
		"--junit-report=" + suite.Name + ".xml", "--focus=" + suite.Focus}
	if suite.Skip != "" {
		argv = append(argv, "--skip="+suite.Skip)
	}
	argv = append(argv, cache.Bin("e2e.test"), "--", "--kubeconfig="+o.Cluster.KubeConfig(),
		"--kubectl-path="+cache.Bin("kubectl"), "--provider=skeleton",
		"--num-nodes="+strconv.Itoa(len(nodes)), "--node-os-distro=custom", "--dns-domain=cluster.local")
	return o.reported(o.Cluster.NetworkCommand(ctx, argv...), suite, suite.Name+".xml", read)
}

// reported runs the program of a suite, which writes a report, and reads the report.
func (o Options) reported(program *exec.Cmd, suite Suite, report string, read func(path string) (Result, error)) (Result, error) {
	report = filepath.Join(o.Folder, report)
	if err := os.RemoveAll(report); err != nil {
		return Result{}, err
	}
	log, err := os.Create(filepath.Join(o.Folder, suite.Name+".log"))
	if err != nil {
		return Result{}, err
	}
	defer log.Close()
	program.Stdout, program.Stderr = log, log
	program.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interruption ends the program's own processes, too
	program.Cancel = func() error { return syscall.Kill(-program.Process.Pid, syscall.SIGKILL) }
	fmt.Fprintf(o.Output, "suite %s, progress: %s\n", suite.Name, log.Name())
	start := time.Now()
	ran := program.Run()
	result, err := read(report)
	if err != nil {
		return Result{}, fmt.Errorf("%w (%w)", err, ran)
	}
	if ran != nil && len(result.Failed) == 0 {
		return Result{}, ran
	}
	result.Suite, result.Took = suite.Name, time.Since(start)
	return result, nil
}
