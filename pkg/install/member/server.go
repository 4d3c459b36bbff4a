package member

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	return accept(ctx, s.Address, s.Log, s.serve)
}

// serve handles one connection from the network.
func (s *Server) serve(ctx context.Context, conn net.Conn) error {
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
	secured, err := secure(ctx, conn, config)
	if err != nil {
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
	return pipe(ctx, secured, path)
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
		if err := s.compact(ctx, kept, have); err != nil {
			return err
		}
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
		if d.Leave {
			out, err := unixctl.Call(ctx, control(s.Run, database), "cluster/leave", Databases[database])
			s.Log.Info("leaves the cluster", "database", database, "answer", out)
			failed = append(failed, err)
		}
		for _, server := range d.Kick {
			out, err := unixctl.Call(ctx, control(s.Run, database), "cluster/kick", Databases[database], server)
			s.Log.Info("removed a server from the cluster", "database", database, "server", server, "answer", out)
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// compact makes servers that are about to stand alone write their rows as one snapshot. The log of a server that once led and hung may
// have entries that raft took back, and ovsdb-tool cluster-to-standalone would convert these too.
func (s *Server) compact(ctx context.Context, order, have Order) error {
	for _, database := range slices.Sorted(maps.Keys(order.Databases)) {
		if !order.Databases[database].Alone || have.Databases[database].Alone {
			continue
		}
		out, err := unixctl.Call(ctx, control(s.Run, database), "ovsdb-server/compact", Databases[database])
		if err != nil && !strings.Contains(err.Error(), noNewEntries) {
			return fmt.Errorf("cannot compact the file of %s, which is about to stand alone: %w", Databases[database], err)
		}
		s.Log.Info("compacted the file of a database that is about to stand alone", "database", database, "answer", out)
	}
	return nil
}

// noNewEntries is in the answer of ovsdb-server if its file has no entry after the snapshot.
const noNewEntries = "duplicate snapshot"

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
