// Package vswitchdb is the generated model of the Open_vSwitch database. The schema file beside it contains the part
// that Weft reads or writes, as of Open vSwitch 3.3. It omits columns of newer servers, so that Weft works with older
// servers too.
package vswitchdb

//go:generate go tool modelgen -extended -p vswitchdb -o . vswitch.ovsschema
