package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weft-network/weft/pkg/kubectl/connectivity"
)

// attemptPatience is how long one attempt may take.
const attemptPatience = 2 * time.Second

// pause is the time between two attempts.
const pause = 200 * time.Millisecond

// concurrent is the number of probes at a time.
const concurrent = 32

// Run sends probes and returns a result for each.
func Run(ctx context.Context, probes []connectivity.Probe) []connectivity.Result {
	results := make([]connectivity.Result, len(probes))
	slots := make(chan struct{}, concurrent)
	var running sync.WaitGroup
	for i, p := range probes {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			results[i] = send(ctx, p)
		})
	}
	running.Wait()
	return results
}

// send repeats a probe until it is answered, or for its patience. Each attempt has another source port.
func send(ctx context.Context, p connectivity.Probe) (r connectivity.Result) {
	began := time.Now()
	for {
		attempt := time.Now()
		attempts := r.Attempts + 1
		var err error
		r, err = sendOnce(ctx, p)
		r.Attempts, r.Took = attempts, time.Since(attempt)
		if err == nil {
			return r
		}
		r.Error = textOf(err)
		if time.Since(began)+pause >= p.Patience {
			return r
		}
		select {
		case <-ctx.Done():
			return r
		case <-time.After(pause):
		}
	}
}

// textOf returns an error without the addresses, which the cell names.
func textOf(err error) string {
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return "no answer within " + attemptPatience.String()
	}
	if failed, ok := errors.AsType[*net.OpError](err); ok && failed.Err != nil {
		err = failed.Err
	}
	text := err.Error()
	for _, call := range []string{"connect: ", "read: ", "write: ", "recvfrom: "} {
		text = strings.TrimPrefix(text, call)
	}
	return text
}

func sendOnce(ctx context.Context, p connectivity.Probe) (connectivity.Result, error) {
	patience := attemptPatience
	if p.Kind == connectivity.Size {
		patience = sizesPatience
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	switch p.Kind {
	case connectivity.TCP, connectivity.Open:
		return connect(ctx, p)
	case connectivity.UDP:
		return datagram(ctx, p)
	case connectivity.Size:
		return largest(ctx, p)
	case connectivity.Name:
		return resolve(ctx, p)
	}
	return connectivity.Result{}, fmt.Errorf("unknown kind of probe %q: the pod is of an older Weft", p.Kind)
}

// networkOf returns the network for net.Dial.
func networkOf(transport string, p connectivity.Probe) string {
	if _, err := netip.ParseAddrPort(p.To); err == nil {
		return transport
	}
	return transport + map[bool]string{false: "4", true: "6"}[p.V6]
}

// connect opens a TCP connection, and reads the server's identity.
func connect(ctx context.Context, p connectivity.Probe) (r connectivity.Result, err error) {
	r.Resolver = resolver()
	conn, err := new(net.Dialer).DialContext(ctx, networkOf("tcp", p), p.To)
	if err != nil {
		return r, err
	}
	defer conn.Close()
	if p.Kind == connectivity.Open {
		return r, nil
	}
	_ = conn.SetDeadline(deadlineOf(ctx))
	var by identity
	switch err := json.NewDecoder(conn).Decode(&by); {
	case errors.Is(err, io.EOF):
		return r, errors.New("the connection was closed without an answer")
	case err != nil:
		return r, err
	}
	r.Server = by.Server
	return r, nil
}

func deadlineOf(ctx context.Context) time.Time {
	deadline, _ := ctx.Deadline()
	return deadline
}

// datagram sends a datagram and waits for its answer.
func datagram(ctx context.Context, p connectivity.Probe) (r connectivity.Result, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, networkOf("udp", p), p.To)
	if err != nil {
		return r, err
	}
	defer conn.Close()
	r.Server, err = exchange(conn, 0, deadlineOf(ctx))
	return r, err
}

// exchange sends a datagram with a payload of at least size bytes, and returns who answered with as many.
func exchange(conn net.Conn, size int, deadline time.Time) (server string, err error) {
	h := header{kind: who, flow: rand.Uint64(), number: uint64(size)}
	request := h.marshal(size)
	if _, err := conn.Write(request); err != nil {
		return "", err
	}
	if err := conn.SetReadDeadline(deadline); err != nil {
		return "", err
	}
	buffer := make([]byte, maxDatagram)
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			return "", err
		}
		if of, _, by, err := parseAnswer(buffer[:n]); err == nil && of == h && n >= len(request) {
			return by.Server, nil
		}
	}
}

// resolve looks a name up in one family, with the pod's search domains.
func resolve(ctx context.Context, p connectivity.Probe) (r connectivity.Result, err error) {
	r.Resolver = resolver()
	r.Addresses, err = net.DefaultResolver.LookupNetIP(ctx, "ip"+map[bool]string{false: "4", true: "6"}[p.V6], p.To)
	for i := range r.Addresses {
		r.Addresses[i] = r.Addresses[i].Unmap()
	}
	slices.SortFunc(r.Addresses, netip.Addr.Compare)
	if failed, ok := errors.AsType[*net.DNSError](err); ok {
		return r, fmt.Errorf("name server %s: %s", r.Resolver, failed.Err)
	}
	if err != nil {
		return r, err
	}
	if want := slices.SortedFunc(slices.Values(p.Want), netip.Addr.Compare); len(want) > 0 && !slices.Equal(r.Addresses, want) {
		return r, fmt.Errorf("the name has the addresses %v, want %v", r.Addresses, want)
	}
	return r, nil
}
