package egressip

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
)

const (
	// DefaultProbeInterval is the time between probes, and the time limit of a reply.
	DefaultProbeInterval = time.Second
	// DefaultProbeMisses is the number of consecutive missing replies that make a node unreachable, so that a briefly
	// busy node keeps its addresses.
	DefaultProbeMisses = 3
)

// Probe returns nil if a node responds at an address.
type Probe func(ctx context.Context, address netip.Addr) error

// TCPProbe connects to a port. A closed port counts as a response: the node is up, and its agent is being replaced.
func TCPProbe(port int) Probe {
	return func(ctx context.Context, address netip.Addr) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(address.String(), strconv.Itoa(port)))
		if errors.Is(err, syscall.ECONNREFUSED) {
			return nil
		}
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

// AgentProbe connects to a port. A closed port is no response: the agent that listens there does not run.
func AgentProbe(port int) Probe {
	return func(ctx context.Context, address netip.Addr) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(address.String(), strconv.Itoa(port)))
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

// Targets returns the nodes to probe, each with the address to probe.
type Targets func(ctx context.Context) map[string]netip.Addr

// Prober probes nodes while this process leads. A node counts as reachable until it has missed enough probes of this
// process.
type Prober struct {
	targets  Targets
	probe    Probe
	interval time.Duration
	limit    int
	changed  func()

	mu     sync.Mutex
	misses map[string]int // node -> consecutive missing replies
	probed int            // number of nodes in the last round
}

// NewProber returns a prober. changed is called when a node becomes unreachable or reachable.
func NewProber(targets Targets, probe Probe, interval time.Duration, misses int, changed func()) *Prober {
	return &Prober{targets: targets, probe: probe, interval: cmp.Or(interval, DefaultProbeInterval),
		limit:   cmp.Or(misses, DefaultProbeMisses),
		changed: changed, misses: map[string]int{}}
}

// Reachable reports whether a node responds. Nodes that were never probed count as reachable.
func (p *Prober) Reachable(node string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.misses[node] < p.limit
}

// Unreachable lists the nodes that do not respond while another node does. If no node responds, this process itself
// is cut off or has no route to that network, and the list is empty.
func (p *Prober) Unreachable() (nodes []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for node, misses := range p.misses {
		if misses >= p.limit {
			nodes = append(nodes, node)
		}
	}
	if len(nodes) == p.probed {
		return nil
	}
	slices.Sort(nodes)
	return nodes
}

// Run probes until ctx ends.
func (p *Prober) Run(ctx context.Context) error {
	if p.probe == nil {
		return nil
	}
	ticker := time.NewTicker(p.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			p.round(ctx)
		}
	}
}

// round probes every node once, concurrently, and calls changed if a node's state changed.
func (p *Prober) round(ctx context.Context) {
	targets := p.targets(ctx)
	deadline, cancel := context.WithTimeout(ctx, p.interval)
	defer cancel()
	answers := make(map[string]error, len(targets))
	var mu sync.Mutex
	var probes sync.WaitGroup
	for node, address := range targets {
		probes.Go(func() {
			err := p.probe(deadline, address)
			mu.Lock()
			defer mu.Unlock()
			answers[node] = err
		})
	}
	probes.Wait()
	if ctx.Err() == nil && p.learn(answers) {
		p.changed()
	}
}

// learn counts missing replies and reports whether a node became unreachable or reachable.
func (p *Prober) learn(answers map[string]error) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.probed = len(answers)
	for node := range p.misses {
		if _, ok := answers[node]; !ok {
			changed = changed || p.misses[node] >= p.limit
			delete(p.misses, node)
		}
	}
	for node, err := range answers {
		before := p.misses[node] >= p.limit
		if err == nil {
			delete(p.misses, node)
		} else {
			p.misses[node]++
		}
		changed = changed || before != (p.misses[node] >= p.limit)
	}
	return changed
}

// Carriers returns the nodes that may carry egress IPs, each with its Kubernetes address. Without an EgressIP it
// returns no node.
func Carriers(c client.Reader) Targets {
	return func(ctx context.Context) map[string]netip.Addr { return carriers(ctx, c) }
}

func carriers(ctx context.Context, c client.Reader) map[string]netip.Addr {
	var all networkv1alpha1.EgressIPList
	var nodes corev1.NodeList
	if err := errors.Join(c.List(ctx, &all), c.List(ctx, &nodes)); err != nil || len(all.Items) == 0 {
		return nil
	}
	targets := map[string]netip.Addr{}
	for i := range nodes.Items {
		if !facts.Assignable(&nodes.Items[i]) {
			continue
		}
		for _, a := range nodes.Items[i].Status.Addresses {
			if address, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP {
				targets[nodes.Items[i].Name] = address
				break
			}
		}
	}
	return targets
}
