package member

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
)

// Run is the folder of OVN's sockets on every host.
const Run = "/run/ovn"

// Raft is the address of a node's server for the others of its cluster: a socket that each of their hosts has. Its path must be short, and a node's name may
// have 253 bytes.
func Raft(run, node, database string) string {
	sum := sha256.Sum256([]byte(node))
	return "unix:" + filepath.Join(run, "member-"+hex.EncodeToString(sum[:6])+"-"+database+".raft")
}

// Client is the socket by which clients on a host reach the member of a slot.
func Client(run string, slot int, database string) string {
	return filepath.Join(run, fmt.Sprintf("member-%d-%s.sock", slot, database))
}

// own are the sockets and control sockets of the servers on this host.
func own(run, database string) string     { return filepath.Join(run, "ovn"+database+"_db.sock") }
func control(run, database string) string { return filepath.Join(run, "ovn"+database+"_db.ctl") }
