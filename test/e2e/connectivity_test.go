//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/pkg/kubectl/connectivity"
	"github.com/weft-network/weft/test/lab"
	"github.com/weft-network/weft/test/poll"
)

// TestCheckConnectivity runs kubectl weft check connectivity in a network that works, with faults that must fail the
// right cells, with --for, and interrupted. No run may leave a namespace.
func TestCheckConnectivity(t *testing.T) {
	w := newWeft(t)
	bed.serveOn(t, lab.Outside().Name)
	t.Cleanup(func() { noChecks(t) })
	t.Run("a network that works", func(t *testing.T) { testConnectivity(t, &weft{t, w.folder}) })
	t.Run("Geneve stopped between nodes", func(t *testing.T) { testWithoutGeneve(t, &weft{t, w.folder}) })
	t.Run("a deny-all policy of somebody else", func(t *testing.T) { testDeniedConnectivity(t, &weft{t, w.folder}) })
	t.Run("lost datagrams", func(t *testing.T) { testLostDatagrams(t, &weft{t, w.folder}) })
	t.Run("interrupted, and what an earlier check left", func(t *testing.T) { testInterrupted(t, &weft{t, w.folder}) })
}

// noChecks waits until no namespace of a check exists.
func noChecks(t *testing.T) {
	t.Helper()
	must(t, pollChecks(t, func(names []string) bool { return len(names) == 0 }))
}

// pollChecks waits until the names of the namespaces of checks are right.
func pollChecks(t *testing.T, right func(names []string) bool) error {
	t.Helper()
	return poll.Slowly(cleanup(), readyTimeout, func() error {
		var all corev1.NamespaceList
		if err := bed.api.List(cleanup(), &all, client.HasLabels{connectivity.NamespaceLabel}); err != nil {
			return err
		}
		var names []string
		for _, n := range all.Items {
			names = append(names, n.Name)
		}
		if !right(names) {
			return fmt.Errorf("namespaces of checks: %v", names)
		}
		return nil
	})
}

// checked runs the command and returns its report.
func checked(t *testing.T, w *weft, code int, args ...string) (r connectivity.Report) {
	t.Helper()
	out, errs, got := w.run("", append([]string{"check", "connectivity", "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &r); err != nil || got != code {
		t.Fatalf("exit code %d, want %d, error %v:\n%s%s", got, code, err, out, errs)
	}
	t.Logf("%d passed, %d failed, in %.0f s", r.Passed, r.Failed, r.Seconds)
	return r
}

func testConnectivity(t *testing.T, w *weft) {
	junit := filepath.Join(t.TempDir(), "junit.xml")
	var targets []string
	for _, a := range both(lab.Outside()) {
		targets = append(targets, netip.AddrPortFrom(a, whoPort).String())
	}
	r := checked(t, w, 0, "--junit", junit, "--outside", strings.Join(targets, ","))
	counts := map[connectivity.Group]int{}
	for _, o := range r.Cells {
		if counts[o.Group]++; o.Group == connectivity.MTU && o.Size == 0 {
			t.Errorf("no size: %+v", o)
		}
	}
	for _, g := range connectivity.Groups() {
		if counts[g] == 0 {
			t.Errorf("group %s was not tested: %v", g, counts)
		}
	}
	if !slices.Equal(r.Families, []string{"IPv4", "IPv6"}) || !slices.Equal(r.Nodes, []string{"n1", "n2"}) {
		t.Errorf("tested %v on %v", r.Families, r.Nodes)
	}
	text, err := os.ReadFile(junit)
	must(t, err)
	var suites struct {
		Tests int `xml:"tests,attr"`
	}
	if err := xml.Unmarshal(text, &suites); err != nil || suites.Tests != len(r.Cells) {
		t.Errorf("JUnit's report has %d tests of %d, error %v", suites.Tests, len(r.Cells), err)
	}
	t.Logf("%v", counts)
}

// acrossNodes reports whether the packet of a cell leaves its node inside the network: to a pod of the other node.
func acrossNodes(o connectivity.Outcome) bool {
	from, to := o.From[strings.LastIndex(o.From, " ")+1:], o.To[strings.LastIndex(o.To, " ")+1:]
	return strings.HasPrefix(o.To, "pod ") && from != to
}

// testWithoutGeneve stops Geneve from n2. Exactly the cells between pods of both nodes must fail.
func testWithoutGeneve(t *testing.T, w *weft) {
	wound := &wound{T: t}
	t.Cleanup(wound.heal)
	withoutGeneve("n2")(wound)
	r := checked(t, w, 1, "--skip", "service,nodeport,dns,headless,node,outside,policy")
	for _, o := range r.Cells {
		if o.Passed == acrossNodes(o) {
			t.Errorf("passed: %t: %+v", o.Passed, o)
		}
		if !o.Passed && (!strings.HasPrefix(o.Command, "kubectl weft trace "+r.Namespace+"/a-") || o.Verdict == "") {
			t.Errorf("no diagnosis: %+v", o)
		}
	}
}

// testDeniedConnectivity isolates the pods a of the check while it runs. The cells to them must fail, by that policy.
// A node's connections to the service may choose a pod a at every attempt, or another pod.
func testDeniedConnectivity(t *testing.T, w *weft) {
	stop := make(chan struct{})
	ended := make(chan error, 1)
	go func() { ended <- isolateChecks(t, stop) }()
	r := checked(t, w, 1, "--skip", "service,nodeport,dns,headless,mtu,outside,policy")
	close(stop)
	must(t, <-ended)
	for _, o := range r.Cells {
		isolated := strings.HasPrefix(o.To, "pod a-") && (o.Group == connectivity.PodToPod || acrossNodes(o))
		if strings.HasPrefix(o.To, "service ") {
			isolated = !o.Passed
		}
		switch {
		case o.Passed == isolated:
			t.Errorf("passed: %t: %+v", o.Passed, o)
		case isolated && !strings.Contains(o.Verdict, "NetworkPolicy "+r.Namespace+"/somebodys"):
			t.Errorf("the verdict does not name the policy: %+v", o)
		}
	}
}

// isolateChecks creates a policy that isolates the pods a in each namespace of a check until stop is closed. A node
// reaches the pods of its own in spite of it.
func isolateChecks(t *testing.T, stop chan struct{}) error {
	namespaces, err := bed.api.Watch(t.Context(), &corev1.NamespaceList{}, client.HasLabels{connectivity.NamespaceLabel})
	if err != nil {
		return err
	}
	defer namespaces.Stop()
	for {
		select {
		case <-stop:
			return nil
		case e := <-namespaces.ResultChan():
			n, ok := e.Object.(*corev1.Namespace)
			if !ok || n.DeletionTimestamp != nil {
				continue
			}
			p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: n.Name, Name: "somebodys"}}
			p.Spec.PodSelector.MatchLabels = map[string]string{"network.weft.dev/check-role": connectivity.SenderLabel}
			p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
			if err := ignoreExists(bed.api.Create(t.Context(), p)); err != nil {
				return err
			}
		}
	}
}

// testLostDatagrams counts the datagrams that a firewall between the nodes drops.
func testLostDatagrams(t *testing.T, w *weft) {
	r := checked(t, w, 0, "--for", "5s", "--skip", "service")
	if len(r.Flows) != 8 || r.Flows[0].Sent < 20 {
		t.Errorf("flows %+v, want 8 of some 50 datagrams", r.Flows)
	}
	wound := &wound{T: t}
	t.Cleanup(wound.heal)
	withoutGeneve("n2")(wound)
	r = checked(t, w, 1, "--for", "5s", "--skip", "service")
	for _, f := range r.Flows {
		across := acrossNodes(connectivity.Outcome{From: f.From, To: f.To})
		fromFar := strings.HasSuffix(f.From, " n2")
		switch {
		case !across && f.Lost() != 0:
			t.Errorf("lost on one node: %+v", f)
		case across && fromFar && f.LostThere == 0, across && !fromFar && f.LostBack == 0:
			t.Errorf("not lost on the way from n2: %+v", f)
		}
	}
}

// testInterrupted interrupts a run whose pods exist. Its namespace goes, and that of an earlier run with it.
func testInterrupted(t *testing.T, w *weft) {
	const left = connectivity.NamespacePrefix + "left"
	must(t, bed.api.Create(t.Context(), connectivity.NewNamespace(left, time.Now().Add(-time.Minute))))
	cmd := w.command("check", "connectivity", "--for", "10m", "-o", "json")
	// nsenter does not pass signals on, so a shell sends it when its input ends.
	const interrupt = `"$@" < /dev/null & plugin=$!; read -r end; kill -INT "$plugin"; wait "$plugin"`
	at := slices.Index(cmd.Args, "env")
	at += 1 + slices.Index(cmd.Args[at+1:], "env") // the second, after nsenter's own
	cmd.Args = slices.Concat(cmd.Args[:at], []string{"sh", "-c", interrupt, "sh"}, cmd.Args[at:])
	var out bytes.Buffer
	errs := &written{}
	cmd.Stdout, cmd.Stderr = &out, errs
	end, err := cmd.StdinPipe()
	must(t, err)
	must(t, cmd.Start())
	started := poll.Slowly(t.Context(), 2*readyTimeout, func() error {
		if !strings.Contains(errs.text(), "directions") {
			return fmt.Errorf("the pods do not send: %s", errs.text())
		}
		return nil
	})
	must(t, end.Close())
	_ = cmd.Wait() // its exit code says whether datagrams were lost
	must(t, started)
	var r connectivity.Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil || len(r.Flows) == 0 {
		t.Errorf("an interrupted run reports %q, error %v; %s", out.String(), err, errs.text())
	}
	if !strings.Contains(errs.text(), "removing namespace "+left) {
		t.Errorf("what an earlier check left is not named: %s", errs.text())
	}
	noChecks(t)
}

// written is what a program has written so far.
type written struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

// Write implements io.Writer.
func (w *written) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buffer.Write(text)
}

func (w *written) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buffer.String()
}
