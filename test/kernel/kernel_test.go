// Package kernel_test boots kernels. Its tests are skipped if `make linux` has not built one.
package kernel_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/test/kernel"
	"github.com/weft-network/weft/test/lab/tools"
)

// machine returns options that run a shell script; the caller sets its outputs.
func machine(t *testing.T, script string) kernel.Options {
	t.Helper()
	cache, err := tools.DefaultCache()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(cache.Linux()); err != nil {
		t.Skip("no kernel: run `make linux` first")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return kernel.Options{
		Linux: cache.Linux(), Init: self, Memory: "512M", Program: []string{"sh", "-c", script}, Dir: t.TempDir(),
		Env: append(os.Environ(), "GREETING=hello"), Stdout: io.Discard, Stderr: io.Discard, Messages: io.Discard,
	}
}

// The program has its folder, its environment, its outputs, and its exit code.
func TestProgram(t *testing.T) {
	var stdout, stderr bytes.Buffer
	o := machine(t, `pwd; echo "$GREETING"; echo wrong >&2; sleep 1000 & exit 7`)
	o.Stdout, o.Stderr = &stdout, &stderr
	code, err := kernel.Run(t.Context(), o)
	if err != nil || code != 7 {
		t.Errorf("Run = %d, %v, want 7", code, err)
	}
	if want := o.Dir + "\nhello\n"; stdout.String() != want || stderr.String() != "wrong\n" {
		t.Errorf("outputs: %q and %q, want %q and wrong", stdout.String(), stderr.String(), want)
	}
}

func TestProgramEndsBySignal(t *testing.T) {
	if code, err := kernel.Run(t.Context(), machine(t, "kill -9 $$")); err != nil || code != 137 {
		t.Errorf("Run = %d, %v, want 137", code, err)
	}
}

func TestAbsentProgram(t *testing.T) {
	o := machine(t, "")
	o.Program = []string{"/absent/program"}
	if _, err := kernel.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "/absent/program") {
		t.Errorf("Run: %v, want an error that names the program", err)
	}
}

// A megabyte of output arrives whole, whatever the kernel's terminals buffer.
func TestOutputIsWhole(t *testing.T) {
	var stdout, stderr bytes.Buffer
	o := machine(t, "seq 1 200000; seq 200000 -1 1 >&2")
	o.Stdout, o.Stderr = &stdout, &stderr
	if code, err := kernel.Run(t.Context(), o); err != nil || code != 0 {
		t.Fatalf("Run = %d, %v", code, err)
	}
	var up, down bytes.Buffer
	for i := 1; i <= 200000; i++ {
		fmt.Fprintln(&up, i)
		fmt.Fprintln(&down, 200001-i)
	}
	if !bytes.Equal(stdout.Bytes(), up.Bytes()) || !bytes.Equal(stderr.Bytes(), down.Bytes()) {
		t.Errorf("%d and %d bytes differ from the %d that were written", stdout.Len(), stderr.Len(), up.Len())
	}
}

// Changes of files end with the kernel, except those below Out.
func TestFilesOfTheMachineStay(t *testing.T) {
	out, dir := t.TempDir(), t.TempDir()
	kept, file, gone := filepath.Join(out, "kept"), filepath.Join(dir, "file"), filepath.Join(dir, "gone")
	for _, path := range []string{file, gone} {
		if err := os.WriteFile(path, []byte("before\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	o := machine(t, fmt.Sprintf("echo after > %[1]s && rm %[2]s && mkdir /var/lib/weft-kernel-test && cat %[1]s > %[3]s",
		file, gone, kept))
	o.Out = []string{out}
	if code, err := kernel.Run(t.Context(), o); err != nil || code != 0 {
		t.Fatalf("Run = %d, %v", code, err)
	}
	for path, want := range map[string]string{file: "before\n", gone: "before\n", kept: "after\n"} {
		if text, err := os.ReadFile(path); err != nil || string(text) != want {
			t.Errorf("%s has %q (%v), want %q", path, text, err, want)
		}
	}
	if _, err := os.Stat("/var/lib/weft-kernel-test"); err == nil {
		t.Error("a folder was made on the machine")
	}
}

// What Weft needs from a node's kernel is there: the datapath, zones of conntrack in it, Geneve, IPsec, network namespaces and nftables.
func TestFeatures(t *testing.T) {
	var stdout, stderr bytes.Buffer
	o := machine(t, `set -e
		zgrep -q '^CONFIG_NF_CONNTRACK_ZONES=y' /proc/config.gz
		ip netns add a
		ip -n a link add v0 type veth peer name v1
		ip -n a link add g0 type geneve external
		nft add table inet t
		ip xfrm state add src 192.0.2.1 dst 192.0.2.2 proto esp spi 1 mode transport \
			aead 'rfc4106(gcm(aes))' 0x0102030405060708090a0b0c0d0e0f1011121314 128
		ls /proc/sys/net/netfilter/nf_conntrack_max
		awk '$1 == "tmpfs" && $2 == "/run"' /proc/mounts
		ls /sys/fs/cgroup/cgroup.controllers /dev/net/tun`)
	o.Stdout, o.Stderr = &stdout, &stderr
	if code, err := kernel.Run(t.Context(), o); err != nil || code != 0 {
		t.Errorf("Run = %d, %v\n%s%s", code, err, stdout.String(), stderr.String())
	}
}

// An interrupt ends the kernel and all processes inside, while they run.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	t.Setenv("TMPDIR", t.TempDir()) // the place of the exchange folder
	o := machine(t, "sleep 1000 & echo runs; exec sleep 1001")
	o.Stdout = writer(func([]byte) { cancel() })
	if _, err := kernel.Run(ctx, o); ctx.Err() == nil || err == nil {
		t.Errorf("Run: %v, want the context's error", err)
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "weft-kernel-*")); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v (%v)", left, err)
	}
	if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); !errors.Is(err, unix.ECHILD) {
		t.Errorf("process %d is left (%v)", pid, err)
	}
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }
