//go:build e2e

package e2e

import (
	"bufio"
	"io"
	"maps"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// strangerMAC is a MAC that no machine has.
const strangerMAC = "0a:58:00:00:00:63"

// flags are the flags of peer frame.
type flags map[string]string

// story is one kind of frame: a true frame, and variants with one false field.
type story struct {
	name  string
	truth flags
	lies  map[string]flags // description of the lie -> the changed fields
}

// TestSpoofedFramesAreDropped sends frames from within a pod. The true frame of each kind arrives, which shows that
// path and sender work. Frames with a false source do not arrive. The listener also receives frames that the kernel
// would drop.
func TestSpoofedFramesAreDropped(t *testing.T) {
	liar, peer, far := bed.peerPod("liar", "n1"), bed.peerPod("listens", "n1"), bed.peerPod("listens-far", "n2")
	bed.run(t, liar, peer, far)
	bed.mustReach(t, liar, peer, far) // tunnels and neighbours are resolved
	t.Run("to a pod of the same switch", func(t *testing.T) {
		testStories(t, liar, peer, append(datagrams(t, liar, peer, macOf(t, peer)), announcements(t, liar, peer)...))
	})
	t.Run("to a pod behind the router", func(t *testing.T) {
		testStories(t, liar, far, datagrams(t, liar, far, routerMAC(t, "n1")))
	})
}

// datagrams lie about their IP or Ethernet source.
func datagrams(t *testing.T, from, to *corev1.Pod, dstMAC string) []story {
	t.Helper()
	var all []story
	for name, family := range map[string]func(netip.Addr) bool{"IPv4": is4, "IPv6": is6} {
		own, dst := address(t, from, family), address(t, to, family)
		stranger := strangerOf(own)
		s := story{name: name, truth: flags{"kind": "udp", "src": own.String(), "dst": dst.String(),
			"dst-mac": dstMAC}, lies: map[string]flags{
			"unused address":               {"src": stranger.String()},
			"address of the victim":        {"src": dst.String()},
			"unused MAC":                   {"src-mac": strangerMAC},
			"MAC of the victim":            {"src-mac": macOf(t, to)},
			"unused MAC and address":       {"src-mac": strangerMAC, "src": stranger.String()},
			"unspecified address":          {"src": unspecified(own)},
			"MAC of the victim's gateway":  {"src-mac": routerMAC(t, to.Spec.NodeName)},
			"address of the liar's router": {"src": gatewayOf(own).String()},
		}}
		if own.Is6() {
			s.lies["unused link-local address"] = flags{"src": "fe80::1"}
		}
		all = append(all, s)
	}
	return all
}

// announcements lie about the owner of an address (ARP), or about their source or target (Neighbor Discovery). They
// are sent to the victim's MAC and concern addresses for which OVN does not answer, so that the true frames arrive.
func announcements(t *testing.T, from, to *corev1.Pod) []story {
	t.Helper()
	own4, own6, dst4, dst6 := address(t, from, is4), address(t, from, is6), address(t, to, is4), address(t, to, is6)
	gateway4, gateway6 := gatewayOf(own4).String(), gatewayOf(own6).String()
	asked4, queried6 := strangerOf(dst4).String(), strangerOf(dst6).String()
	mac := macOf(t, to)
	sender := map[string]flags{
		"sender is the gateway":                {"src": gateway4},
		"sender is the victim":                 {"src": dst4.String()},
		"sender's MAC is unused":               {"mac": strangerMAC},
		"sender's MAC is the victim's":         {"mac": mac},
		"Ethernet source is unused":            {"src-mac": strangerMAC},
		"Ethernet source and sender's MAC lie": {"src-mac": strangerMAC, "mac": strangerMAC},
	}
	return []story{
		{"ARP reply", flags{"kind": "arp-reply", "src": own4.String(), "dst": dst4.String(), "dst-mac": mac}, sender},
		{"ARP request", flags{"kind": "arp-request", "src": own4.String(), "dst": asked4, "dst-mac": mac}, sender},
		{"ND advertisement", flags{"kind": "advertisement", "src": own6.String(), "dst": dst6.String(),
			"claim": own6.String(), "dst-mac": mac}, map[string]flags{
			"target is the gateway":     {"claim": gateway6},
			"target is the victim":      {"claim": dst6.String()},
			"source is the gateway":     {"src": gateway6},
			"target's MAC is unused":    {"mac": strangerMAC},
			"Ethernet source is unused": {"src-mac": strangerMAC},
			"all of it":                 {"claim": gateway6, "src": gateway6, "mac": strangerMAC, "src-mac": strangerMAC},
		}},
		// OVN 25.03 accepts any MAC in the option of a solicitation. A sender that lies there only misleads others
		// about its own address, because the source address must be its own.
		{"ND solicitation", flags{"kind": "solicitation", "src": own6.String(), "dst": dst6.String(),
			"claim": queried6, "dst-mac": mac}, map[string]flags{
			"source is the gateway":     {"src": gateway6},
			"source is unused":          {"src": queried6},
			"source and its MAC lie":    {"src": gateway6, "mac": strangerMAC},
			"Ethernet source is unused": {"src-mac": strangerMAC},
		}},
	}
}

// testStories sends all lies and then each truth. Frames arrive in order, so after a truth no earlier lie can still
// arrive.
func testStories(t *testing.T, from, to *corev1.Pod, stories []story) {
	listener := startListening(t, bed.podCaller(to), "eth0")
	send := func(label string, f ...flags) {
		t.Helper()
		all := flags{"label": label}
		for _, more := range f {
			maps.Copy(all, more)
		}
		argv := []string{peerPath, "frame"}
		for k, v := range all {
			argv = append(argv, "--"+k+"="+v)
		}
		bed.mustIn(t, from, argv...)
	}
	lies := 0
	for _, s := range stories {
		for what, lie := range s.lies {
			send(s.name+": "+what, s.truth, lie)
			lies++
		}
	}
	for _, s := range stories {
		send(s.name+truly, s.truth)
		got := listener.until(t, s.name+truly)
		for _, label := range got {
			if !strings.HasSuffix(label, truly) {
				t.Errorf("the listener received %q, want it dropped", label)
			}
		}
	}
	t.Logf("%d lies dropped, %d truths received", lies, len(stories))
}

// truly ends the label of a true frame.
const truly = ", truly"

// listener lists the frames that arrive at a link.
type listener struct {
	lines chan string
	// received are the lines so far: a label, a tab, and the frame's first bytes.
	received []string
}

// startListening returns when the listener receives every frame. It stops with the test.
func startListening(t *testing.T, at caller, link string) *listener {
	t.Helper()
	cmd, err := at.command(t.Context(), "listen", "--link="+link)
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	in, err := cmd.StdinPipe()
	must(t, err)
	must(t, cmd.Start())
	l := &listener{lines: make(chan string, 100)}
	t.Cleanup(func() { end(t, cmd, in) })
	go func() {
		defer close(l.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			l.lines <- lines.Text()
		}
	}()
	l.until(t, "ready")
	return l
}

func end(t *testing.T, cmd *exec.Cmd, in io.Closer) {
	must(t, in.Close())
	_ = cmd.Wait() // the test's context may have ended it
}

// until returns the labels received up to and including this label.
func (l *listener) until(t *testing.T, label string) []string {
	t.Helper()
	var got []string
	deadline := time.After(10 * time.Second)
	for !slices.Contains(got, label) {
		select {
		case line, ok := <-l.lines:
			if !ok {
				t.Fatalf("the listener ended after %q, before %q", got, label)
			}
			l.received = append(l.received, line)
			text, _, _ := strings.Cut(line, "\t")
			got = append(got, text)
		case <-deadline:
			t.Fatalf("%q has not arrived, only %q", label, got)
		}
	}
	return got
}

// strangerOf returns a nearby address that no machine has.
func strangerOf(a netip.Addr) netip.Addr {
	for range 100 {
		a = a.Next()
	}
	return a
}

func unspecified(a netip.Addr) string {
	if a.Is4() {
		return netip.IPv4Unspecified().String()
	}
	return netip.IPv6Unspecified().String()
}

// gatewayOf returns the first address of the pod's subnet.
func gatewayOf(a netip.Addr) netip.Addr {
	bits := 24
	if a.Is6() {
		bits = 64
	}
	return netip.PrefixFrom(a, bits).Masked().Addr().Next()
}

// routerMAC returns the MAC of the cluster router on a node's switch.
func routerMAC(t *testing.T, node string) string {
	t.Helper()
	machines, err := bed.databaseMachines(t.Context())
	must(t, err)
	for _, machine := range machines {
		rows, err := bed.rows(t.Context(), machine, "ovn-nbctl", "Logical_Router_Port", "name,mac")
		must(t, err)
		for _, r := range rows {
			if r.text("name") == "rtos-"+node {
				return r.text("mac")
			}
		}
	}
	t.Fatalf("node %s has no router port", node)
	return ""
}
