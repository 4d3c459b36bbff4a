//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/lab"
)

// lostFragments are fragments to a node of datagrams that never come whole. The userspace datapath gives them up after 15 s, and lets each go on
// with the next packet that its tracker looks at, whichever way that goes.
type lostFragments struct {
	heard *listener // at the node's link: what comes and what goes
	sent  int
	given int // given up before
}

const (
	lostLabel, lastLabel = "lost", "last"
	// givesUp is longer than the datapath takes.
	givesUp = time.Minute
)

// loseFragments sends some to n1; nil where the datapath is not the userspace one.
func (o outside) loseFragments(t *testing.T) *lostFragments {
	t.Helper()
	nn := nodeNetwork("n1")
	must(t, bed.api.Get(t.Context(), client.ObjectKeyFromObject(nn), nn))
	if nn.Status.DatapathType != networkv1alpha1.DatapathNetdev {
		t.Log("the kernel's datapath does not let given up fragments go on")
		return nil
	}
	l := &lostFragments{heard: startListening(t, bed.hostCaller("n1"), o.column.link()), sent: 20, given: givenUp(t)}
	for range l.sent {
		o.frameToNode(t, "fragment", lostLabel)
	}
	return l
}

// link is the one by which nodes and the router are on the network outside.
func (c column) link() string {
	if c.apart() {
		return secondLink
	}
	return "eth0"
}

// frameToNode has the router send a frame to n1.
func (o outside) frameToNode(t *testing.T, kind, label string) {
	t.Helper()
	node := o.column.at(o.nodes[0])
	_, err := bed.hostCaller(lab.Router().Name).run(t.Context(), nil, "frame", "--link="+o.column.link(), "--kind="+kind, "--label="+label, "--dst-mac="+node.MAC.String(),
		"--src="+lab.Outside().IPv4.Addr().String(), "--dst="+node.IPv4.Addr().String())
	must(t, err)
}

// testNoneComesBack: the wire has heard each of them once, on its way in.
func (l *lostFragments) testNoneComesBack(t *testing.T, o outside) {
	to := netip.AddrPortFrom(lab.Outside().IPv4.Addr(), echoPort)
	eventually(t, givesUp, func() error {
		if err := bed.podCaller(o.pods["n1"]).sendsDatagram(t, to, 100); err != nil { // with which one that is given up could go on
			return err
		}
		if n := givenUp(t) - l.given; n < l.sent {
			return fmt.Errorf("%d of %d fragments are given up", n, l.sent)
		}
		return nil
	})
	o.frameToNode(t, "udp", lastLabel)
	heard := slices.DeleteFunc(l.heard.until(t, lastLabel), func(label string) bool { return label != lostLabel })
	if len(heard) != l.sent {
		t.Errorf("%d fragments came to the node's link, and the link saw %d", l.sent, len(heard))
	}
}

var expired = regexp.MustCompile(`v4 frags expired: *(\d+)`)

// givenUp is how many fragments n1's datapath has let go on.
func givenUp(t *testing.T) int {
	t.Helper()
	text := bed.mustExec(t, "n1", "sh", "-c", "ovs-appctl --timeout=10 -t "+lab.SwitchControl+" dpctl/ipf-get-status")
	found := expired.FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("no word of fragments given up: %s", text)
	}
	n, err := strconv.Atoi(found[1])
	must(t, err)
	return n
}
