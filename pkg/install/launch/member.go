package launch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/fsnotify/fsnotify"

	"github.com/weft-network/weft/pkg/install/member"
)

// electionTimer is how long a leader may be silent, in milliseconds. ovsdb-server answers no client while it writes a
// large database or sends a client its copy. The default of a second would depose a working leader.
const electionTimer = 5000

// Member prepares a database server that belongs to a cluster.
type Member struct {
	// Key is "nb" or "sb". Name is OVN's name of the database.
	Key, Name string
	// Orders is the file that stores the operator's order.
	Orders string
	// Run is the folder of the members' sockets.
	Run string
}

// prepare returns when the database file exists. It creates the cluster (from an existing standalone database) or
// joins it only as the operator orders.
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

// obey carries out the order. done is true if the database file exists and the server may start.
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

// create creates the cluster. If filled is true, the cluster starts with the rows of this host's standalone database,
// so clients see the same rows as before.
func (m *Member) create(ctx context.Context, d Database, order member.Order, filled bool) error {
	content := d.Schema
	if filled {
		if err := d.convert(ctx); err != nil {
			return err
		}
		content = d.File
	}
	return m.make(d, func(unfinished string) error {
		_, err := ovsdbTool(ctx, "--election-timer="+strconv.Itoa(electionTimer), "create-cluster", unfinished, content,
			member.Raft(m.Run, order.Self, m.Key))
		return err
	})
}

// join joins the cluster with this ID, and no other.
func (m *Member) join(ctx context.Context, d Database, order member.Order, cluster string) error {
	args := []string{"--cid=" + cluster, "join-cluster", "", m.Name, member.Raft(m.Run, order.Self, m.Key)}
	others := 0
	for _, peer := range order.Peers {
		if peer.Node != order.Self {
			args, others = append(args, member.Raft(m.Run, peer.Node, m.Key)), others+1
		}
	}
	if others == 0 {
		return fmt.Errorf("cannot join cluster %s: the order names no other member", cluster)
	}
	return m.make(d, func(unfinished string) error {
		args[2] = unfinished
		_, err := ovsdbTool(ctx, args...)
		return err
	})
}

// make creates the file under another name and renames it when it is complete.
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
