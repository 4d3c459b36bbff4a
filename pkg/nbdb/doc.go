// Package nbdb is the generated model of the OVN northbound database. The schema file beside it is the part that Weft reads or writes, as it
// is since OVN 24.03; columns of newer servers are left out, so that an older server is understood too.
package nbdb

//go:generate go tool modelgen -extended -p nbdb -o . ovn-nb.ovsschema
