// Package nbdb is the generated model of the OVN northbound database. The schema file beside it contains the part
// that Weft reads or writes, as of OVN 24.03. NAT.match and NAT.priority are newer (24.09) and optional
// (northbound.Schema). Other columns of newer servers are omitted, so that Weft works with older servers too.
package nbdb

//go:generate go tool modelgen -extended -p nbdb -o . ovn-nb.ovsschema
