// Command weft-check-kernel runs packages' tests on the datapath of the kernel's Open vSwitch: it builds them on the machine and boots a
// kernel of test/kernel for each package. A test that finds itself on another datapath fails. Run it in the repository.
//
//	weft-check-kernel [-run PATTERN] [-mem 4G] [-timeout 40m] [-v] [PACKAGE]...
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/test/kernel"
	"github.com/weft-network/weft/test/kernel/guest"
	"github.com/weft-network/weft/test/lab/tools"
)

// packages are those whose tests use links, routes, nftables, conntrack or Open vSwitch, in the order of their duration.
var packages = []string{
	"./pkg/agent/nftables", "./pkg/agent/neighbour", "./pkg/agent/hostnet", "./pkg/agent/toobig", "./pkg/agent/ipsec", "./pkg/agent/learning",
	"./pkg/agent/wildcards", "./pkg/agent/openflow", "./pkg/agent/uplink", "./pkg/agent",
}

func main() {
	if guest.IsGuest() {
		guest.Main()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM, unix.SIGHUP)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "weft-check-kernel:", err)
		os.Exit(1)
	}
}

// check is one run: what is run, and how.
type check struct {
	kernel   kernel.Options
	binaries string // the folder of the tests' programs
	pattern  string
	timeout  time.Duration
	verbose  bool
}

func run(ctx context.Context) (err error) {
	c := check{kernel: kernel.Options{Messages: io.Discard}}
	flag.StringVar(&c.kernel.Memory, "mem", "4G", "memory of each kernel")
	flag.StringVar(&c.pattern, "run", "", "run only the tests that match")
	flag.DurationVar(&c.timeout, "timeout", 40*time.Minute, "end a package's kernel after this time")
	flag.BoolVar(&c.verbose, "v", false, "print the output of tests that pass, too")
	flag.Parse()
	if c.kernel.Init, err = os.Executable(); err != nil {
		return err
	}
	cache, err := tools.DefaultCache()
	if err != nil {
		return err
	}
	c.kernel.Linux = cache.Linux()
	if err := cache.Make(ctx, "linux", os.Stderr); err != nil {
		return err
	}
	for name, value := range map[string]string{
		"PATH": filepath.Dir(cache.NFT()) + ":" + os.Getenv("PATH"), "WEFT_DATAPATH": "system",
		"KUBEBUILDER_CONTROLPLANE_START_TIMEOUT": "5m", // of envtest; 20 s are too short on one slow processor
	} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	c.kernel.Env = os.Environ()
	if c.binaries, err = os.MkdirTemp("", "weft-check-kernel-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.binaries)) }()
	wanted := flag.Args()
	if len(wanted) == 0 {
		wanted = packages
	}
	var failed []string
	for _, dir := range wanted {
		if err := c.test(ctx, dir); err != nil {
			fmt.Printf("FAIL %-28s %v\n", dir, err)
			failed = append(failed, dir)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(failed, " "))
	}
	return nil
}

// test builds and runs one package's tests, and prints the tests that failed or were skipped and their output.
func (c check) test(ctx context.Context, dir string) error {
	binary := filepath.Join(c.binaries, strings.ReplaceAll(strings.Trim(dir, "./"), "/", "_")+".test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, dir)
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build: %w", err)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	started := time.Now()
	var output bytes.Buffer
	o := c.kernel
	o.Dir, o.Stdout, o.Stderr = abs, &output, os.Stderr
	if c.verbose {
		o.Stdout = io.MultiWriter(&output, os.Stdout)
	}
	o.Program = []string{binary, "-test.v=test2json", "-test.timeout=" + c.timeout.String(), "-test.run=" + c.pattern}
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout+time.Minute, errors.New("no end in time"))
	defer cancel()
	code, err := kernel.Run(ctx, o)
	s := read(output.String())
	for _, test := range slices.Concat(s.skipped, s.failed) {
		if !c.verbose {
			fmt.Println(test)
		}
	}
	fmt.Printf("%-4s %-28s %d passed, %d skipped, %d failed, %.0fs\n", verdict(code, err), dir, s.passed, len(s.skipped), len(s.failed),
		time.Since(started).Seconds())
	if err != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	if code != 0 && len(s.failed) == 0 && !c.verbose {
		fmt.Print(output.String())
	}
	if code != 0 {
		return fmt.Errorf("exit code %d", code)
	}
	if s.passed == 0 && c.pattern == "" {
		return errors.New("no test ran")
	}
	return nil
}

func verdict(code int, err error) string {
	if err != nil || code != 0 {
		return "FAIL"
	}
	return "ok"
}
