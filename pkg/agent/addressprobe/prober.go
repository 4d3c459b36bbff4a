// Package addressprobe probes the addresses that the operator requests: it finds out whether a host of the node's segments has them.
package addressprobe

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/neighbour"
)

const (
	// least and most are the times between a probe of an address and the next. They double from one to the other.
	least = 5 * time.Second
	most  = 30 * time.Second
	// maxError is the longest error of a result, in bytes.
	maxError = 256
)

// Options are the dependencies of a Prober.
type Options struct {
	// Users is neighbour.Users.
	Users func(context.Context, neighbour.Segment, []netip.Addr) (map[netip.Addr]net.HardwareAddr, error)
	// Changed is called when a result changes.
	Changed func()
	Now     func() time.Time
}

// Prober probes addresses again and again while the operator requests it, because a host that has an address may release it.
type Prober struct {
	Options
	wake chan struct{}

	mu     sync.Mutex
	probes map[netip.Addr]*probe
}

// probe is the state of the probe of one address.
type probe struct {
	request networkv1alpha1.AddressProbe
	link    string // "" if no link has the network
	result  *networkv1alpha1.ProbedAddress
	due     time.Time
	gap     time.Duration // to the next probe
}

// New returns a Prober that probes while Run runs.
func New(o Options) *Prober {
	return &Prober{Options: o, wake: make(chan struct{}, 1), probes: map[netip.Addr]*probe{}}
}

// Follow takes over the requests of a node, and returns the results so far. reported are the results of an earlier process, which stay
// until this process has its own.
func (p *Prober) Follow(requests []networkv1alpha1.AddressProbe, gateway *networkv1alpha1.NodeGatewayStatus,
	reported []networkv1alpha1.ProbedAddress) (results []networkv1alpha1.ProbedAddress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := map[netip.Addr]*probe{}
	for _, request := range requests {
		a, err := request.Address.Addr()
		if err != nil {
			continue // only the operator writes the spec
		}
		link := linkOf(gateway, a)
		known := p.probes[a]
		if known == nil || !known.request.RequestedAt.Equal(&request.RequestedAt) || known.link != link {
			known = &probe{request: request, link: link, result: resultOf(reported, request), gap: least}
		}
		next[a] = known
		if known.result != nil {
			results = append(results, *known.result)
		}
	}
	p.probes = next
	select {
	case p.wake <- struct{}{}:
	default:
	}
	return results
}

// resultOf returns the reported result of a request, or nil.
func resultOf(reported []networkv1alpha1.ProbedAddress, request networkv1alpha1.AddressProbe) *networkv1alpha1.ProbedAddress {
	for _, r := range reported {
		if r.Address == request.Address && r.RequestedAt.Equal(&request.RequestedAt) {
			return &r
		}
	}
	return nil
}

// linkOf returns the host's link to the segment of an address, or "".
func linkOf(gateway *networkv1alpha1.NodeGatewayStatus, a netip.Addr) string {
	if gateway == nil {
		return ""
	}
	if contains(gateway.Addresses, a) {
		if gateway.Bridge != "" {
			return gateway.Bridge
		}
		return gateway.Interface
	}
	for _, link := range gateway.FurtherLinks {
		if contains(link.Addresses, a) {
			return link.Name
		}
	}
	return ""
}

func contains(networks []networkv1alpha1.InterfaceAddress, a netip.Addr) bool {
	return slices.ContainsFunc(networks, func(text networkv1alpha1.InterfaceAddress) bool {
		network, err := text.Prefix()
		return err == nil && network.Masked().Contains(a)
	})
}

// Run probes until ctx ends.
func (p *Prober) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		due, wait := p.due()
		for link, addresses := range due {
			p.probe(ctx, link, addresses)
		}
		if len(due) > 0 {
			continue
		}
		p.sleep(ctx, wait)
	}
	return nil
}

// sleep waits for requests, and at most for a time if it is not 0.
func (p *Prober) sleep(ctx context.Context, wait time.Duration) {
	var expired <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case <-ctx.Done():
	case <-p.wake:
	case <-expired:
	}
}

// due returns the addresses to probe now, by link, or else the time until the next one is due; 0: none is requested.
func (p *Prober) due() (due map[string][]netip.Addr, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	due = map[string][]netip.Addr{}
	now := p.Now()
	for a, probe := range p.probes {
		if left := probe.due.Sub(now); left > 0 {
			if wait == 0 || left < wait {
				wait = left
			}
			continue
		}
		due[probe.link] = append(due[probe.link], a)
		probe.due = now.Add(probe.gap)
		probe.gap = min(2*probe.gap, most)
	}
	return due, wait
}

// probe probes addresses on a link and records the results. A request that changed meanwhile gets none.
func (p *Prober) probe(ctx context.Context, link string, addresses []netip.Addr) {
	p.mu.Lock()
	probed := map[netip.Addr]*probe{}
	for _, a := range addresses {
		probed[a] = p.probes[a]
	}
	p.mu.Unlock()
	found, err := map[netip.Addr]net.HardwareAddr(nil), errors.New("no link to the outside has a network with the address")
	if link != "" {
		found, err = p.Users(ctx, neighbour.Segment{Link: link}, addresses)
	}
	if ctx.Err() != nil {
		return // the agent ends
	}
	if p.record(probed, found, err) {
		p.Changed()
	}
}

func (p *Prober) record(probed map[netip.Addr]*probe, found map[netip.Addr]net.HardwareAddr, err error) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for a, probe := range probed {
		if probe == nil || p.probes[a] != probe {
			continue
		}
		if err != nil && probe.result != nil && probe.result.Error == "" {
			continue // what was found stays: a link that is down for a moment must not make a foreign host's address free
		}
		result := networkv1alpha1.ProbedAddress{Address: probe.request.Address, RequestedAt: probe.request.RequestedAt}
		if err != nil {
			result.Error = errorText(err)
		} else if mac := found[a]; mac != nil {
			result.MACAddress = networkv1alpha1.MACAddress(mac.String())
		}
		if was := probe.result; was == nil || was.MACAddress != result.MACAddress || was.Error != result.Error {
			probe.result, changed = &result, true
		}
	}
	return changed
}

// errorText returns the innermost error, because the outer ones name the addresses that are probed together.
func errorText(err error) string {
	for errors.Unwrap(err) != nil {
		err = errors.Unwrap(err)
	}
	return strings.ToValidUTF8(err.Error()[:min(len(err.Error()), maxError)], "")
}
