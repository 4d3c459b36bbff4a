package member

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Databases maps the keys that orders and states use to OVN's names of the databases.
var Databases = map[string]string{"nb": "OVN_Northbound", "sb": "OVN_Southbound"}

// Slots is the maximum number of members. Each member has a slot. Clients reach it through sockets named after the
// slot, so that their paths stay the same when another node takes the slot.
const Slots = 3

// Peer is a member: the name of its node and an address of that node.
type Peer struct {
	Node    string `json:"node"`
	Address string `json:"address"`
}

// Order is what the operator decided for the members of one node.
type Order struct {
	// Self is the name of the receiving node. An order without it only reads the state.
	Self string `json:"self,omitempty"`
	// Peers lists all members; the index is the slot.
	Peers     []Peer                   `json:"peers,omitempty"`
	Databases map[string]DatabaseOrder `json:"databases,omitempty"`
}

// DatabaseOrder is the order for one database. Without Create and Cluster, a server that has no file waits.
type DatabaseOrder struct {
	// Create makes this host create the cluster, from its standalone database if it has one. The order is stored on
	// the disk of the database and is lost with it. So no host creates a second cluster because it lost its disk.
	Create bool `json:"create,omitempty"`
	// Cluster is the UUID of the cluster to join.
	Cluster string `json:"cluster,omitempty"`
	// Discard is the server ID in a file that belongs to a removed member. Such a file is deleted.
	Discard string `json:"discard,omitempty"`
	// Kick lists the servers to remove from the cluster, by address or by ID.
	Kick []string `json:"kick,omitempty"`
	// Leave makes this host's server leave the cluster.
	Leave bool `json:"leave,omitempty"`
	// Alone permits a server without members to turn its file of a cluster into a standalone database. All other servers
	// have left the cluster.
	Alone bool `json:"alone,omitempty"`
}

// State is a member's reply to an order.
type State struct {
	// Order is the order that the member has stored. It never includes Kick or Leave.
	Order     Order                    `json:"order"`
	Databases map[string]DatabaseState `json:"databases"`
}

// DatabaseState is the state of one database of a member.
type DatabaseState struct {
	File FileState `json:"file"`
	// Status is the status that ovsdb-server reports: "cluster member", "joining cluster", "disconnected from the
	// cluster (election timeout)". It is empty if no server answers.
	Status string `json:"status,omitempty"`
	// Leads is true on the leader. Connected is true if the server is a member and has a leader.
	Leads     bool `json:"leads,omitempty"`
	Connected bool `json:"connected,omitempty"`
	// Servers lists the cluster's servers in this server's view.
	Servers []Listed `json:"servers,omitempty"`
}

// Listed is a server of a cluster: the first digits of its ID, and its raft address.
type Listed struct {
	ID      string `json:"id"`
	Address string `json:"address"`
}

// OrderFile returns the path of the stored order in the folder of the databases.
func OrderFile(data string) string { return filepath.Join(data, "members.json") }

// ReadOrder reads the stored order. It returns the zero Order if no file exists.
func ReadOrder(file string) (order Order, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return order, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &order)
	}
	return order, err
}

// writeOrder replaces the stored order atomically.
func writeOrder(file string, order Order) error {
	text, err := json.MarshalIndent(order, "", "  ")
	if err != nil {
		return err
	}
	unfinished := file + ".new"
	if err := os.WriteFile(unfinished, text, 0o600); err != nil {
		return err
	}
	return os.Rename(unfinished, file)
}

// kept returns the part of the order to store: everything except Kick and Leave, which are carried out once.
func (o Order) kept() Order {
	k := o
	k.Databases = map[string]DatabaseOrder{}
	for name, d := range o.Databases {
		d.Kick, d.Leave = nil, false
		k.Databases[name] = d
	}
	return k
}
