// Package vswitchdb is the generated model of the Open_vSwitch database. The schema file beside it is the part that Weft reads or writes, as it
// is since Open vSwitch 3.3; columns of newer servers are left out, so that an older server is understood too.
package vswitchdb

//go:generate go tool modelgen -extended -p vswitchdb -o . vswitch.ovsschema
