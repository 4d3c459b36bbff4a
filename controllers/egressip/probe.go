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
	"github.com/weft-network/weft/pkg/topology"
)

const (
	// DefaultProbeInterval is how often nodes are asked, and how long each answer may take.
	DefaultProbeInterval = time.Second
	// DefaultProbeMisses is how many answers in a row must be missing: a node that is busy for a moment keeps its addresses.
	DefaultProbeMisses = 3
)

// Probe asks whether a node answers at one of its addresses.
type Probe func(ctx context.Context, address netip.Addr) error

// TCPProbe connects to a port. That the port is closed is an answer too: the node is there, and its agent is being replaced.
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

// Targets are the nodes to ask, each with the address at which it is asked.
type Targets func(ctx context.Context) map[string]netip.Addr

// Prober asks nodes whether they are there. It begins to know with the leadership: until a node has missed enough answers of this process, it counts
// as reachable.
type Prober struct {
	targets  Targets
	probe    Probe
	interval time.Duration
	limit    int
	changed  func()

	mu     sync.Mutex
	misses map[string]int // node -> answers missed in a row
	asked  int            // nodes, in the last round
}

// NewProber makes a prober; changed is called when a node becomes unreachable, or comes back.
func NewProber(targets Targets, probe Probe, interval time.Duration, misses int, changed func()) *Prober {
	return &Prober{targets: targets, probe: probe, interval: cmp.Or(interval, DefaultProbeInterval), limit: cmp.Or(misses, DefaultProbeMisses),
		changed: changed, misses: map[string]int{}}
}

// Reachable reports whether a node answers, as far as is known.
func (p *Prober) Reachable(node string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.misses[node] < p.limit
}

// Unreachable lists the nodes that do not answer, if another one does: who hears nobody is cut off himself, or not on that network.
func (p *Prober) Unreachable() (nodes []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for node, misses := range p.misses {
		if misses >= p.limit {
			nodes = append(nodes, node)
		}
	}
	if len(nodes) == p.asked {
		return nil
	}
	slices.Sort(nodes)
	return nodes
}

// Run asks until ctx ends.
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

// round asks every node once, all at the same time, and tells of those that are known in another way now.
func (p *Prober) round(ctx context.Context) {
	targets := p.targets(ctx)
	deadline, cancel := context.WithTimeout(ctx, p.interval)
	defer cancel()
	answers := make(map[string]error, len(targets))
	var mu sync.Mutex
	var asking sync.WaitGroup
	for node, address := range targets {
		asking.Go(func() {
			err := p.probe(deadline, address)
			mu.Lock()
			defer mu.Unlock()
			answers[node] = err
		})
	}
	asking.Wait()
	if ctx.Err() == nil && p.learn(answers) {
		p.changed()
	}
}

// learn counts the answers that are missing and reports whether a node became unreachable, or came back.
func (p *Prober) learn(answers map[string]error) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = len(answers)
	for node := range p.misses {
		if _, asked := answers[node]; !asked {
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

// Carriers are the nodes that may carry egress IPs, each with the address that Kubernetes knows it by; none as long as there is no EgressIP.
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
		if !topology.Assignable(&nodes.Items[i]) {
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
