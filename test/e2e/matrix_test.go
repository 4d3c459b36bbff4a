//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/weft-network/weft/test/lab/tools"
	"github.com/weft-network/weft/test/poll"
)

// whoPort is the port where the peer reports its name and the caller's address.
const whoPort = 7001

// cell is one element of a matrix: a call, what Kubernetes guarantees for it, and its outcome.
type cell struct {
	Mode     string `json:"mode,omitempty"` // of the gateway
	Uplink   string `json:"uplink,omitempty"`
	From     string `json:"from"`
	Relation string `json:"relation"`         // between caller and server
	Address  string `json:"address"`          // the kind of the called address
	Policy   string `json:"policy,omitempty"` // Cluster or Local: the internal policy for a cluster IP, else the external policy
	Protocol string `json:"protocol"`
	Family   string `json:"family"`
	To       string `json:"to"`
	promise
	Seen  []netip.Addr `json:"seen,omitempty"` // the caller's addresses as the servers saw them
	OK    bool         `json:"ok"`
	Error string       `json:"error,omitempty"`

	caller caller
	to     netip.AddrPort
}

// promise is the guaranteed outcome of a cell's calls.
type promise struct {
	Servers []string `json:"servers"` // each must answer some of the calls; empty: the service must be unreachable
	Source  source   `json:"source"`  // the caller's address as the servers see it
}

// source is the set of addresses under which a server may see a caller.
type source struct {
	Name      string
	Addresses []netip.Addr // at least one of the cell's family
}

func (s source) MarshalText() ([]byte, error) { return []byte(s.Name), nil }

// caller is a pod or a machine that makes calls.
type caller struct {
	name    string
	command func(ctx context.Context, argv ...string) (*exec.Cmd, error) // runs the peer program there
}

func (b *testbed) podCaller(p *corev1.Pod) caller {
	return caller{p.Name, func(ctx context.Context, argv ...string) (*exec.Cmd, error) {
		argv = append([]string{"-n", p.Namespace, "exec", "-i", p.Name, "--", peerPath}, argv...)
		return b.KubectlCommand(ctx, argv...), nil
	}}
}

func (b *testbed) hostCaller(machine string) caller {
	return caller{"host " + machine, func(ctx context.Context, argv ...string) (*exec.Cmd, error) {
		return b.Command(ctx, machine, append([]string{filepath.Join(b.peerDir, "peer")}, argv...)...)
	}}
}

// run runs the peer program at the caller.
func (c caller) run(ctx context.Context, input []byte, argv ...string) ([]byte, error) {
	cmd, err := c.command(ctx, argv...)
	if err != nil {
		return nil, err
	}
	var complaint bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), &complaint
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("%s: peer %s: %w: %s", c.name, strings.Join(argv, " "), err, complaint.String())
	}
	return out, nil
}

// runJSON runs the peer program at the caller and decodes the document that it prints.
func runJSON[T any](ctx context.Context, c caller, argv ...string) (document T, err error) {
	out, err := c.run(ctx, nil, argv...)
	if err != nil {
		return document, err
	}
	return document, json.Unmarshal(out, &document)
}

// called is the peer's output for one call.
type called struct {
	Server, Client, Error string
	Refused               bool
}

// calls are several calls to one address, in the peer's input format.
type calls struct {
	Protocol string `json:"protocol"`
	To       string `json:"to"`
	Count    int    `json:"count"`
	Stop     bool   `json:"stop"` // after the first failed call
}

// callAll makes all calls of one caller in one process.
func (c caller) callAll(ctx context.Context, wanted []calls) (became [][]called, err error) {
	input, err := json.Marshal(wanted)
	if err != nil {
		return nil, err
	}
	out, err := c.run(ctx, input, "call-all")
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(out, &became); err != nil {
		return nil, err
	}
	if len(became) != len(wanted) {
		return nil, fmt.Errorf("%s: %d results for %d calls", c.name, len(became), len(wanted))
	}
	return became, nil
}

// matrix is a table of cells that are tried together.
type matrix struct {
	mode, uplink string
	cells        []*cell
}

// add makes a caller call addresses over both protocols; port returns the number for each.
func (m *matrix) add(from caller, relation, address, policy string, to []netip.Addr, port func(protocol string) uint16, p promise) {
	if len(p.Servers) == 0 {
		p = promise{Servers: []string{}}
	}
	for _, a := range to {
		for _, protocol := range []string{"tcp", "udp"} {
			c := &cell{Mode: m.mode, Uplink: m.uplink, From: from.name, Relation: relation, Address: address,
				Policy: policy, Protocol: protocol, Family: "IPv4", promise: p, caller: from}
			if a.Is6() {
				c.Family = "IPv6"
			}
			c.to = netip.AddrPortFrom(a, port(protocol))
			c.To = c.to.String()
			m.cells = append(m.cells, c)
		}
	}
}

func (c *cell) String() string {
	return strings.Join(strings.Fields(fmt.Sprint(c.Mode, " ", c.Uplink, " ", c.From, " (", c.Relation, ") calls ",
		c.Address, " ", c.Policy, " ", c.Protocol, " ", c.To, ", wants ", c.Servers, " to see ", c.Source.Name, ": ",
		c.Error)), " ")
}

func (c *cell) reachable() bool { return len(c.Servers) > 0 }

// try makes the calls until each promise holds once. The reachable cells come first: before any change takes effect,
// unreachable cells pass trivially.
func (m *matrix) try(t *testing.T) {
	t.Helper()
	for _, reachable := range []bool{true, false} {
		open := slices.DeleteFunc(slices.Clone(m.cells), func(c *cell) bool { return c.reachable() != reachable })
		err := poll.Slowly(t.Context(), recoveryTimeout, func() error {
			err := callCells(t.Context(), open)
			open = slices.DeleteFunc(open, func(c *cell) bool { return c.OK })
			if err == nil && len(open) > 0 {
				err = fmt.Errorf("%d cells do not hold yet", len(open))
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		for _, c := range open {
			t.Error(c)
		}
	}
}

// callCells makes the calls of all cells, in one process per caller, and judges them.
func callCells(ctx context.Context, cells []*cell) error {
	byCaller := map[string][]*cell{}
	for _, c := range cells {
		byCaller[c.From] = append(byCaller[c.From], c)
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, mine := range byCaller {
		group.Go(func() error {
			var wanted []calls
			for _, c := range mine {
				wanted = append(wanted, calls{c.Protocol, c.To, c.count(), c.reachable()})
			}
			became, err := mine[0].caller.callAll(ctx, wanted)
			if err != nil {
				return err
			}
			for i, c := range mine {
				c.judge(became[i])
			}
			return nil
		})
	}
	return group.Wait()
}

// count returns how many calls a cell needs. With two backends, one of 2,048 runs of twelve calls reaches only one
// of them.
func (c *cell) count() int {
	if len(c.Servers) > 1 {
		return 12
	}
	return 2
}

func (c *cell) judge(all []called) {
	err := c.answered(all)
	c.Seen = nil
	for _, one := range all {
		if seen, parsed := netip.ParseAddrPort(one.Client); parsed == nil && !slices.Contains(c.Seen, seen.Addr().Unmap()) {
			c.Seen = append(c.Seen, seen.Addr().Unmap())
		}
	}
	if err == nil && c.reachable() {
		err = c.Source.check(c.Seen)
	}
	c.OK, c.Error = err == nil, ""
	if err != nil {
		c.Error = err.Error()
	}
}

func (c *cell) answered(all []called) error {
	if c.reachable() {
		_, err := answered(all, c.Servers)
		return err
	}
	for _, one := range all {
		if one.Error == "" {
			return fmt.Errorf("%s answered, but must not be reachable from here", one.Server)
		}
	}
	return nil
}

func (s source) check(seen []netip.Addr) error {
	for _, a := range seen {
		if !slices.Contains(s.Addresses, a) {
			return fmt.Errorf("seen as %s, want %s: %v", a, s.Name, s.Addresses)
		}
	}
	return nil
}

// answered lists the servers that answered. The error names a failed call or a server that never answered.
func answered(all []called, want []string) (servers []string, err error) {
	count := map[string]int{}
	for _, one := range all {
		if one.Error != "" {
			return nil, fmt.Errorf("call: %s", one.Error)
		}
		count[one.Server]++
	}
	for _, server := range want {
		if count[server] == 0 {
			return nil, fmt.Errorf("%s never answered: %v", server, count)
		}
		delete(count, server)
	}
	if len(count) > 0 {
		return nil, fmt.Errorf("others answered: %v", count)
	}
	return want, nil
}

// serveOn runs a peer on the machines themselves until the test's end.
func (b *testbed) serveOn(t *testing.T, machines ...string) {
	t.Helper()
	for _, m := range machines {
		cmd, err := b.Command(t.Context(), m, filepath.Join(b.peerDir, "peer"), "serve", "--attached")
		must(t, err)
		end, err := cmd.StdinPipe()
		must(t, err)
		var complaint bytes.Buffer
		cmd.Stderr = &complaint
		must(t, cmd.Start())
		t.Cleanup(func() {
			if err := errors.Join(end.Close(), cmd.Wait()); err != nil && t.Context().Err() == nil {
				t.Errorf("peer on %s: %v: %s", m, err, complaint.String())
			}
		})
	}
}

// writeCells writes a matrix to _out.
func writeCells(t *testing.T, name string, cells any) {
	t.Helper()
	root, err := tools.SourceRoot()
	must(t, err)
	text, err := json.MarshalIndent(cells, "", "  ")
	must(t, err)
	must(t, os.MkdirAll(filepath.Join(root, "_out"), 0o755))
	must(t, os.WriteFile(filepath.Join(root, "_out", name), append(text, '\n'), 0o644))
}

// call makes count calls to one address. The peer command gets more as additional flags.
func (c caller) call(ctx context.Context, protocol string, to netip.AddrPort, count int, more ...string) ([]called, error) {
	argv := append([]string{"call", "--protocol=" + protocol, "--to=" + to.String(), fmt.Sprint("--count=", count)}, more...)
	return runJSON[[]called](ctx, c, argv...)
}
