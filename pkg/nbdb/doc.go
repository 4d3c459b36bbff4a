// Package nbdb is the generated model of the OVN northbound database. The schema file beside it is the part that Weft reads or writes, as it
// is since OVN 24.03. Newer are NAT.match and NAT.priority (24.09), which an older server need not have (northbound.Schema); other columns of
// newer servers are left out, so that an older server is understood too.
package nbdb

//go:generate go tool modelgen -extended -p nbdb -o . ovn-nb.ovsschema
