package ovnexpr

import "strconv"

// FromPort matches what a logical port sends (ovn-sb(5), Logical_Flow.match).
func FromPort(name string) string { return "inport == " + strconv.Quote(name) }

// ToPort matches what a logical port receives.
func ToPort(name string) string { return "outport == " + strconv.Quote(name) }

// DatagramsToPort matches UDP datagrams to a destination port that leave a switch through one of its ports.
func DatagramsToPort(name string, number uint16) string {
	return ToPort(name) + " && udp.dst == " + strconv.Itoa(int(number))
}
