package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// outliving names the environment variable with the file that the child process of the test writes before it ends.
const outliving = "WEFT_TEST_OUTLIVE"

// A rebuild undoes its changes if its output is closed, as by "| head", or if its terminal is closed. The process
// must not end between two steps.
func TestRebuildOutlivesItsOutputAndItsTerminal(t *testing.T) {
	if path := os.Getenv(outliving); path != "" {
		closeAndHangUp(path)
		return
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	read.Close()
	defer write.Close()
	path := filepath.Join(t.TempDir(), "end")
	child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env, child.Stdout = append(os.Environ(), outliving+"="+path), write
	err = child.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		t.Fatal(err)
	}
	if text, readErr := os.ReadFile(path); readErr != nil || string(text) != "context canceled" {
		t.Errorf("the process ended with %v and left %q, %v", err, text, readErr)
	}
}

// closeAndHangUp writes to a closed output, simulates the end of its terminal, and writes the error of its context to
// a file.
func closeAndHangUp(path string) {
	ctx, stop := outlive()
	defer stop()
	_, _ = fmt.Println("a step")
	if ctx.Err() == nil {
		_ = syscall.Kill(os.Getpid(), syscall.SIGHUP)
	}
	<-ctx.Done()
	_ = os.WriteFile(path, []byte(ctx.Err().Error()), 0o600)
}
