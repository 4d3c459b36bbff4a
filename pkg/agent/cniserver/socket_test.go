package cniserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/go-logr/logr/funcr"

	"github.com/weft-network/weft/pkg/cni/cniwire"
)

func TestListenIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "weft")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "cni.sock")
	listener, err := Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for path, want := range map[string]fs.FileMode{dir: fs.ModeDir | 0o700, socket: fs.ModeSocket | 0o600} {
		if info, err := os.Lstat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("directory has %v, %v", entries, err)
	}
}

func TestListenTakesTheSocketOver(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "weft", "cni.sock")
	first, err := Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	// The first listener closes late, as an old agent may, even while a third agent is about to listen. It must not
	// remove any file.
	third := socket + ".new"
	if err := os.WriteFile(third, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	first.Close()
	if _, err := os.Stat(third); err != nil {
		t.Errorf("file of the third: %v", err)
	}
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	accepted, err := second.Accept()
	if err != nil {
		t.Fatal(err)
	}
	accepted.Close()
}

func TestListenWhereItCannot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	for name, socket := range map[string]string{
		"under a file":          filepath.Join(file, "cni.sock"),
		"under a symbolic link": filepath.Join(link, "cni.sock"),
		"with a long path":      filepath.Join(t.TempDir(), fmt.Sprintf("%0120d", 0), "cni.sock"),
	} {
		t.Run(name, func(t *testing.T) {
			if listener, err := Listen(socket); err == nil {
				listener.Close()
				t.Error("Listen succeeds")
			}
		})
	}
}

// The test uses an abstract socket, which has no mode, so that only the check of the peer can refuse the client.
func TestAnotherUserIsRefused(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("becoming another user needs root")
	}
	name := fmt.Sprintf("@weft-cniserver-test-%d", os.Getpid())
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	refusals := make(chan string, 8)
	log := funcr.New(func(_, args string) { refusals <- args }, funcr.Options{})
	succeeding := fake{other: func(context.Context, cniwire.Request) error { return nil }}
	server := serveOn(t, listener, name, succeeding, Options{Log: log})

	for uid, want := range map[uint32]int{0: peerAnswered, 65534: peerRefused} {
		if got := runPeer(t, server.socket, uid); got != want {
			t.Errorf("client of user %d ends with %d, not %d", uid, got, want)
		}
	}
	server.stop()
	<-server.ended
	if len(refusals) != 1 {
		t.Errorf("%d refusals were logged", len(refusals))
	}
}

// Exit codes of bePeer.
const (
	peerAnswered = 10
	peerRefused  = 11
	peerConfused = 12
)

func bePeer(socket string) int {
	resp, err := cniwire.Do(context.Background(), socket, request(cniwire.Status, 1))
	switch {
	case err == nil && resp.Error == nil:
		return peerAnswered
	case errors.Is(err, cniwire.ErrUnavailable):
		return peerRefused
	}
	fmt.Fprintln(os.Stderr, resp.Error, err)
	return peerConfused
}

func runPeer(t *testing.T, socket string, uid uint32) int {
	t.Helper()
	peer := exec.Command("/proc/self/exe")
	peer.Env = []string{peerSocket + "=" + socket}
	peer.Stderr = os.Stderr
	peer.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	err := peer.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("client of user %d: %v", uid, err)
	}
	return exit.ExitCode()
}
