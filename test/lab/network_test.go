package lab

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// inMounts is the environment variable of a process of this test with a mount namespace of its own.
const inMounts = "WEFT_LAB_TEST_MOUNTS"

// A namespace is deleted although "ip netns add" has mounted the folder over itself since, once or twice.
func TestDeleteNetns(t *testing.T) {
	if os.Getenv(inMounts) != "" {
		for _, times := range []int{0, 1, 2} {
			deleteCovered(t, times)
		}
		return
	}
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	child.Env, child.SysProcAttr = append(os.Environ(), inMounts+"=1"), &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// deleteCovered deletes a namespace whose folder was mounted over itself some times.
func deleteCovered(t *testing.T, times int) {
	const path = namespaces + "/labtest-covered"
	must := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	must(unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""), os.MkdirAll(namespaces, 0o755),
		unix.Mount("run", namespaces, "tmpfs", 0, ""), os.WriteFile(path, nil, 0o600),
		unix.Mount("/proc/self/ns/net", path, "", unix.MS_BIND, ""))
	for range times {
		must(unix.Mount(namespaces, namespaces, "", unix.MS_BIND|unix.MS_REC, ""),
			unix.Mount("", namespaces, "", unix.MS_SHARED|unix.MS_REC, ""))
	}
	if err := deleteNetns("labtest-covered"); err != nil {
		t.Errorf("mounted over itself %d times: %v", times, err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("mounted over itself %d times: %v", times, err)
	}
	must(deleteNetns("labtest-covered")) // which does not exist
}
