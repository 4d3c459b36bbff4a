// Package launch starts one program of OVN or Open vSwitch in its container: it makes what the program needs and does not make itself, and
// becomes that program, so that signals and the exit code are the program's own.
//
//	weft-ovn nb|sb        the database, made or converted to the image's schema ─▶ ovsdb-server --config-file
//	weft-ovn nb|sb --cluster  the database made, converted or joined as the operator has ordered ─▶ ovsdb-server
//	weft-ovn member       takes the operator's orders, and connects the members (package member)
//	weft-ovn northd       ─▶ ovn-northd, by the databases' sockets on the same host
//	weft-ovn ovsdb        the switch's database, made anew with each boot of the host ─▶ ovsdb-server
//	weft-ovn vswitchd     ─▶ ovs-vswitchd
//	weft-ovn controller   waits for the chassis' key pair ─▶ ovn-controller
//	weft-ovn clear        takes off the host what these would leave
package launch
