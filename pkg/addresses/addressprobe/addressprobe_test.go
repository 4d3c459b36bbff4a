package addressprobe_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/addressprobe"
)

var (
	start   = time.Unix(1_000_000, 0)
	address = netip.MustParseAddr("192.0.2.77")
)

const foreign = "0a:00:00:00:00:77"

// cluster has the nodes n1, n2 and so on, whose MACs end with their numbers.
type cluster struct {
	nodes    []corev1.Node
	networks []networkv1alpha1.NodeNetwork
}

func nodes(n int) *cluster {
	c := &cluster{}
	for i := 1; i <= n; i++ {
		name := fmt.Sprint("n", i)
		node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		nn := networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: name}}
		nn.Status.Gateway = &networkv1alpha1.NodeGatewayStatus{ProbesAddresses: true,
			MACAddress: networkv1alpha1.MACAddress(fmt.Sprintf("02:00:00:00:00:%02x", i)),
			Addresses:  []networkv1alpha1.InterfaceAddress{networkv1alpha1.InterfaceAddress(fmt.Sprintf("192.0.2.%d/24", i))}}
		c.nodes, c.networks = append(c.nodes, node), append(c.networks, nn)
	}
	return c
}

func (c *cluster) read() addressprobe.Nodes { return addressprobe.Read(c.nodes, c.networks) }

// request makes the nodes' requests as the operator does, and returns the node of each.
func (c *cluster) request(after time.Duration, wanted ...netip.Addr) (texts []string, again time.Duration) {
	of, again := c.read().Requests(wanted, start.Add(after))
	for i := range c.networks {
		nn := &c.networks[i]
		nn.Spec.ProbeAddresses = of[nn.Name]
		for _, p := range of[nn.Name] {
			text := nn.Name + " " + string(p.Address)
			if p.Expired {
				text += " expired"
			}
			texts = append(texts, text)
		}
	}
	return texts, again
}

// answer reports a result of the node n<i> for each of its requests.
func (c *cluster) answer(i int, mac, err string) {
	nn := &c.networks[i-1]
	nn.Status.Probed = nil
	for _, p := range nn.Spec.ProbeAddresses {
		nn.Status.Probed = append(nn.Status.Probed, networkv1alpha1.ProbedAddress{Address: p.Address, RequestedAt: p.RequestedAt,
			MACAddress: networkv1alpha1.MACAddress(mac), Error: err})
	}
}

func expect(t *testing.T, when string, c *cluster, want addressprobe.Verdict, wantMAC string) {
	t.Helper()
	v, mac := c.read().Of(address)
	if v != want || mac != wantMAC {
		t.Errorf("%s: verdict %d %q, want %d %q", when, v, mac, want, wantMAC)
	}
	if of := c.read().Foreign(); (len(of) > 0) != (want == addressprobe.Foreign) || of[address] != wantMAC {
		t.Errorf("%s: foreign hosts have %v", when, of)
	}
}

func expectRequests(t *testing.T, when string, have, want []string) {
	t.Helper()
	if !slices.Equal(have, want) {
		t.Errorf("%s: requests %v, want %v", when, have, want)
	}
}

// An address waits for the result of one node.
func TestResults(t *testing.T) {
	for name, c := range map[string]struct {
		mac, err string
		want     addressprobe.Verdict
		wantMAC  string
	}{
		"no host answers":       {want: addressprobe.Free},
		"a node answers":        {mac: "02:00:00:00:00:02", want: addressprobe.Free},
		"a foreign host does":   {mac: foreign, want: addressprobe.Foreign, wantMAC: foreign},
		"the node cannot probe": {err: "network is down", want: addressprobe.Waits},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := nodes(3)
			expect(t, "without a request", cluster, addressprobe.Waits, "")
			requests, again := cluster.request(0, address, address)
			expectRequests(t, "first", requests, []string{"n1 192.0.2.77"})
			if again != addressprobe.Patience {
				t.Errorf("again in %s", again)
			}
			expect(t, "with a request", cluster, addressprobe.Waits, "")
			cluster.answer(1, c.mac, c.err)
			expect(t, "with the result", cluster, c.want, c.wantMAC)
			requests, again = cluster.request(time.Second, address)
			want := []string{"n1 192.0.2.77"}
			if c.err != "" {
				want = append(want, "n2 192.0.2.77") // another node is tried
			}
			expectRequests(t, "then", requests, want)
			if (again > 0) != (c.err != "") {
				t.Errorf("again in %s", again)
			}
			if c.err != "" {
				cluster.answer(2, "", "network is down")
				expect(t, "when two nodes cannot probe", cluster, addressprobe.Free, "")
			}
			requests, _ = cluster.request(time.Second)
			expectRequests(t, "without a wanted address", requests, nil)
		})
	}
}

// A node that does not answer in time makes way for another one. After two nodes the address is given as without probes. A result that
// comes late counts.
func TestNodesThatDoNotAnswer(t *testing.T) {
	c := nodes(3)
	c.request(0, address)
	requests, again := c.request(addressprobe.Patience-time.Second, address)
	expectRequests(t, "in time", requests, []string{"n1 192.0.2.77"})
	if again != time.Second {
		t.Errorf("again in %s", again)
	}
	requests, _ = c.request(addressprobe.Patience, address)
	expectRequests(t, "late", requests, []string{"n1 192.0.2.77 expired", "n2 192.0.2.77"})
	expect(t, "late", c, addressprobe.Waits, "")
	requests, again = c.request(2*addressprobe.Patience, address)
	expectRequests(t, "too late", requests, []string{"n1 192.0.2.77 expired", "n2 192.0.2.77 expired"})
	expect(t, "too late", c, addressprobe.Free, "")
	if again != 0 {
		t.Errorf("again in %s", again)
	}
	c.answer(1, foreign, "")
	expect(t, "with a late result", c, addressprobe.Foreign, foreign)
}

// Without a node that can probe, no address waits.
func TestNodesThatCannotProbe(t *testing.T) {
	for name, change := range map[string]func(*cluster){
		"an old agent": func(c *cluster) { c.networks[0].Status.Gateway.ProbesAddresses = false },
		"not ready":    func(c *cluster) { c.nodes[0].Status.Conditions[0].Status = corev1.ConditionUnknown },
		"no gateway":   func(c *cluster) { c.networks[0].Status.Gateway = nil },
		"another segment": func(c *cluster) {
			c.networks[0].Status.Gateway.Addresses = []networkv1alpha1.InterfaceAddress{"198.51.100.1/24"}
		},
		"no node": func(c *cluster) { c.nodes = nil },
	} {
		t.Run(name, func(t *testing.T) {
			c := nodes(1)
			c.request(0, address)
			c.answer(1, foreign, "")
			change(c)
			if v, _ := c.read().Of(address); v != addressprobe.Free {
				t.Errorf("verdict %d", v)
			}
			if requests, _ := c.request(0, address); len(requests) > 0 {
				t.Errorf("requests %v", requests)
			}
		})
	}
}

// The result of an earlier request does not count, and a link besides the gateway's counts like it.
func TestWhatCounts(t *testing.T) {
	c := nodes(2)
	c.request(0, address)
	c.answer(1, "", "")
	c.request(0)
	c.request(time.Minute, address)
	expect(t, "an earlier request's result", c, addressprobe.Waits, "")
	c = nodes(2)
	c.networks[1].Status.Gateway.Addresses = []networkv1alpha1.InterfaceAddress{"198.51.100.2/24"}
	c.networks[1].Status.Gateway.FurtherLinks = []networkv1alpha1.NodeLink{{Name: "eth1", MACAddress: foreign,
		Addresses: []networkv1alpha1.InterfaceAddress{"203.0.113.2/24"}}}
	further := netip.MustParseAddr("203.0.113.77")
	requests, _ := c.request(0, address, further)
	expectRequests(t, "two segments", requests, []string{"n1 192.0.2.77", "n2 203.0.113.77"})
	c.answer(1, strings.ToUpper(foreign), "")
	expect(t, "the MAC of a node's further link", c, addressprobe.Free, "")
}

// Requests are spread over the nodes and stay where they are.
func TestSpread(t *testing.T) {
	c := nodes(2)
	var all []netip.Addr
	for i := range 6 {
		all = append(all, netip.AddrFrom4([4]byte{192, 0, 2, byte(100 + i)}))
	}
	before, _ := c.request(0, all...)
	slices.Reverse(all)
	after, _ := c.request(time.Second, all...)
	expectRequests(t, "in another order", after, before)
	if n := len(c.networks[0].Spec.ProbeAddresses); n != 3 {
		t.Errorf("n1 has %d of 6 requests", n)
	}
}
