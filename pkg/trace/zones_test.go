package trace

import (
	"context"
	"encoding/json"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// replay answers as the databases of a zone answered TestQuestionsInZones (pkg/topology), which records the files of testdata/zones
// with OVN 25.03.
type replay struct {
	t       *testing.T
	archive *txtar.Archive
	zone    networkv1alpha1.ZoneName
	asked   *[]string // the zone of each packet
}

// Run implements Tracer.
func (r replay) Run(_ context.Context, request Request) (answer Answer, err error) {
	for _, p := range request.Packets {
		text, err := json.Marshal(p)
		if err != nil {
			return answer, err
		}
		*r.asked = append(*r.asked, string(r.zone))
		answer.Traces = append(answer.Traces, r.traced(string(text)))
	}
	return answer, nil
}

// traced returns the recorded trace of a packet in this zone.
func (r replay) traced(packet string) (traced Traced) {
	r.t.Helper()
	for i, f := range r.archive.Files {
		name, isPacket := strings.CutSuffix(f.Name, " packet")
		number, zone, _ := strings.Cut(name, " ")
		if isPacket && zone == string(r.zone) && strings.TrimSpace(string(f.Data)) == packet {
			if err := json.Unmarshal(r.archive.Files[i+1].Data, &traced); err != nil {
				r.t.Fatal(number, err)
			}
			traced.Text = string(r.archive.Files[i+2].Data)
			return traced
		}
	}
	r.t.Fatalf("no packet of zone %q was recorded like %s", r.zone, packet)
	return traced
}

// twoZones are the nodes of the recorded questions: n1 outside zones, n3 in zone east.
func twoZones() World {
	w := twoNodes()
	w["n3"] = w["n2"]
	delete(w, "n2")
	for name, third := range map[string]string{"n1": "0", "n3": "2"} {
		n := w[name]
		n.Node.Name, n.Node.Chassis = name, "chassis-"+name
		n.Node.Subnets = []netip.Prefix{netip.MustParsePrefix("10.244." + third + ".0/24")}
		n.MAC = []byte{2, 0, 0, 0, 0, 1}
		w[name] = n
	}
	n3 := w["n3"]
	n3.Node.Zone = "east"
	w["n3"] = n3
	return w
}

func podAt(name, node, address string) End {
	return End{Kind: Pod, Namespace: "demo", Name: name, Node: node, Addresses: []netip.Addr{netip.MustParseAddr(address)}}
}

// askReplay traces a question through a recording. away is a zone whose databases have no pod.
func askReplay(t *testing.T, file, away string, q Question) (f Finding, asked []string) {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("testdata", "zones", file+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	zones := Zones(func(_ context.Context, zone networkv1alpha1.ZoneName) (Tracer, error) {
		if string(zone) == away {
			return nil, unknown("no pod of the databases runs")
		}
		return replay{t, archive, zone, &asked}, nil
	})
	found, err := twoZones().Trace(t.Context(), zones, true, q)
	if err != nil {
		t.Fatal(err)
	}
	return found[0], asked
}

const none = "none" // no zone has this name

// said returns hops as text, with the zone of each.
func said(hops []Hop) (all []string) {
	for _, h := range hops {
		all = append(all, strings.TrimSpace(string(h.Zone)+" "+h.What))
	}
	return all
}

// Each packet is traced in the zone where it is, and continues in the next zone with the headers that it has there: the replay has only
// the recorded packets.
func TestPathsThroughTwoZones(t *testing.T) {
	client, leaver := podAt("client", "n1", "10.244.0.3"), podAt("leaver", "n1", "10.244.0.5")
	for _, test := range []struct {
		file       string
		q          Question
		verdict    string
		way, reply []string
		zones      []string
	}{
		{"delivered", Question{From: client, To: podAt("web", "n3", "10.244.2.3"), Protocol: TCP, Port: 8080}, "allowed",
			[]string{"from demo/client on node n1", "east to node n3 of zone east, through the tunnel between the nodes",
				"east delivered to pod demo/web"},
			[]string{"to node n1 of the default zone, through the tunnel between the nodes", "delivered to pod demo/client"},
			[]string{"", "east", "east", ""}},
		{"denied", Question{From: client, To: podAt("guarded", "n3", "10.244.2.4"), Protocol: TCP, Port: 8080},
			"dropped by NetworkPolicy demo/guard, which isolates guarded for ingress; no rule allows client TCP port 8080",
			[]string{"from demo/client on node n1", "east to node n3 of zone east, through the tunnel between the nodes",
				"east NetworkPolicy demo/guard denies it by ingress isolation"}, nil, []string{"", "east"}},
		{"egressip", Question{From: leaver, To: OutsideEnd(netip.MustParseAddr("192.0.2.1")), Protocol: TCP, Port: 80}, "allowed",
			[]string{"from demo/leaver on node n1", "EgressIP by-east sends it to the node that carries its address",
				"east to node n3 of zone east, through the tunnel between the nodes",
				"east EgressIP by-east sends it to the node that carries its address", "east gateway of node n3",
				"east source becomes 172.18.0.100 (EgressIP by-east)",
				"east the MAC of the next hop is not known yet: OVN resolves it before it sends",
				"east delivered to the network outside, by bridge and node br-ex_n3"},
			[]string{"east gateway of node n3", "to node n1 of the default zone, through the tunnel between the nodes",
				"delivered to pod demo/leaver"}, []string{"", "east", "east", ""}},
	} {
		f, zones := askReplay(t, test.file, none, test.q)
		if f.Verdict.Line() != test.verdict {
			t.Errorf("%s: verdict %q, want %q", test.file, f.Verdict.Line(), test.verdict)
		}
		for what, diff := range map[string]string{"way": cmp.Diff(test.way, said(f.Hops)), "reply": cmp.Diff(test.reply, said(f.Reply)),
			"zones": cmp.Diff(test.zones, zones)} {
			if diff != "" {
				t.Errorf("%s: %s differs (-want +got):\n%s", test.file, what, diff)
			}
		}
		if len(f.Text) != len(zones) {
			t.Errorf("%s: %d outputs of ovn-trace for %d packets", test.file, len(f.Text), len(zones))
		}
	}
}

// Without the databases of a zone, the verdict is unknown and names the zone and the node where the path becomes unknown. The hops
// before are part of the answer.
func TestDatabasesAway(t *testing.T) {
	client, web := podAt("client", "n1", "10.244.0.3"), podAt("web", "n3", "10.244.2.3")
	for _, test := range []struct {
		away     string
		from, to End
		why      string
		way      []string
	}{
		{"east", client, web, "the packet reaches node n3 of zone east: no pod of the databases runs",
			[]string{"from demo/client on node n1", "east to node n3 of zone east, through the tunnel between the nodes"}},
		{"", client, web, "the packet enters at node n1 of the default zone: no pod of the databases runs", nil},
		{"east", web, client, "the packet enters at node n3 of zone east: no pod of the databases runs", nil},
	} {
		f, _ := askReplay(t, "delivered", test.away, Question{From: test.from, To: test.to, Protocol: TCP, Port: 8080})
		if f.Verdict.Result != Unknown || f.Verdict.Why != test.why {
			t.Errorf("verdict %+v, want %q", f.Verdict, test.why)
		}
		if got := said(f.Hops); !slices.Equal(got, test.way) {
			t.Errorf("way %q, want %q", got, test.way)
		}
	}
}

// A node whose zone is not that of the databases is about to change its zone.
func TestNodeThatChangesItsZone(t *testing.T) {
	w := twoZones()
	n3 := w["n3"]
	n3.Node.Zone = ""
	w["n3"] = n3
	_, err := w.onward(Packet{Node: "n1"}, Trace{}, "n3")
	if err == nil || err.Error() != "its databases have node n3 in another zone, so the node is about to change its zone" {
		t.Errorf("error %v", err)
	}
	if _, err := w.onward(Packet{Node: "n1"}, Trace{}, "n9"); err == nil || !strings.Contains(err.Error(), "n9") {
		t.Errorf("error %v", err)
	}
}

// The headers of a packet have the values of the last actions and translations.
func TestHeadersAfterATrace(t *testing.T) {
	p := Packet{Source: netip.MustParseAddr("10.244.0.3"), Destination: netip.MustParseAddr("10.96.0.10"), DestinationPort: 80,
		Backend: "10.244.2.3:8080"}
	got, err := p.after(Trace{Steps: []Step{
		{Actions: []string{"ct_lb_mark(backends=10.244.2.3:8080,10.244.2.4:8080);"}},
		{Actions: []string{"ip.ttl--;", "eth.src = 0a:58:0a:f4:00:01;", "reg0 = ip4.dst;", "eth.dst = eth.src;"}},
		{Actions: []string{"/* MAC binding to 0a:58:64:58:00:13. */"}, Translated: "100.64.0.2", Source: true},
		{Actions: []string{"ip.ttl--;", "ip4.dst = 10.244.2.9;"}},
	}})
	want := p
	want.TTL, want.SourceMAC, want.DestinationMAC = 62, "0a:58:0a:f4:00:01", "0a:58:64:58:00:13"
	want.Source, want.Destination, want.DestinationPort = netip.MustParseAddr("100.64.0.2"), netip.MustParseAddr("10.244.2.9"), 8080
	if err != nil || got != want {
		t.Errorf("packet %+v, error %v; want %+v", got, err, want)
	}
	p.Backend = ""
	if _, err := p.after(Trace{Steps: []Step{{Actions: []string{"ct_lb_mark(backends=10.0.0.1:1,10.0.0.2:1);"}}}}); err == nil {
		t.Error("the choice of a load balancer is not known, and the packet is")
	}
}
