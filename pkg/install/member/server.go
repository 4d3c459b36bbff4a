package member

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weft-network/weft/pkg/ovn/unixctl"
	"github.com/weft-network/weft/pkg/ports"
)

// Server accepts the operator's orders for this host's members, and forwards connections from other hosts to them.
type Server struct {
	// Address is the TCP address to listen on.
	Address string
	// Run is the folder of sockets, Data the folder of database files.
	Run, Data string
	Identity  func() (Identity, error)
	Log       *slog.Logger

	mu    sync.Mutex // serializes orders
	order Order
	slots links
}

// Serve restores the links of the stored order and accepts connections until ctx ends.
func (s *Server) Serve(ctx context.Context) error {
	order, err := ReadOrder(OrderFile(s.Data))
	if err != nil {
		return err
	}
	s.order = order
	defer s.slots.close()
	if err := s.link(ctx, order); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{KeepAliveConfig: keepAlive}).Listen(ctx, "tcp", s.Address)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	var all sync.WaitGroup
	defer all.Wait()
	for {
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		} else if err != nil {
			return err
		}
		all.Go(func() {
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			defer conn.Close()
			if err := s.serve(ctx, conn); err != nil && ctx.Err() == nil {
				s.Log.Info("connection ended", "from", conn.RemoteAddr().String(), "error", err.Error())
			}
		})
	}
}

// serve handles one connection from the network.
func (s *Server) serve(ctx context.Context, conn net.Conn) error {
	if tcp, ok := conn.(*net.TCPConn); ok {
		raw, err := tcp.SyscallConn()
		if err == nil {
			err = bound(raw)
		}
		if err != nil {
			return err
		}
	}
	id, err := s.Identity()
	if err != nil {
		return err
	}
	protocols := []string{protocolOrder}
	for database := range Databases {
		protocols = append(protocols, protocolOf(database, false), protocolOf(database, true))
	}
	config, err := id.config(protocols...)
	if err != nil {
		return err
	}
	secured := tls.Server(conn, config)
	if err := conn.SetDeadline(time.Now().Add(dialTimeout)); err != nil {
		return err
	}
	if err := secured.HandshakeContext(ctx); err != nil {
		return err
	}
	protocol := secured.ConnectionState().NegotiatedProtocol
	if protocol == protocolOrder {
		return s.take(ctx, secured)
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	path, err := s.target(protocol)
	if err != nil {
		return err
	}
	return s.pipe(ctx, secured, path)
}

// target returns the socket of this host that serves a protocol.
func (s *Server) target(protocol string) (string, error) {
	s.mu.Lock()
	self := s.order.Self
	s.mu.Unlock()
	for database := range Databases {
		switch protocol {
		case protocolOf(database, false):
			return own(s.Run, database), nil
		case protocolOf(database, true):
			return strings.TrimPrefix(Raft(s.Run, self, database), "unix:"), nil
		}
	}
	return "", fmt.Errorf("unknown protocol %q", protocol)
}

// pipe connects conn to a socket of this host.
func (s *Server) pipe(ctx context.Context, conn net.Conn, path string) error {
	local, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return err
	}
	join(ctx, conn, local)
	return nil
}

// join copies data both ways until either connection or ctx ends. It closes both connections.
func join(ctx context.Context, a, b net.Conn) {
	end := func() { a.Close(); b.Close() }
	defer context.AfterFunc(ctx, end)()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			defer end()
			_, _ = io.Copy(way[0], way[1]) // an error here only means that a connection ended
		})
	}
	both.Wait()
}

// take carries out the order that the operator sends, and replies with the resulting state. An order without Self
// only reads the state.
func (s *Server) take(ctx context.Context, conn net.Conn) error {
	var order Order
	if err := json.NewDecoder(conn).Decode(&order); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if order.Self != "" {
		if err := s.follow(ctx, order); err != nil {
			s.Log.Error("cannot carry out the operator's order; the operator sends it again", "error", err.Error())
		}
	}
	kept, err := ReadOrder(OrderFile(s.Data)) // not s.order: if the disk was lost, the reply must show that the order is gone
	if err != nil {
		return err
	}
	state := State{Order: kept, Databases: map[string]DatabaseState{}}
	for database := range Databases {
		found, err := readState(ctx, s.Run, s.Data, database)
		if err != nil {
			s.Log.Error("cannot read the state of a database", "database", database, "error", err.Error())
		}
		state.Databases[database] = found
	}
	return json.NewEncoder(conn).Encode(state)
}

// follow stores and carries out an order. The process that creates the database files (launch.Member) watches the
// stored order.
func (s *Server) follow(ctx context.Context, order Order) error {
	have, err := ReadOrder(OrderFile(s.Data))
	if err != nil {
		return err
	}
	if kept := order.kept(); !reflect.DeepEqual(kept, have) {
		if err := writeOrder(OrderFile(s.Data), kept); err != nil {
			return err
		}
		s.order = kept
		s.Log.Info("stored a new order", "members", len(kept.Peers))
	}
	failed := []error{s.link(ctx, s.order)}
	for _, database := range slices.Sorted(maps.Keys(order.Databases)) {
		d := order.Databases[database]
		if d.Discard != "" {
			failed = append(failed, s.discard(ctx, database, d.Discard))
		}
		for _, server := range d.Kick {
			out, err := unixctl.Call(ctx, control(s.Run, database), "cluster/kick", Databases[database], server)
			s.Log.Info("removed a server from the cluster", "database", database, "server", server, "answer", out)
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// discard stops the server of a database whose file belongs to a removed member. The file is replaced when the server
// starts again.
func (s *Server) discard(ctx context.Context, database, server string) error {
	file, err := ReadFile(DatabaseFile(s.Data, database))
	if err != nil || file.Server != server {
		return err
	}
	s.Log.Info("stopping the server of a removed member; its file is replaced at its next start", "database", database, "server", server)
	_, err = unixctl.Call(ctx, control(s.Run, database), "exit")
	return err
}

// link opens a socket for the raft address of each other member, and a client socket for each slot.
func (s *Server) link(ctx context.Context, order Order) error {
	wanted := map[string]target{}
	for slot, peer := range order.Peers {
		for database := range Databases {
			if peer.Node == order.Self {
				wanted[Client(s.Run, slot, database)] = target{local: own(s.Run, database)}
				continue
			}
			address := net.JoinHostPort(peer.Address, strconv.Itoa(ports.Members))
			wanted[Client(s.Run, slot, database)] = target{address: address, protocol: protocolOf(database, false)}
			raft := filepath.Clean(strings.TrimPrefix(Raft(s.Run, peer.Node, database), "unix:"))
			wanted[raft] = target{address: address, protocol: protocolOf(database, true)}
		}
	}
	return s.slots.set(ctx, wanted, s.open)
}

// open connects to the target of a link.
func (s *Server) open(ctx context.Context, t target) (net.Conn, error) {
	if t.local != "" {
		return (&net.Dialer{}).DialContext(ctx, "unix", t.local)
	}
	id, err := s.Identity()
	if err != nil {
		return nil, err
	}
	return dial(ctx, t.address, id, t.protocol)
}
