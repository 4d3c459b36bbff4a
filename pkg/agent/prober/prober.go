// Package prober probes other nodes through the network.
package prober

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ports"
)

const (
	// probeTimeout is how long a peer may take to answer.
	probeTimeout = 2 * time.Second
	// retryDelay is the time between rounds while a peer does not answer.
	retryDelay = 2 * time.Second
)

// Prober probes other nodes through the network when a NodeNetwork's annotation requests it: from this node's management
// port to theirs.
type Prober struct {
	Running context.Context                                      // ends with the agent
	Changed func()                                               // is called when the result changes
	dial    func(ctx context.Context, from, to netip.Addr) error // nil: dialTCP

	mu      sync.Mutex
	request networkv1alpha1.ProbeRequest
	result  *networkv1alpha1.ProbeStatus // of request; nil until the first round ends
	stop    context.CancelFunc           // stops the running probe
}

// Status returns the result of the probe that the NodeNetwork requests, and starts the probe if it has not been started.
// A good result of an earlier agent process stays valid, because the request lists the nodes that run.
func (p *Prober) Status(nn *networkv1alpha1.NodeNetwork) *networkv1alpha1.ProbeStatus {
	if nn == nil {
		return nil
	}
	before := nn.Status.Probe
	request, ok := networkv1alpha1.ReadProbeRequest(nn.Annotations)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !ok:
		p.end()
		p.request = networkv1alpha1.ProbeRequest{}
		return nil
	case before != nil && before.ID == request.ID && before.Error == "":
		return before
	case p.request.ID != request.ID || !slices.Equal(p.request.Peers, request.Peers):
		p.begin(request, sources(nn.Spec))
	}
	if p.result == nil {
		return before
	}
	return p.result.DeepCopy()
}

func (p *Prober) end() {
	if p.stop != nil {
		p.stop()
	}
	p.stop, p.result = nil, nil
}

func (p *Prober) begin(request networkv1alpha1.ProbeRequest, from []netip.Addr) {
	p.end()
	ctx, stop := context.WithCancel(p.Running)
	p.request, p.stop = request, stop
	go p.probe(ctx, request, from)
}

// probe probes all peers in rounds until every peer has answered in the same round.
func (p *Prober) probe(ctx context.Context, request networkv1alpha1.ProbeRequest, from []netip.Addr) {
	for {
		err := p.round(ctx, request.Peers, from)
		if !p.record(ctx, request.ID, err) || err == nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryDelay):
		}
	}
}

// record stores a result and reports it through Changed. It returns false if the probe has been stopped.
func (p *Prober) record(ctx context.Context, id string, err error) bool {
	now := &networkv1alpha1.ProbeStatus{ID: id}
	if err != nil {
		now.Error = err.Error()
	}
	p.mu.Lock()
	if ctx.Err() != nil {
		p.mu.Unlock()
		return false
	}
	changed := p.result == nil || *p.result != *now
	p.result = now
	p.mu.Unlock()
	if changed {
		p.Changed()
	}
	return true
}

// round probes each peer once, all at the same time. The error lists the peers that did not answer, in their order.
func (p *Prober) round(ctx context.Context, peers []networkv1alpha1.IP, from []netip.Addr) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	failed := make([]error, len(peers))
	var probes sync.WaitGroup
	for i, peer := range peers {
		probes.Go(func() { failed[i] = p.probePeer(ctx, peer, from) })
	}
	probes.Wait()
	return errors.Join(failed...)
}

func (p *Prober) probePeer(ctx context.Context, peer networkv1alpha1.IP, from []netip.Addr) error {
	to, err := netip.ParseAddr(string(peer))
	if err != nil {
		return err
	}
	own := slices.IndexFunc(from, func(a netip.Addr) bool { return a.Is4() == to.Is4() })
	if own < 0 {
		return fmt.Errorf("%s: this node has no management address of its family", to)
	}
	dial := p.dial
	if dial == nil {
		dial = dialTCP
	}
	if err := dial(ctx, from[own], to); err != nil {
		return fmt.Errorf("%s does not answer %s: %w", to, from[own], innermost(err))
	}
	return nil
}

// dialTCP connects to the agent's health port of a peer. A refused connection counts as an answer, because the node sent
// it.
func dialTCP(ctx context.Context, from, to netip.Addr) error {
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(to.String(), strconv.Itoa(ports.AgentHealth)))
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil
	} else if err != nil {
		return err
	}
	return conn.Close()
}

// innermost strips the addresses from an error, because the source port differs at each attempt.
func innermost(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// sources returns the addresses of the node's management port.
func sources(spec networkv1alpha1.NodeNetworkSpec) (found []netip.Addr) {
	for _, a := range spec.ManagementPort.Addresses {
		if prefix, err := a.Prefix(); err == nil {
			found = append(found, prefix.Addr())
		}
	}
	return found
}
