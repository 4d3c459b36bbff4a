package trace

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// summary is what a test expects of an output.
type summary struct {
	Outputs    []Output
	Refusal    string
	Unresolved bool
	// Last is the datapath and stage of the last step, and Drops whether an ACL dropped the packet.
	Last  string
	Drops bool
	// Source and Destination are the addresses that translations gave.
	Source, Destination string
	// Backends are the backends in the load balancers' flows.
	Backends []string
}

func summarize(t Trace) summary {
	last := t.Steps[len(t.Steps)-1]
	s := summary{Outputs: t.Outputs, Refusal: t.Refusal, Unresolved: t.Unresolved, Last: last.Datapath + " " + last.Stage}
	s.Source, s.Destination = t.Seen()
	for _, step := range t.Steps {
		s.Drops = s.Drops || decides(step) && step.has(bitDrop)
		if list := backendsOf(step); list != "" {
			s.Backends = append(s.Backends, list)
		}
	}
	return s
}

// The files are outputs of OVN 25.03's ovn-trace for packets of TestQuestions (pkg/topology).
func TestParse(t *testing.T) {
	for file, want := range map[string]summary{
		"allowed-0":     {Outputs: []Output{{"demo_web", ""}}, Last: "n1 ls_out_apply_port_sec"},
		"allowed-1":     {Outputs: []Output{{"demo_client", ""}}, Last: "n1 ls_out_apply_port_sec"},
		"isolated-0":    {Last: "n1 ls_out_acl_action", Drops: true},
		"no-endpoint-0": {Refusal: "tcp_reset", Last: "worker-1 ls_in_lb"},
		"service-0": {Outputs: []Output{{"demo_web-1", ""}}, Last: "worker-2 ls_out_apply_port_sec",
			Backends: []string{"[fd00:10:244:1::3]:8080"}},
		"outside-0":       {Outputs: []Output{{"br-ex_shared", "localnet"}}, Last: "ext_shared ls_out_apply_port_sec", Source: "172.18.0.11"},
		"outside-1":       {Outputs: []Output{{"demo_web-0", ""}}, Last: "shared ls_out_apply_port_sec"},
		"egressip-drop-0": {Last: "ovn_cluster_router lr_in_policy"},
		"nodeport-0": {Outputs: []Output{{"demo_web-0", ""}}, Last: "w1 ls_out_apply_port_sec", Source: "100.64.0.2",
			Backends: []string{"10.244.0.3:8080"}},
		"local-drop-0": {Last: "ovn_cluster_router lr_in_ip_routing", Backends: []string{"169.254.169.4:1"}},
	} {
		text, err := os.ReadFile(filepath.Join("testdata", file+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Parse(string(text))
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if diff := cmp.Diff(want, summarize(got)); diff != "" {
			t.Errorf("%s differs (-want +got):\n%s", file, diff)
		}
	}
}

// The first trace of a packet whose next hop has no MAC contains the ARP request, which is not the packet.
func TestParseLeavesOutPacketsOfOVN(t *testing.T) {
	const text = `# tcp

ingress(dp="GR_w1", inport="rtoe-GR_w1")
----------------------------------------
21. lr_in_arp_resolve (northd.c:14069): reg9[9] == 1, priority 1, uuid c17d3e6a
    get_arp(outport, reg0);
    /* No MAC binding. */
    next;
25. lr_in_arp_request (northd.c:14906): eth.dst == 00:00:00:00:00:00 && reg9[9] == 1, priority 100, uuid 78c73093
    arp { eth.dst = ff:ff:ff:ff:ff:ff; output; };

    arp
    ---
            eth.dst = ff:ff:ff:ff:ff:ff;
            output;

        ingress(dp="join", inport="jtor-GR_w1")
        ---------------------------------------
         0. ls_in_check_port_sec (northd.c:5752): inport == "jtor-GR_w1", priority 70, uuid b9dfa894
            output;
            /* output to "somewhere", type "" */
    output;

egress(dp="GR_w1", inport="rtoe-GR_w1", outport="rtoj-GR_w1")
-------------------------------------------------------------
 6. lr_out_delivery (northd.c:14978): outport == "rtoj-GR_w1", priority 100, uuid 8df87c34
    output;
    /* output to "rtoj-GR_w1", type "l3gateway" */
`
	got, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var stages []string
	for _, s := range got.Steps {
		stages = append(stages, s.Datapath+" "+s.Stage)
	}
	want := []string{"GR_w1 lr_in_arp_resolve", "GR_w1 lr_in_arp_request", "GR_w1 lr_out_delivery"}
	if !slices.Equal(stages, want) || len(got.Outputs) > 0 || !got.Unresolved {
		t.Errorf("steps %q, outputs %v, unresolved %v", stages, got.Outputs, got.Unresolved)
	}
}

func TestParseRefusesOtherText(t *testing.T) {
	for _, text := range []string{"", "error parsing flow: Syntax error at `&&' expecting constant.\n"} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), "no flow") {
			t.Errorf("%q: error %v", text, err)
		}
	}
}
