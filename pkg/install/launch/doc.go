// Package launch starts a program of OVN or Open vSwitch in its container. It prepares what the program needs but
// does not create itself, and then becomes that program, so that signals and the exit code are the program's own.
//
//	weft-ovn nb|sb            create the database, or convert it to the image's schema ─▶ ovsdb-server --config-file
//	weft-ovn nb|sb --cluster  create, convert or join the database as the operator orders ─▶ ovsdb-server --config-file
//	weft-ovn member           accept the operator's orders and connect the members (package member)
//	weft-ovn northd           ─▶ ovn-northd, through the databases' sockets on the same host
//	weft-ovn ovsdb            create the switch's database, once per boot of the host ─▶ ovsdb-server
//	weft-ovn vswitchd         ─▶ ovs-vswitchd
//	weft-ovn controller       wait for the chassis' key pair ─▶ ovn-controller
//	weft-ovn clear            remove from the host what these programs leave behind
package launch
