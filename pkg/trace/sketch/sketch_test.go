package sketch

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/trace"
)

var update = flag.Bool("update", false, "write the goldens")

func addresses(all ...string) (parsed []netip.Addr) {
	for _, a := range all {
		parsed = append(parsed, netip.MustParseAddr(a))
	}
	return parsed
}

func node(name, number, chassis string) facts.Gateway {
	n := facts.Gateway{Mode: networkv1alpha1.GatewayShared, Bridge: "br-ex", NextHops: addresses("172.18.0.1"),
		Addresses: []netip.Prefix{netip.MustParsePrefix("172.18.0.1" + number + "/24")}}
	n.Node.Name, n.Node.Chassis = name, chassis
	n.Node.Subnets = []netip.Prefix{netip.MustParsePrefix("10.244." + number + ".0/24"),
		netip.MustParsePrefix("fd00:10:244:" + number + "::/64")}
	return n
}

// cluster has two nodes, one of which has not reported, pods, one in the host's network, and a service with an
// endpoint outside and an endpoint that is not ready.
func cluster() Input {
	web := trace.End{Kind: trace.Pod, Namespace: "demo", Name: "web-0", Node: "n1", Addresses: addresses("10.244.1.3", "fd00:10:244:1::3")}
	late := trace.End{Kind: trace.Pod, Namespace: "demo", Name: "web-1", Node: "n1", Addresses: addresses("10.244.1.4")}
	onHost := trace.End{Kind: trace.Pod, Namespace: "weft-system", Name: "weft-agent", Node: "n1", OnHost: true,
		Addresses: addresses("172.18.0.11")}
	other := trace.End{Kind: trace.Pod, Namespace: "demo", Name: `<"client">`, Node: "n2", Addresses: addresses("10.244.2.3")}
	b := &trace.Balanced{Pods: map[netip.Addr]trace.Endpoint{
		web.Addresses[0]:           {Namespace: "demo", Pod: "web-0", Node: "n1", Ready: true},
		late.Addresses[0]:          {Namespace: "demo", Pod: "web-1", Node: "n1"},
		addresses("192.0.2.77")[0]: {Ready: true}}}
	b.Ports = []facts.ServicePort{{Protocol: corev1.ProtocolTCP, Number: 80, Backends: []facts.Backend{
		{AddrPort: netip.MustParseAddrPort("10.244.1.3:8080")}, {AddrPort: netip.MustParseAddrPort("192.0.2.77:8080")}}}}
	service := trace.End{Kind: trace.Service, Namespace: "demo", Name: "web", Addresses: addresses("10.96.0.10"), Balanced: b}
	return Input{Nodes: trace.World{"n1": node("n1", "1", "chassis-1"), "n2": node("n2", "2", "")},
		Pods: []trace.End{late, other, onHost, web}, Services: []trace.End{service}}
}

func TestGoldens(t *testing.T) {
	for name, in := range map[string]Input{
		"cluster": cluster(),
		"node":    cluster().Around(trace.End{Kind: trace.Node, Name: "n2"}),
		"pod":     cluster().Around(cluster().Pods[3]),
		"service": cluster().Around(cluster().Services[0]),
		"empty":   {},
	} {
		g := Draw(in)
		for ending, got := range map[string]string{"txt": g.Text(), "dot": g.DOT(), "mmd": g.Mermaid(), "svg": g.SVG()} {
			golden(t, name+"."+ending, got)
		}
	}
}

// golden compares a picture with its file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || string(want) != got {
		t.Errorf("%s: error %v; go test -update writes it. Got\n%s", path, err, got)
	}
}

// ways are a packet that is dropped, with a name that is markup, and a packet that passes with its reply.
func ways() []Way {
	policy := trace.Object{Kind: "NetworkPolicy", Namespace: "demo", Name: "deny-all"}
	service := trace.Object{Kind: "Service", Namespace: "demo", Name: "web"}
	return []Way{
		{Title: `IPv4 TCP demo/client -> <"web"> port 8080`,
			Verdict: trace.Verdict{Result: trace.Dropped, By: policy,
				Why: "NetworkPolicy demo/deny-all, which isolates web-1 for ingress; " +
					"no rule allows client-1 port 8080"},
			Hops: []trace.Hop{{What: "from demo/client on node n1"},
				{Where: "n2", What: "switch of node n2, through the tunnel between the nodes"},
				{Where: "n2", What: "NetworkPolicy demo/deny-all denies it by ingress isolation", By: policy}}},
		{Title: "IPv6 TCP outside -> Service demo/web port 80", Verdict: trace.Verdict{Result: trace.Allowed},
			Hops: []trace.Hop{{What: "from 2001:db8::1 by node n1"},
				{Where: "GR_n1", What: "Service demo/web: backend [fd00::3]:8080", By: service},
				{Where: "GR_n1", What: "source becomes fd69::2"}, {What: "delivered to pod demo/web-1"}},
			Reply: []trace.Hop{{Where: "GR_n1", What: "gateway of node n1, through the tunnel between the nodes"},
				{What: "delivered to the network outside, by bridge and node br-ex_n1"}}},
		{Title: "IPv6 UDP demo/client -> 2001:db8::1", Verdict: trace.Verdict{Result: trace.Unknown, Why: "the host decides"}},
	}
}

// A page allows its own script and style, and has nothing that leads outside.
func TestHTMLRefersToNothingOutside(t *testing.T) {
	page := Draw(cluster()).HTML()
	for _, want := range []string{"<!doctype html>", "default-src 'none'; style-src 'sha256-", "script-src 'sha256-",
		`data-object="node/n1"`, "&lt;&#34;client&#34;&gt;"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, unwanted := range []string{"{{", " src=", " href=", `url("http`, "@import", `<"client">`} {
		if strings.Contains(page, unwanted) {
			t.Errorf("the page has %q", unwanted)
		}
	}
}

func TestOverview(t *testing.T) {
	golden(t, "overview.txt", Overview(cluster()).Text())
	golden(t, "overview.svg", Overview(cluster()).SVG())
}

func TestWays(t *testing.T) {
	golden(t, "ways.dot", WaysDOT(ways()))
	golden(t, "ways.svg", WaysSVG(ways()))
	golden(t, "no-ways.dot", WaysDOT(nil))
	golden(t, "no-ways.svg", WaysSVG(nil))
}

// Names from the cluster do not break out of the picture's markup.
func TestSVGIsXML(t *testing.T) {
	for _, picture := range []string{Draw(cluster()).SVG(), WaysSVG(ways())} {
		decoder := xml.NewDecoder(strings.NewReader(picture))
		for {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
}
