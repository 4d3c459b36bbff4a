//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/lab"
)

// lostFragments are fragments of datagrams to a node that never become complete. The userspace datapath expires them
// after 15 s and forwards each with the next packet that its tracker processes, in whichever direction that packet
// goes.
type lostFragments struct {
	listener *listener // at the node's link, in both directions
	sent     int
	given    int // expired before the test
}

const (
	lostLabel, lastLabel = "lost", "last"
	// givesUp is longer than the datapath's expiry.
	givesUp = time.Minute
)

// loseFragments sends fragments to n1. It returns nil if the datapath is not the userspace datapath.
func (o outside) loseFragments(t *testing.T) *lostFragments {
	t.Helper()
	nn := nodeNetwork("n1")
	must(t, bed.api.Get(t.Context(), client.ObjectKeyFromObject(nn), nn))
	if nn.Status.DatapathType != networkv1alpha1.DatapathNetdev {
		t.Log("the kernel's datapath does not forward expired fragments")
		return nil
	}
	l := &lostFragments{listener: startListening(t, bed.hostCaller("n1"), o.column.link()), sent: 20, given: givenUp(t)}
	for range l.sent {
		o.frameToNode(t, "fragment", lostLabel)
	}
	return l
}

// link is the link that connects nodes and the router to the network outside.
func (c column) link() string {
	if c.apart() {
		return secondLink
	}
	return "eth0"
}

// frameToNode makes the router send a frame to n1.
func (o outside) frameToNode(t *testing.T, kind, label string) {
	t.Helper()
	node := o.column.at(o.nodes[0])
	_, err := bed.hostCaller(lab.Router().Name).run(t.Context(), nil, "frame", "--link="+o.column.link(),
		"--kind="+kind, "--label="+label, "--dst-mac="+node.MAC.String(),
		"--src="+lab.Outside().IPv4.Addr().String(), "--dst="+node.IPv4.Addr().String())
	must(t, err)
}

// testNoneComesBack checks that the wire carried each fragment only once, on its way in. The host's reports of lost
// fragments do not count.
func (l *lostFragments) testNoneComesBack(t *testing.T, o outside) {
	to := netip.AddrPortFrom(lab.Outside().IPv4.Addr(), echoPort)
	eventually(t, givesUp, func() error {
		if err := bed.podCaller(o.pods["n1"]).sendsDatagram(t, to, 100); err != nil { // an expired fragment could leave with this packet
			return err
		}
		if n := givenUp(t) - l.given; n < l.sent {
			return fmt.Errorf("%d of %d fragments have expired", n, l.sent)
		}
		return nil
	})
	o.frameToNode(t, "udp", lastLabel)
	carried := slices.DeleteFunc(l.listener.until(t, lastLabel), func(label string) bool { return label != lostLabel })
	if len(carried) != l.sent {
		t.Errorf("%d fragments were sent to the node's link, but the link carried %d:\n%s", l.sent, len(carried),
			strings.Join(l.listener.received, "\n"))
	}
}

var expired = regexp.MustCompile(`v4 frags expired: *(\d+)`)

// givenUp returns how many fragments n1's datapath has expired.
func givenUp(t *testing.T) int {
	t.Helper()
	text := bed.mustExec(t, "n1", "sh", "-c", "ovs-appctl --timeout=10 -t "+lab.SwitchControl+" dpctl/ipf-get-status")
	found := expired.FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("the datapath reports no expired fragments: %s", text)
	}
	n, err := strconv.Atoi(found[1])
	must(t, err)
	return n
}
