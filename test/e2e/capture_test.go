//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestCapture records what a pod receives from a pod on another node, as text and as a file, in both families: the
// packets of the port and no others, until their number is reached. What cannot be recorded is a clear error.
func TestCapture(t *testing.T) {
	w := newWeft(t)
	server, client := bed.peerPod("capture-server", "n1"), bed.peerPod("capture-client", "n2")
	bed.run(t, server, client)
	name := namespace + "/" + server.Name
	from := addressesOf(client)
	for i, to := range addressesOf(server) {
		calls, stop := context.WithCancel(t.Context())
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			for calls.Err() == nil {
				_, _ = bed.podCaller(client).call(calls, "tcp", netip.AddrPortFrom(to, 7000), 1)
			}
		}()
		const packets = 10
		out, errs, code := w.run("", "capture", name, "--for=60s", fmt.Sprint("--packets=", packets), "--port=7000",
			"--host="+from[i].String(), "--protocol=tcp")
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if code != 0 || len(lines) != packets || !strings.Contains(out, " TCP SYN, ") {
			t.Errorf("exit code %d, %d packets:\n%s%s", code, len(lines), out, errs)
		}
		t.Log("\n" + out)
		for _, line := range lines {
			if !strings.Contains(line, from[i].String()) || !strings.Contains(line, ":7000") {
				t.Errorf("a packet of another connection: %s", line)
			}
		}
		if out, errs, code = w.run("", "capture", name, "--packets=3"); code != 0 || strings.Count(out, "\n") != 3 {
			t.Errorf("exit code %d without a filter:\n%s%s", code, out, errs)
		}
		file := filepath.Join(t.TempDir(), "server.pcap")
		_, errs, code = w.run("", "capture", name, "--for=60s", "--packets=3", "--port=8080", "--write="+file) // kubelet's probes
		text, err := os.ReadFile(file)
		if magic := []byte{0x4d, 0x3c, 0xb2, 0xa1}; code != 0 || err != nil || !bytes.HasPrefix(text, magic) || len(text) < 24+3*16 {
			t.Errorf("exit code %d, a file of %d bytes, %v: %s", code, len(text), err, errs)
		}
		stop()
		<-stopped
	}
	began := time.Now()
	if out, errs, code := w.run("", "capture", name, "--for=2s", "--port=1"); code != 0 || out != "" {
		t.Errorf("exit code %d without a packet:\n%s%s", code, out, errs)
	}
	t.Logf("a recording of 2s took %s", time.Since(began))
	w.expect(2, "", []string{"capture", namespace + "/none"}, "there is no pod "+namespace+"/none")
	w.expect(2, "", []string{"capture", name, "--interface=net7"}, "has no interface net7 of a pod")
	w.expect(2, "", []string{"capture", name, "--protocol=http"}, `"http": want one of`)
	_, errs, _ := w.run("", "capture", name, "--host=web")
	if strings.Contains(errs, "Usage") || !strings.Contains(errs, `--host "web": want an address`) {
		t.Errorf("an address that is none: %s", errs)
	}
}
