package ovnexpr

import "strconv"

// FromPort matches what a logical port sends (ovn-sb(5), Logical_Flow.match).
func FromPort(name string) string { return "inport == " + strconv.Quote(name) }

// ToPort matches what a logical port receives.
func ToPort(name string) string { return "outport == " + strconv.Quote(name) }
