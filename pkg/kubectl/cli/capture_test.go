package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

func TestCaptureOptions(t *testing.T) {
	good := captureOptions{lasting: time.Minute, packets: 1, bytes: fewestBytes}
	for text, change := range map[string]func(*captureOptions){
		"":                              func(*captureOptions) {},
		"--for 2h0m0s: want at most 1h": func(o *captureOptions) { o.lasting = 2 * time.Hour },
		"--for 0s: want more than 0":    func(o *captureOptions) { o.lasting = 0 },
		"--packets 0: want more than 0": func(o *captureOptions) { o.packets = 0 },
	} {
		o := good
		change(&o)
		if err := o.check(); (err == nil) != (text == "") || err != nil && !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: %v, want %q", o, err, text)
		}
	}
}

func TestCaptureCommand(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "uid-0"}}
	o := captureOptions{link: "net1", lasting: time.Minute, packets: 5, bytes: 64, protocol: "tcp", host: "10.0.0.1", port: 80}
	command := o.command(pod)
	slices.Sort(command[1:])
	const want = "/usr/bin/weft-capture --bytes=64 --for=1m0s --host=10.0.0.1 --interface=net1 --packets=5 --pod-uid=uid-0 --port=80 " +
		"--protocol=tcp"
	if got := strings.Join(command, " "); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// What the program writes arrives, with its notes. Its error is ours, without its name.
func TestStream(t *testing.T) {
	server := &spdyServer{T: t, run: func(_ io.Reader, out, errs io.Writer) int {
		fmt.Fprint(out, "packets")
		fmt.Fprintln(errs, "3 more were lost")
		return 0
	}}
	var out strings.Builder
	notes, err := server.operator().stream(t.Context(), agentContainer, nil, &out, captureProgram)
	if out.String() != "packets" || notes != "3 more were lost" || err != nil {
		t.Errorf("%q, %q, %v", out.String(), notes, err)
	}
	server.run = func(_ io.Reader, _, errs io.Writer) int {
		fmt.Fprintln(errs, "weft-capture: no such interface")
		return 1
	}
	_, err = server.operator().stream(t.Context(), agentContainer, nil, &out, captureProgram)
	if err == nil || err.Error() != "no such interface" {
		t.Errorf("error %v", err)
	}
}

var errRecording = errors.New("no such interface")

func TestSaved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file.pcap")
	for name, c := range map[string]struct {
		text  string
		err   error
		stays bool
	}{
		"recorded":             {"packets", nil, true},
		"nothing to record":    {"", nil, true},
		"failed at once":       {"", errRecording, false},
		"failed after packets": {"packets", errRecording, true},
	} {
		err := saved(func(out io.Writer) error { _, _ = io.WriteString(out, c.text); return c.err }, path)
		text, failed := os.ReadFile(path)
		if !errors.Is(err, c.err) || (failed == nil) != c.stays || string(text) != c.text {
			t.Errorf("%s: %v; file %q, %v", name, err, text, failed)
		}
		_ = os.Remove(path)
	}
}

// A recording that fails says why, also as text. It ends when its reader does.
func TestPrinted(t *testing.T) {
	if err := printed(func(io.Writer) error { return errRecording }, io.Discard); !errors.Is(err, errRecording) {
		t.Errorf("error %v", err)
	}
	closed := func(out io.Writer) (err error) {
		for err == nil {
			_, err = out.Write(make([]byte, 1<<16))
		}
		return err
	}
	if err := printed(closed, io.Discard); err == nil || !strings.Contains(err.Error(), "no pcap file") {
		t.Errorf("error %v", err)
	}
}

func TestAgentOn(t *testing.T) {
	agent := func(name, node string, phase corev1.PodPhase) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "weft-system", Name: name,
			Labels: map[string]string{networkv1alpha1.ComponentLabel: networkv1alpha1.ComponentAgent}}}
		p.Spec.NodeName, p.Status.Phase = node, phase
		return p
	}
	api := fake.NewClientBuilder().WithObjects(agent("a", "n1", corev1.PodFailed), agent("b", "n1", corev1.PodRunning),
		agent("c", "n2", corev1.PodPending)).Build()
	if p, err := agentOn(t.Context(), api, "weft-system", "n1"); err != nil || p.Name != "b" {
		t.Errorf("%v, %v", p, err)
	}
	if _, err := agentOn(t.Context(), api, "weft-system", "n2"); err == nil || !strings.Contains(err.Error(), "no running agent on node n2") {
		t.Errorf("error %v", err)
	}
}
