package member

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
)

// Run is the folder of OVN's sockets on every host.
const Run = "/run/ovn"

// Raft returns the raft address of a node's database server: a socket that exists on the host of each other member.
// It contains a digest of the node's name, because the path of a socket must be short and a node's name may have 253
// bytes.
func Raft(run, node, database string) string {
	sum := sha256.Sum256([]byte(node))
	return "unix:" + filepath.Join(run, "member-"+hex.EncodeToString(sum[:6])+"-"+database+".raft")
}

// Client returns the socket through which clients on a host reach the member in a slot.
func Client(run string, slot int, database string) string {
	return filepath.Join(run, fmt.Sprintf("member-%d-%s.sock", slot, database))
}

// own returns the socket of the database server on this host.
func own(run, database string) string { return filepath.Join(run, "ovn"+database+"_db.sock") }

// control returns the control socket (ovs-appctl) of the database server on this host.
func control(run, database string) string { return filepath.Join(run, "ovn"+database+"_db.ctl") }
