package probe

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weft-network/weft/pkg/kubectl/connectivity"
)

// maxFlows bounds the memory for the counts of flows, because any pod may send to the port.
const maxFlows = 10000

// maxDatagram is the largest payload of UDP.
const maxDatagram = 65507

// connectionPatience is how long a client may take to read the answer.
const connectionPatience = 10 * time.Second

// server answers probes and sends the flows of a pod.
type server struct {
	identity
	flows flows

	mu       sync.Mutex
	received map[uint64]uint64 // flow -> datagrams
}

// listeners are the sockets of a server.
type listeners struct {
	tcp, control net.Listener
	udp          net.PacketConn
}

func (l listeners) close() error {
	var err error
	for _, one := range []io.Closer{l.tcp, l.udp, l.control} {
		if one != nil {
			err = errors.Join(err, one.Close())
		}
	}
	return err
}

// listen opens the sockets at a TCP and UDP address and at the unix socket of flows.
func listen(ctx context.Context, address, path string) (l listeners, err error) {
	var config net.ListenConfig
	var failed [4]error
	if l.tcp, failed[0] = config.Listen(ctx, "tcp", address); failed[0] != nil {
		return listeners{}, failed[0]
	}
	if l.udp, failed[1] = config.ListenPacket(ctx, "udp", address); failed[1] != nil {
		return listeners{}, errors.Join(failed[1], l.tcp.Close())
	}
	if l.control, failed[2] = config.Listen(ctx, "unix", path); failed[2] == nil {
		failed[3] = unfragmented(l.udp.(*net.UDPConn))
	}
	if err := errors.Join(failed[:]...); err != nil {
		return listeners{}, errors.Join(err, l.close())
	}
	return l, nil
}

// serve serves on the sockets until ctx ends.
func serve(ctx context.Context, name string, l listeners) error {
	s := &server{identity: identity{Server: name}, received: map[uint64]uint64{}}
	defer context.AfterFunc(ctx, func() { _ = l.close() })()
	var running errgroup.Group
	running.Go(func() error { return accept(l.tcp, s.answer) })
	running.Go(func() error { return s.answerDatagrams(l.udp) })
	running.Go(func() error { return accept(l.control, func(conn net.Conn) { s.control(ctx, conn) }) })
	if err := running.Wait(); ctx.Err() == nil {
		return err
	}
	s.flows.stop()
	return nil
}

// accept passes connections on until the listener is closed.
func accept(l net.Listener, to func(net.Conn)) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			to(conn)
		}()
	}
}

// answer writes the server's identity to a connection.
func (s *server) answer(conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(connectionPatience))
	if json.NewEncoder(conn).Encode(s.identity) != nil {
		return // the client reports it
	}
	if tcp, ok := conn.(*net.TCPConn); ok && tcp.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, conn) // the client closes first, so that no reset overtakes the answer
	}
}

func (s *server) answerDatagrams(conn net.PacketConn) error {
	buffer := make([]byte, maxDatagram)
	for {
		size, from, err := conn.ReadFrom(buffer)
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		h, parsed := parseHeader(buffer[:size])
		if err != nil || parsed != nil || h.kind&answered != 0 {
			continue // an ICMP error, or not from this program
		}
		_, _ = conn.WriteTo(marshalAnswer(h, s.counted(h), s.identity, size), from) // a lost answer is the client's to report
	}
}

// counted counts a datagram of a flow and returns the flow's count.
func (s *server) counted(h header) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.received[h.flow]; h.kind == flown && (ok || len(s.received) < maxFlows) {
		s.received[h.flow]++
	}
	return s.received[h.flow]
}

// control answers a request of "weft probe flows".
func (s *server) control(ctx context.Context, conn net.Conn) {
	var request connectivity.FlowRequest
	if err := json.NewDecoder(conn).Decode(&request); err != nil {
		return // the command reports that there is no answer
	}
	if len(request.Start) > 0 {
		s.flows.start(ctx, request)
	}
	if request.Stop {
		s.flows.stop()
	}
	answer := connectivity.Flows{Flows: s.flows.states(time.Now()), Received: s.counts()}
	_ = json.NewEncoder(conn).Encode(answer) // the command reports that there is no answer
}

// counts returns how many datagrams of each flow the server has received.
func (s *server) counts() map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := make(map[string]int64, len(s.received))
	for id, n := range s.received {
		counts[idText(id)] = int64(n)
	}
	return counts
}
