package policylog

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/weft-network/weft/pkg/acllog"
)

// An agent that starts before ovn-controller's folder exists logs decisions once it does.
func TestDecisionsOfALaterFolder(t *testing.T) {
	dir, logged := filepath.Join(t.TempDir(), "ovn"), make(chan string, 100)
	l := &Log{
		Dir: dir, PodAt: func(netip.Addr) string { return "" },
		Log: funcr.New(func(_, args string) { logged <- args }, funcr.Options{}),
	}
	done := make(chan error, 1)
	go func() { done <- l.Run(t.Context()) }()
	t.Cleanup(func() { <-done })
	await := func(part string, do func()) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
			do()
			select {
			case text := <-logged:
				if strings.Contains(text, part) {
					return
				}
			case <-time.After(100 * time.Millisecond):
			}
		}
		t.Fatalf("%q is not logged", part)
	}
	await("cannot stream policy decisions", func() {})
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	const line = `2026-11-22T05:13:13.123Z|1|acl_log(x)|INFO|name="NP:demo/web:ingress isolation", verdict=drop, ` +
		`severity=info, direction=to-lport: udp,nw_src=10.0.0.1,nw_dst=10.0.0.2,tp_src=1,tp_dst=53` + "\n"
	await("NetworkPolicy demo/web ingress isolation dropped UDP", func() {
		file, err := os.OpenFile(filepath.Join(dir, acllog.File), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := file.WriteString(line); err != nil {
			t.Error(err)
		}
	})
}
