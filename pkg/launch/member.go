package launch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/fsnotify/fsnotify"

	"github.com/weft-network/weft/pkg/member"
)

// electionTimer, in milliseconds, is how long a leader may be silent. ovsdb-server answers nobody while it writes a big database or gives a client its
// copy: the default of a second would depose one that works.
const electionTimer = 5000

// Member is a database's server in a cluster.
type Member struct {
	// Key is "nb" or "sb", Name the database's.
	Key, Name string
	// Orders is the file of the operator's orders.
	Orders string
	// Run is the folder of the members' sockets.
	Run string
}

// prepare returns when the database is there. It is made, of what is there already, and joined, only where the operator says so.
func (m *Member) prepare(ctx context.Context, d Database) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer watcher.Close()
	if err := watcher.Add(filepath.Dir(m.Orders)); err != nil {
		return err
	}
	for {
		order, err := member.ReadOrder(m.Orders)
		if err != nil {
			return err
		}
		if done, err := m.obey(ctx, d, order); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-watcher.Errors:
			return err
		case <-watcher.Events:
		}
	}
}

// obey does what is ordered, and tells whether there is a database to be served.
func (m *Member) obey(ctx context.Context, d Database, order member.Order) (done bool, err error) {
	file, err := member.ReadFile(d.File)
	if err != nil {
		return false, err
	}
	wanted := order.Databases[m.Key]
	switch {
	case file.Kind == member.Clustered && file.Server != wanted.Discard:
		return true, nil
	case file.Kind == member.Clustered || file.Kind == member.Standalone && wanted.Cluster != "" && !wanted.Create:
		if err := os.Remove(d.File); err != nil {
			return false, err
		}
	}
	switch {
	case wanted.Cluster != "":
		return true, m.join(ctx, d, order, wanted.Cluster)
	case wanted.Create:
		return true, m.create(ctx, d, order, file.Kind == member.Standalone)
	}
	return false, nil
}

// create makes the cluster, with what the database of this host has, where it has one: who reads it sees the same rows as before.
func (m *Member) create(ctx context.Context, d Database, order member.Order, filled bool) error {
	content := d.Schema
	if filled {
		if err := d.convert(ctx); err != nil {
			return err
		}
		content = d.File
	}
	return m.make(d, func(unfinished string) error {
		_, err := ovsdbTool(ctx, "--election-timer="+strconv.Itoa(electionTimer), "create-cluster", unfinished, content, member.Raft(m.Run, order.Self, m.Key))
		return err
	})
}

// join becomes a member of the cluster that has this ID, and of no other.
func (m *Member) join(ctx context.Context, d Database, order member.Order, cluster string) error {
	args := []string{"--cid=" + cluster, "join-cluster", "", m.Name, member.Raft(m.Run, order.Self, m.Key)}
	others := 0
	for _, peer := range order.Peers {
		if peer.Node != order.Self {
			args, others = append(args, member.Raft(m.Run, peer.Node, m.Key)), others+1
		}
	}
	if others == 0 {
		return fmt.Errorf("cluster %s has no other member that could be joined", cluster)
	}
	return m.make(d, func(unfinished string) error {
		args[2] = unfinished
		_, err := ovsdbTool(ctx, args...)
		return err
	})
}

// make replaces the file when the other one is whole.
func (m *Member) make(d Database, how func(unfinished string) error) error {
	unfinished := d.File + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	if err := how(unfinished); err != nil {
		return err
	}
	return os.Rename(unfinished, d.File)
}
