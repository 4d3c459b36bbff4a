package tracer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/wire"
)

// relay is an OVSDB server for one ovn-trace. It passes everything on to the southbound database, and completes the
// flows that come back.
type relay struct {
	listener net.Listener
	southbound
	filling
	narrowing

	mu     sync.Mutex
	passed [][]byte // messages with flows
	all    sync.WaitGroup
}

// filling is the node's state that the relay fills into flows.
type filling struct {
	variables map[string]string // template variable -> value on the packet's chassis
	backend   string            // that load balancers choose
	restore   netip.Addr        // that conntrack restores
	hairpin   netip.Addr        // that the sender has as its own backend; invalid for other backends
	hiding    []string          // routers that hide the client of a load balancer
	resolved  string            // MAC of next hops that OVN would have to resolve; empty to leave them unresolved
}

// southbound is the path of the southbound database's socket.
type southbound string

// newRelay listens on a socket in dir.
func newRelay(dir string, of southbound, f filling, n narrowing) (*relay, error) {
	listener, err := net.Listen("unix", filepath.Join(dir, "sb"))
	if err != nil {
		return nil, fmt.Errorf("cannot listen for ovn-trace: %w", err)
	}
	r := &relay{listener: listener, southbound: of, filling: f, narrowing: n}
	r.all.Go(r.serve)
	return r, nil
}

// remote is the relay's OVSDB remote.
func (r *relay) remote() string { return "unix:" + r.listener.Addr().String() }

// close ends the relay, after the end of ovn-trace.
func (r *relay) close() {
	r.listener.Close()
	r.all.Wait()
}

func (r *relay) serve() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return // closed
		}
		r.all.Go(func() { r.pass(client) })
	}
}

// pass connects a client with the database until one of them ends. ovn-trace reports a lost connection itself.
func (r *relay) pass(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("unix", string(r.southbound))
	if err != nil {
		return
	}
	defer server.Close()
	r.all.Go(func() {
		copyMessages(server, client, r.request)
		server.Close()
	})
	copyMessages(client, server, r.complete)
}

// copyMessages passes changed messages on until one side ends.
func copyMessages(to io.Writer, from io.Reader, change func([]byte) []byte) {
	decoder := json.NewDecoder(from)
	for {
		var message json.RawMessage
		if err := decoder.Decode(&message); err != nil {
			return
		}
		if _, err := to.Write(change(message)); err != nil {
			return
		}
	}
}

var (
	variable = regexp.MustCompile(`\^\w+`)
	backends = regexp.MustCompile(`backends=[^;)"\\]+`)
	hairpins = regexp.MustCompile(`chk_lb_hairpin(_reply)?\(\);`)
	// learns is the action that remembers a client's backend and drops the packet.
	learns = regexp.MustCompile(`commit_lb_aff\([^)]*\); /\* drop \*/`)
	// unsnat is the action of a gateway router that restores the address of a translated source, and resolve are the actions that
	// look a MAC up.
	unsnat  = []byte(`"actions":"ct_snat;"`)
	resolve = [][]byte{[]byte("get_arp(outport, reg0);"), []byte("get_nd(outport, xxreg0);")}
	// hairpinSNAT gives a packet that returns to its sender another source.
	hairpinSNAT = []byte("ct_snat_to_vip;")
)

// familyOf returns the prefix of an address's fields in OVN's expressions.
func familyOf(a netip.Addr) string { return map[bool]string{true: "ip4", false: "ip6"}[a.Is4()] }

// complete fills in the node's state.
func (r *relay) complete(message []byte) []byte {
	if !bytes.Contains(message, []byte(`"Logical_Flow"`)) {
		return message
	}
	message = r.fill(r.reply(message))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.passed = append(r.passed, message)
	return message
}

// fill replaces the texts in flows.
func (f filling) fill(message []byte) []byte {
	message = variable.ReplaceAllFunc(message, func(word []byte) []byte {
		if value, ok := f.variables[string(word[1:])]; ok {
			return []byte(value)
		}
		return word
	})
	if f.backend != "" {
		message = backends.ReplaceAllFunc(message, func(list []byte) []byte {
			if slices.Contains(strings.Split(string(list[len("backends="):]), ","), f.backend) {
				return []byte("backends=" + f.backend)
			}
			return list
		})
	}
	message = learns.ReplaceAll(message, []byte("next;"))
	restored := "next;"
	if f.restore.IsValid() {
		restored = familyOf(f.restore) + ".dst = " + f.restore.String() + "; next;"
	}
	message = bytes.ReplaceAll(message, unsnat, []byte(`"actions":"`+restored+`"`))
	if f.hairpin.IsValid() {
		message = hairpins.ReplaceAll(message, []byte("1;"))
		message = bytes.ReplaceAll(message, hairpinSNAT, []byte(familyOf(f.hairpin)+".src = "+f.hairpin.String()+";"))
	}
	for _, router := range f.hiding {
		for _, port := range []string{names.RouterToJoin(router), names.RouterToExternal(router)} {
			for _, family := range []string{"ip4", "ip6"} {
				match := family + ` && outport == \"` + port + `\"`
				message = bytes.ReplaceAll(message, []byte("flags.force_snat_for_lb == 1 && "+match), []byte(match))
			}
		}
	}
	if f.resolved != "" {
		for _, action := range resolve {
			message = bytes.ReplaceAll(message, action, []byte("eth.dst = "+f.resolved+";"))
		}
	}
	return message
}

// hint returns the start of the UUID of the northbound row behind a flow, by the start of the flow's own. It is empty
// for flows without one.
func (r *relay) hint(flow string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, message := range r.passed {
		for rest := message; ; {
			at := bytes.Index(rest, []byte(`"`+flow+"-"))
			if at < 0 {
				break
			}
			rest = rest[at:]
			const quoted = len(`"5a11c9e8-0000-0000-0000-000000000000"`)
			if len(rest) > quoted && rest[quoted] == ':' { // a row, and not a reference to one
				return hintIn(rest[quoted+1:])
			}
			rest = rest[1:]
		}
	}
	return "", fmt.Errorf("ovn-trace named flow %s, which the southbound database did not send", flow)
}

// hintIn reads the hint in a row of an update.
func hintIn(text []byte) (string, error) {
	var update map[string]wire.Row
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&update); err != nil {
		return "", fmt.Errorf("cannot parse a logical flow: %w", err)
	}
	for _, row := range update {
		return row.Pairs("external_ids")["stage-hint"], nil
	}
	return "", nil
}
