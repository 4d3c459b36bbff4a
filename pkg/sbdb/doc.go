// Package sbdb is the generated model of the OVN southbound database. The schema file beside it is the part that Weft reads or writes, as it
// is since OVN 24.03; columns of newer servers are left out, so that an older server is understood too.
package sbdb

//go:generate go tool modelgen -extended -p sbdb -o . ovn-sb.ovsschema
