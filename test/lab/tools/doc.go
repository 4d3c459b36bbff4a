// Package tools builds the programs that the lab and the tests run, and keeps them in a cache folder:
//
//	$WEFT_CACHE            default: the user's cache folder + /weft
//	├── bin/               etcd, kubernetes and its names (kube-apiserver, kubectl, ...), ... built from the modules beside
//	├── nft/bin/           nft as in Weft's image
//	├── ovn/bin/           wrappers: ovsdb-server, ovs-vswitchd, ovn-northd, ...
//	├── ovn/share/         the database schemas
//	├── ovn/root/          Debian 13's packages, unpacked and never installed
//	├── linux-*/           a kernel that is an ordinary program (User-Mode Linux), and its configuration
//	├── stamps/            one file per tool: what it was made from
//	└── locks/             one file per tool, held while it is made
//
// Making a tool twice costs nothing, because its stamp shows that it exists. A tool appears under its final name in
// one rename.
package tools
