// Command weft-kernel runs a program on a Linux kernel of its own, as test/kernel describes. Its exit code is the program's. It makes the
// kernel first, if $WEFT_CACHE has none.
//
//	weft-kernel [-mem 3G] [-timeout 20m] [-out FOLDER]... [-v] -- PROGRAM ARGS...
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/test/kernel"
	"github.com/weft-network/weft/test/kernel/guest"
	"github.com/weft-network/weft/test/lab/tools"
)

func main() {
	if guest.IsGuest() {
		guest.Main()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM, unix.SIGHUP)
	code, err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "weft-kernel:", err)
		code = 1
	}
	os.Exit(code)
}

// folders is a flag that can be repeated.
type folders []string

func (f *folders) String() string { return fmt.Sprint(*f) }

func (f *folders) Set(dir string) error {
	abs, err := filepath.Abs(dir)
	*f = append(*f, abs)
	return errors.Join(err, os.MkdirAll(abs, 0o755))
}

func run(ctx context.Context) (code int, err error) {
	o := kernel.Options{Stdout: os.Stdout, Stderr: os.Stderr, Messages: io.Discard, Env: os.Environ()}
	flag.StringVar(&o.Memory, "mem", "3G", "memory of the kernel, its programs and the files that they write")
	timeout := flag.Duration("timeout", 20*time.Minute, "end the kernel after this time")
	flag.Var((*folders)(&o.Out), "out", "folder whose changes are kept; can be repeated")
	verbose := flag.Bool("v", false, "write the kernel's messages to the standard error")
	flag.Parse()
	if o.Program = flag.Args(); len(o.Program) == 0 {
		return 0, errors.New("no program: usage: weft-kernel [flags] -- PROGRAM ARGS")
	}
	if *verbose {
		o.Messages = os.Stderr
	}
	if err := find(ctx, &o); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, *timeout, fmt.Errorf("no end after %s", *timeout))
	defer cancel()
	code, err = kernel.Run(ctx, o)
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	return code, err
}

// find fills in the kernel, this program as its PID 1, and the working folder.
func find(ctx context.Context, o *kernel.Options) (err error) {
	if o.Dir, err = os.Getwd(); err != nil {
		return err
	}
	if o.Init, err = os.Executable(); err != nil {
		return err
	}
	cache, err := tools.DefaultCache()
	if err != nil {
		return err
	}
	o.Linux = cache.Linux()
	_, err = cache.MakeLinux(ctx, os.Stderr)
	return err
}
