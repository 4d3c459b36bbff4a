package agent

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
)

const (
	// probePort is one of agents. That nobody listens there is an answer as well.
	probePort = 9442
	// probeTimeout is how long a peer may take to answer.
	probeTimeout = 2 * time.Second
	// probeAgain is when peers that did not answer are asked again.
	probeAgain = 2 * time.Second
)

// prober looks whether other nodes are reached through the network, when a NodeNetwork's annotation asks: from this node's management port to theirs.
type prober struct {
	running context.Context // ends with the agent
	changed func()
	dial    func(ctx context.Context, from, to netip.Addr) error // nil: TCP

	mu      sync.Mutex
	request networkv1alpha1.ProbeRequest
	result  *networkv1alpha1.ProbeStatus // of request; nil: there is none yet
	stop    context.CancelFunc           // of who looks
}

// answer returns what is known of what the NodeNetwork asks, and begins to look where nothing is. What another agent has answered well stays so: the request
// names those that run.
func (p *prober) answer(nn *networkv1alpha1.NodeNetwork) *networkv1alpha1.ProbeStatus {
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

func (p *prober) end() {
	if p.stop != nil {
		p.stop()
	}
	p.stop, p.result = nil, nil
}

func (p *prober) begin(request networkv1alpha1.ProbeRequest, from []netip.Addr) {
	p.end()
	ctx, stop := context.WithCancel(p.running)
	p.request, p.stop = request, stop
	go p.look(ctx, request, from)
}

// look asks all peers until each has answered in the same round.
func (p *prober) look(ctx context.Context, request networkv1alpha1.ProbeRequest, from []netip.Addr) {
	for {
		err := p.round(ctx, request.Peers, from)
		if !p.learn(ctx, request.ID, err) || err == nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(probeAgain):
		}
	}
}

// learn keeps a result, unless something else is asked by now.
func (p *prober) learn(ctx context.Context, id string, err error) bool {
	now := &networkv1alpha1.ProbeStatus{ID: id}
	if err != nil {
		now.Error = err.Error()
	}
	p.mu.Lock()
	if ctx.Err() != nil {
		p.mu.Unlock()
		return false
	}
	news := p.result == nil || *p.result != *now
	p.result = now
	p.mu.Unlock()
	if news {
		p.changed()
	}
	return true
}

// round asks each peer once, all at the same time; the error names those that did not answer, in their order.
func (p *prober) round(ctx context.Context, peers []networkv1alpha1.IP, from []netip.Addr) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	failed := make([]error, len(peers))
	var asking sync.WaitGroup
	for i, peer := range peers {
		asking.Go(func() { failed[i] = p.ask(ctx, peer, from) })
	}
	asking.Wait()
	return errors.Join(failed...)
}

func (p *prober) ask(ctx context.Context, peer networkv1alpha1.IP, from []netip.Addr) error {
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

// dialTCP connects to another agent, or is told that there is none.
func dialTCP(ctx context.Context, from, to netip.Addr) error {
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(to.String(), strconv.Itoa(probePort)))
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil
	} else if err != nil {
		return err
	}
	return conn.Close()
}

// innermost leaves out addresses, of which the port that packets came from is another one at each attempt.
func innermost(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// sources are the addresses of the node's management port.
func sources(spec networkv1alpha1.NodeNetworkSpec) (found []netip.Addr) {
	for _, a := range spec.ManagementPort.Addresses {
		if prefix, err := a.Prefix(); err == nil {
			found = append(found, prefix.Addr())
		}
	}
	return found
}
