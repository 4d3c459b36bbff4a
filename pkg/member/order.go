package member

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Databases are the keys of an order's and a state's, and the names that OVN has for them.
var Databases = map[string]string{"nb": "OVN_Northbound", "sb": "OVN_Southbound"}

// Port is where a Server listens.
const Port = "6643"

// Slots is how many members there can be. Each has a slot: the sockets by which clients reach it keep their names when another one takes its place.
const Slots = 3

// Peer is a member: the node's name, and an address of it.
type Peer struct {
	Node    string `json:"node"`
	Address string `json:"address"`
}

// Order is what the operator decided.
type Order struct {
	// Self is the node that it is for.
	Self string `json:"self,omitempty"`
	// Peers are all members, by slot.
	Peers     []Peer                   `json:"peers,omitempty"`
	Databases map[string]DatabaseOrder `json:"databases,omitempty"`
}

// DatabaseOrder is about one database. Without Create or Cluster a server without a file waits.
type DatabaseOrder struct {
	// Create: this host makes the cluster, of what its own database has. It lies on the disk that the database is on and so ends with it: nobody creates
	// a second time because a disk was lost.
	Create bool `json:"create,omitempty"`
	// Cluster is the ID of the one to join.
	Cluster string `json:"cluster,omitempty"`
	// Discard is the server ID of a file that is no member's any more.
	Discard string `json:"discard,omitempty"`
	// Kick are servers to be removed: addresses, or IDs.
	Kick []string `json:"kick,omitempty"`
}

// State is the answer.
type State struct {
	// Order is the one that is followed; Kick is not kept.
	Order     Order                    `json:"order"`
	Databases map[string]DatabaseState `json:"databases"`
}

// DatabaseState is one database of a member.
type DatabaseState struct {
	File FileState `json:"file"`
	// Status is ovsdb-server's word: "cluster member", "joining cluster", "disconnected from the cluster (election timeout)"; empty: no server answers.
	Status string `json:"status,omitempty"`
	// Leads, and Connected: it has a leader and is heard by it.
	Leads     bool `json:"leads,omitempty"`
	Connected bool `json:"connected,omitempty"`
	// Servers are those of the cluster as this one knows it.
	Servers []Listed `json:"servers,omitempty"`
}

// Listed is a server of a cluster: the beginning of its ID, and its address for the others.
type Listed struct {
	ID      string `json:"id"`
	Address string `json:"address"`
}

// OrderFile is where an order is kept, in the folder of the databases.
func OrderFile(data string) string { return filepath.Join(data, "members.json") }

// ReadOrder reads it; the empty one if there is none.
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

// writeOrder replaces it as a whole.
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

// kept is an order without what is done once.
func (o Order) kept() Order {
	k := o
	k.Databases = map[string]DatabaseOrder{}
	for name, d := range o.Databases {
		d.Kick = nil
		k.Databases[name] = d
	}
	return k
}
