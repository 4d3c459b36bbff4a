package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
)

// vswitchd answers like the control socket of ovs-vswitchd.
type vswitchd struct {
	mu      sync.Mutex
	answer  func(command string) (result, refusal string)
	calls   []string
	runDir  string
	gateway *Gateway
	waits   []time.Duration // of Gateway.After
}

func startVswitchd(t *testing.T, answer func(command string) (result, refusal string)) *vswitchd {
	t.Helper()
	dir, err := os.MkdirTemp("", "weft-flush-") // a unix socket's path has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	v := &vswitchd{answer: answer, runDir: dir}
	listener, err := net.Listen("unix", filepath.Join(dir, "ovs-vswitchd.7.ctl"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	if err := os.WriteFile(filepath.Join(dir, "ovs-vswitchd.pid"), []byte("7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go v.serve(conn)
		}
	}()
	v.gateway = &Gateway{outside: newOutside(dir), Services: &Services{},
		After: func(wait time.Duration) { v.waits = append(v.waits, wait) }}
	return v
}

func (v *vswitchd) serve(conn net.Conn) {
	defer conn.Close()
	in, out := json.NewDecoder(conn), json.NewEncoder(conn)
	for {
		var request struct {
			ID     any
			Method string
			Params []string
		}
		if in.Decode(&request) != nil {
			return
		}
		call := strings.Join(append([]string{request.Method}, request.Params...), " ")
		v.mu.Lock()
		v.calls = append(v.calls, call)
		result, refusal := v.answer(call)
		v.mu.Unlock()
		reply := map[string]any{"id": request.ID, "result": result, "error": nil}
		if refusal != "" {
			reply["result"], reply["error"] = nil, refusal
		}
		if out.Encode(reply) != nil {
			return
		}
	}
}

// flushes returns the calls that remove entries, and forgets all calls.
func (v *vswitchd) flushes() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	found := slices.DeleteFunc(v.calls, func(call string) bool { return !strings.HasPrefix(call, flushCommand) })
	v.calls = nil
	return found
}

const present = "The available commands are:\n  dpctl/flush-conntrack   [dp] [zone=N] [ct-orig-tuple] [ct-reply-tuple]\n  list-commands\n"

// moved is a UDP endpoint that is gone.
var moved = desired.Stale{To: netip.MustParseAddrPort("10.96.0.7:53"), By: netip.MustParseAddrPort("10.244.0.5:53")}

// A removal that fails names its entries, and is repeated until it succeeds.
func TestAFailedFlushIsRepeated(t *testing.T) {
	broken := "failed to flush conntrack (Device or resource busy)"
	v := startVswitchd(t, func(call string) (string, string) {
		if strings.HasPrefix(call, flushCommand) {
			return "", broken
		}
		return present, ""
	})
	v.gateway.Services.stale.add([]desired.Stale{moved})
	for range 2 {
		err := v.gateway.removeStale(t.Context())
		for _, word := range []string{"10.96.0.7:53", "10.244.0.5:53", "Device or resource busy"} {
			if err == nil || !strings.Contains(err.Error(), word) {
				t.Errorf("the error %v does not have %q", err, word)
			}
		}
	}
	if calls := v.flushes(); len(calls) != 2 {
		t.Errorf("calls are %v", calls)
	}
	v.mu.Lock()
	broken = ""
	v.mu.Unlock()
	if err := v.gateway.removeStale(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"dpctl/flush-conntrack system@ovs-system ct_nw_proto=17,ct_nw_dst=10.96.0.7,ct_tp_dst=53 " +
		"ct_nw_proto=17,ct_nw_src=10.244.0.5,ct_tp_src=53"}
	if calls := v.flushes(); !slices.Equal(calls, want) {
		t.Errorf("calls are %v, want %v", calls, want)
	}
	if due := v.gateway.Services.stale.due(time.Now()); len(due) > 0 {
		t.Errorf("%v is due at once after a success", due)
	}
}

// ovs-vswitchd before version 3.1 removes an entry only by its zone and whole tuple.
func TestAnOldSwitchFlushesWholeEntries(t *testing.T) {
	list := strings.Join([]string{
		"tcp,orig=(src=10.244.0.9,dst=10.96.0.7,sport=4000,dport=53),reply=(src=10.244.0.5,dst=10.244.0.9,sport=53,dport=4000),zone=3",
		"udp,orig=(src=10.244.0.9,dst=10.96.0.7,sport=4000,dport=53),reply=(src=10.244.0.5,dst=10.244.0.9,sport=53,dport=4000),zone=3,mark=2",
		"udp,orig=(src=10.244.0.9,dst=10.96.0.7,sport=4001,dport=53),reply=(src=10.244.0.6,dst=10.244.0.9,sport=53,dport=4001),zone=3",
		"udp,orig=(src=10.244.0.8,dst=10.96.0.7,sport=4000,dport=53),reply=(src=10.244.0.5,dst=10.244.0.8,sport=53,dport=4000)",
		"udp,orig=(src=fd00::9,dst=fd00:96::7,sport=4000,dport=53),reply=(src=fd00::5,dst=fd00::9,sport=53,dport=4000),zone=5",
		"icmp,orig=(src=10.244.0.9,dst=10.244.0.5,id=1,type=8,code=0),reply=(src=10.244.0.5,dst=10.244.0.9,id=1,type=0,code=0),zone=3",
	}, "\n")
	v := startVswitchd(t, func(call string) (string, string) {
		words := strings.Fields(call)
		switch {
		case words[0] == "list-commands":
			return "The available commands are:\n  dpctl/flush-conntrack   [dp] [zone=N] [ct-tuple]\n", ""
		case words[0] == "dpctl/dump-conntrack":
			return list, ""
		case len(words) > 4:
			return "", `"dpctl/flush-conntrack" command takes at most 3 arguments`
		case !strings.Contains(call, "zone=") || !strings.Contains(call, "ct_tp_src"):
			return "", "ct-tuple: incomplete"
		case strings.Contains(call, "zone=0"):
			return "", "failed to flush conntrack (No such file or directory)"
		}
		return "", ""
	})
	v6 := desired.Stale{Zone: 5, To: netip.MustParseAddrPort("[::]:53")}
	v.gateway.Services.stale.add([]desired.Stale{moved, v6})
	if err := v.gateway.removeStale(t.Context()); err != nil {
		t.Fatal(err)
	}
	var whole []string
	for _, call := range v.flushes() {
		if tuple, ok := strings.CutPrefix(call, "dpctl/flush-conntrack system@ovs-system zone="); ok && strings.Contains(tuple, "ct_tp_src") &&
			strings.Contains(tuple, "ct_tp_dst") {
			whole = append(whole, "zone="+tuple)
		}
	}
	slices.Sort(whole)
	want := []string{"zone=0 ct_nw_proto=17,ct_nw_src=10.244.0.8,ct_nw_dst=10.96.0.7,ct_tp_src=4000,ct_tp_dst=53",
		"zone=3 ct_nw_proto=17,ct_nw_src=10.244.0.9,ct_nw_dst=10.96.0.7,ct_tp_src=4000,ct_tp_dst=53",
		"zone=5 ct_nw_proto=17,ct_ipv6_src=fd00::9,ct_ipv6_dst=fd00:96::7,ct_tp_src=4000,ct_tp_dst=53"}
	if !slices.Equal(whole, want) {
		t.Errorf("calls are %v,\nwant %v", whole, want)
	}
	if due := v.gateway.Services.stale.due(time.Now()); len(due) > 0 {
		t.Errorf("%v is due at once after a success", due)
	}
}

// One reconciliation removes few entries on an old switch. The entries that remain need no further list.
func TestAnOldSwitchRemovesManyEntriesInSeveralPasses(t *testing.T) {
	const count = 2*mostRemovals + 1
	var list strings.Builder
	for port := range count {
		fmt.Fprintf(&list, "udp,orig=(src=192.0.2.9,dst=192.0.2.1,sport=%[1]d,dport=30053),"+
			"reply=(src=10.244.0.5,dst=192.0.2.9,sport=53,dport=%[1]d),zone=64000\n", 10000+port)
	}
	var lists []string
	v := startVswitchd(t, func(call string) (string, string) {
		switch {
		case call == "list-commands":
			return "The available commands are:\n  dpctl/flush-conntrack   [dp] [zone=N] [ct-tuple]\n", ""
		case strings.HasPrefix(call, "dpctl/dump-conntrack"):
			lists = append(lists, call)
			return list.String(), ""
		case !strings.Contains(call, "ct_tp_src") || !strings.Contains(call, "ct_tp_dst"):
			return "", "ct-tuple: incomplete"
		}
		return "", ""
	})
	at := netip.MustParseAddrPort("192.0.2.1:30053")
	v.gateway.Services.stale.add([]desired.Stale{{Zone: 64000, To: at}, {Zone: 64000, From: at}})
	seen := map[string]bool{}
	for _, want := range []int{mostRemovals, mostRemovals, 1} {
		if due := v.gateway.Services.stale.due(time.Now()); len(due) != 2 {
			t.Errorf("%v is due before all entries are removed", due)
		}
		v.waits = nil
		if err := v.gateway.removeStale(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := len(seen)
		for _, call := range v.flushes() {
			if strings.Contains(call, "ct_tp_src") && strings.Contains(call, "ct_tp_dst") {
				seen[call] = true
			}
		}
		if len(seen)-before != want {
			t.Errorf("a pass removed %d entries, want %d", len(seen)-before, want)
		}
		if len(v.waits) != 1 || v.waits[0] < 100*time.Millisecond || v.waits[0] > time.Second {
			t.Errorf("the next pass is after %v", v.waits)
		}
	}
	if due := v.gateway.Services.stale.due(time.Now()); len(due) > 0 {
		t.Errorf("%v is due at once after a success", due)
	}
	if want := []string{"dpctl/dump-conntrack system@ovs-system zone=64000"}; !slices.Equal(lists, want) {
		t.Errorf("lists are %v, want %v", lists, want)
	}
}

// An error of the host, such as a failed removal, is reported and retried also while the node waits for something else.
func TestAnErrorOfTheHostIsReportedWhateverElseWaits(t *testing.T) {
	failed, waits := errors.New("clients may still reach former endpoints"), errors.New("no patch")
	for _, reason := range []string{networkv1alpha1.ReasonWaitingForTopology, networkv1alpha1.ReasonDatabaseUnavailable} {
		var next []time.Duration
		gateway := &Gateway{After: func(wait time.Duration) { next = append(next, wait) }}
		stage := desired.Stage{Reason: reason, Err: waits}
		gateway.addHostError(&stage, nil)
		if !errors.Is(stage.Err, waits) || len(next) != 0 {
			t.Errorf("without an error: %v, after %v", stage.Err, next)
		}
		gateway.addHostError(&stage, failed)
		if stage.Reason != reason || !errors.Is(stage.Err, failed) || !errors.Is(stage.Err, waits) || len(next) != 1 {
			t.Errorf("%s became %s: %v, after %v", reason, stage.Reason, stage.Err, next)
		}
	}
	var stage desired.Stage
	(&Gateway{}).addHostError(&stage, failed)
	if stage.Reason != networkv1alpha1.ReasonHostError || !errors.Is(stage.Err, failed) {
		t.Errorf("a good stage became %s, %v", stage.Reason, stage.Err)
	}
}
