// Package sbdb is the generated model of the OVN southbound database. The schema file beside it contains the part
// that Weft reads or writes, as of OVN 24.03. It omits columns of newer servers, so that Weft works with older
// servers too.
package sbdb

//go:generate go tool modelgen -extended -p sbdb -o . ovn-sb.ovsschema
