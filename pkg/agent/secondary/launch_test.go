package secondary

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == LaunchCommand {
		os.Stderr.WriteString(Launch(os.Args[2:]).Error())
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// A plugin finds itself in /proc, although it runs in the file system of a node with other process IDs.
func TestAPluginSeesItsOwnProcesses(t *testing.T) {
	plugin := filepath.Join(t.TempDir(), "plugin")
	const script = "#!/bin/sh\nreadlink /proc/self/ns/net && echo \"$CNI_COMMAND\" && cat\n"
	if err := os.WriteFile(plugin, []byte(script), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	run := func(argv ...string) (string, error) {
		c := exec.Command("/proc/self/exe", argv...)
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
		c.Env, c.Stdin = append(os.Environ(), "CNI_COMMAND=ADD"), strings.NewReader("config")
		out, err := c.CombinedOutput()
		return string(out), err
	}
	out, err := run(LaunchCommand, "/", plugin)
	if err != nil || !strings.HasPrefix(out, "net:[") || !strings.HasSuffix(out, "\nADD\nconfig") {
		t.Errorf("%q, %v", out, err)
	}
	if out, err := run(LaunchCommand, "/", plugin+"-absent"); err == nil || !strings.Contains(out, "plugin-absent: no such file") {
		t.Errorf("a plugin that does not exist: %q, %v", out, err)
	}
	if mounts, err := os.ReadFile("/proc/self/mounts"); err != nil || strings.Count(string(mounts), " /proc proc ") > 1 {
		t.Errorf("a mount stays: %v\n%s", err, mounts)
	}
}
