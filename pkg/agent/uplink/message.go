package uplink

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Message is an address, route, neighbour or rule of a link, with every attribute: the body of its rtnetlink message, in
// which 0 or "*" replaces the link. It preserves attributes for which the netlink library has no field, such as the
// metric of an address.
type Message struct {
	// Text is a human-readable form.
	Text string `json:"text"`
	// Body is the header and the attributes (rtnetlink(7)).
	Body []byte `json:"body"`
}

// Lengths of the headers of linux/if_addr.h, rtnetlink.h, neighbour.h and fib_rules.h, in bytes.
const (
	addressHeader  = 8
	routeHeader    = 12
	neighborHeader = 12
	ruleHeader     = 12
)

const (
	ifaProtocol        = 11  // IFA_PROTO of linux/if_addr.h
	rtaNexthopID       = 30  // RTA_NH_ID of linux/rtnetlink.h
	ruleFlagsPermitted = 0x2 // FIB_RULE_INVERT; the other flags are the kernel's
	clockTicks         = 100 // USER_HZ
	forever            = 0xffffffff
)

// kept are the address flags that are configuration. The other flags are the state of the address.
const kept = unix.IFA_F_NOPREFIXROUTE | unix.IFA_F_MANAGETEMPADDR | unix.IFA_F_HOMEADDRESS | unix.IFA_F_MCAUTOJOIN

// errNexthopObject means that a route cannot be moved to another link.
var errNexthopObject = refuse("a route uses a nexthop object (ip nexthop), which names its link by itself")

// link identifies the link of a message.
type link struct {
	index int
	name  string
}

type attribute struct {
	kind  uint16
	value []byte
}

func decode(b []byte) ([]attribute, error) {
	var attributes []attribute
	for len(b) >= unix.SizeofRtAttr {
		length := int(binary.NativeEndian.Uint16(b))
		if length < unix.SizeofRtAttr || length > len(b) {
			return nil, fmt.Errorf("netlink attribute of %d bytes in %d", length, len(b))
		}
		kind := binary.NativeEndian.Uint16(b[2:]) & 0x3fff
		attributes = append(attributes, attribute{kind, slices.Clone(b[unix.SizeofRtAttr:length])})
		b = b[min(aligned(length), len(b)):]
	}
	return attributes, nil
}

func encode(header []byte, attributes []attribute) []byte {
	body := slices.Clone(header)
	for _, a := range attributes {
		length := unix.SizeofRtAttr + len(a.value)
		body = binary.NativeEndian.AppendUint16(body, uint16(length))
		body = binary.NativeEndian.AppendUint16(body, a.kind)
		body = append(body, a.value...)
		body = append(body, make([]byte, aligned(length)-length)...)
	}
	return body
}

func aligned(length int) int { return (length + 3) &^ 3 }

func u32(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }

func find(attributes []attribute, kind uint16) []byte {
	for _, a := range attributes {
		if a.kind == kind {
			return a.value
		}
	}
	return nil
}

func number(attributes []attribute, kind uint16) uint32 {
	if v := find(attributes, kind); len(v) >= 4 {
		return binary.NativeEndian.Uint32(v)
	}
	return 0
}

// parts splits a message into header and attributes. It ignores attributes that cannot be decoded.
func (m Message) parts(header int) ([]byte, []attribute) {
	if len(m.Body) < header {
		return make([]byte, header), nil
	}
	attributes, _ := decode(m.Body[header:])
	return slices.Clone(m.Body[:header]), attributes
}

// only returns the attributes of these kinds, in this order.
func only(attributes []attribute, kinds ...uint16) []attribute {
	var found []attribute
	for _, kind := range kinds {
		if v := find(attributes, kind); v != nil {
			found = append(found, attribute{kind, v})
		}
	}
	return found
}

// newAddress decodes an address of the link. ok is false for an address of another link, and for an address that
// duplicate detection found on another host.
func newAddress(body []byte, on link) (m Message, ok bool, err error) {
	if len(body) < addressHeader || binary.NativeEndian.Uint32(body[4:]) != uint32(on.index) {
		return m, false, nil
	}
	all, err := decode(body[addressHeader:])
	if err != nil {
		return m, false, err
	}
	flags := number(all, unix.IFA_FLAGS)
	if flags&unix.IFA_F_DADFAILED != 0 {
		return m, false, nil
	}
	header := []byte{body[0], body[1], 0, body[3], 0, 0, 0, 0}
	var attributes []attribute
	for _, a := range only(all, unix.IFA_ADDRESS, unix.IFA_LOCAL, unix.IFA_LABEL, unix.IFA_BROADCAST, unix.IFA_CACHEINFO, unix.IFA_FLAGS,
		unix.IFA_RT_PRIORITY, ifaProtocol) {
		switch {
		case a.kind == unix.IFA_FLAGS:
			a.value = u32(flags & kept)
		case a.kind == unix.IFA_LABEL:
			a.value = []byte(unbound(cString(a.value), on.name) + "\x00")
		case a.kind == unix.IFA_CACHEINFO && len(a.value) >= 8:
			if binary.NativeEndian.Uint32(a.value) == forever && binary.NativeEndian.Uint32(a.value[4:]) == forever {
				continue
			}
			a.value = append(slices.Clone(a.value[:8]), make([]byte, 8)...) // the kernel sets the timestamps
		}
		attributes = append(attributes, a)
	}
	m.Body = encode(header, attributes)
	m.Text = m.prefix().String()
	return m, true, nil
}

// prefix returns the address with the length of its subnet's prefix.
func (m Message) prefix() netip.Prefix {
	header, attributes := m.parts(addressHeader)
	value := find(attributes, unix.IFA_LOCAL)
	if value == nil {
		value = find(attributes, unix.IFA_ADDRESS)
	}
	address, _ := netip.AddrFromSlice(value)
	return netip.PrefixFrom(address, int(header[1]))
}

// lifetime returns how long an address is valid, in seconds. limited is false if it is valid forever.
func (m Message) lifetime() (seconds uint32, limited bool) {
	_, attributes := m.parts(addressHeader)
	info := find(attributes, unix.IFA_CACHEINFO)
	if len(info) < 8 {
		return 0, false
	}
	seconds = binary.NativeEndian.Uint32(info[4:])
	return seconds, seconds != forever
}

// addressOn returns the body that adds the address to a link. It disables IPv6's duplicate detection, because this host
// had the address a moment ago.
func (m Message) addressOn(to link) []byte {
	header, attributes := m.parts(addressHeader)
	binary.NativeEndian.PutUint32(header[4:], uint32(to.index))
	for i, a := range attributes {
		switch {
		case a.kind == unix.IFA_FLAGS && header[0] == unix.AF_INET6:
			attributes[i].value = u32(number(attributes, unix.IFA_FLAGS) | unix.IFA_F_NODAD)
		case a.kind == unix.IFA_LABEL:
			attributes[i].value = []byte(bound(cString(a.value), to.name) + "\x00")
		}
	}
	return encode(header, attributes)
}

// addressKey identifies an address. It excludes the lifetime, which decreases.
func (m Message) addressKey() string {
	header, attributes := m.parts(addressHeader)
	return string(encode(header, only(attributes, unix.IFA_ADDRESS, unix.IFA_LOCAL, unix.IFA_FLAGS, unix.IFA_RT_PRIORITY)))
}

// newRoute decodes a route over the link. ok is false for routes over other links, and for routes of table local, which
// the kernel adds with addresses.
func newRoute(body []byte, on link) (m Message, ok bool, err error) {
	if len(body) < routeHeader || body[7] != unix.RTN_UNICAST || binary.NativeEndian.Uint32(body[8:])&unix.RTM_F_CLONED != 0 {
		return m, false, nil
	}
	all, err := decode(body[routeHeader:])
	if err != nil {
		return m, false, err
	}
	hops, throughHops, err := unboundHops(find(all, unix.RTA_MULTIPATH), on.index)
	if err != nil {
		return m, false, err
	}
	if number(all, unix.RTA_OIF) != uint32(on.index) && !throughHops || number(all, unix.RTA_TABLE) == unix.RT_TABLE_LOCAL {
		return m, false, nil
	}
	if find(all, rtaNexthopID) != nil {
		return m, false, errNexthopObject
	}
	header := slices.Clone(body[:routeHeader])
	binary.NativeEndian.PutUint32(header[8:], binary.NativeEndian.Uint32(header[8:])&(unix.RTNH_F_ONLINK|unix.RTNH_F_PERVASIVE))
	var attributes []attribute
	for _, a := range all {
		switch a.kind {
		case unix.RTA_OIF:
			a.value = u32(0)
		case unix.RTA_MULTIPATH:
			a.value = hops
		case unix.RTA_CACHEINFO:
			if len(a.value) < 12 || int32(binary.NativeEndian.Uint32(a.value[8:])) <= 0 {
				continue
			}
			a = attribute{unix.RTA_EXPIRES, u32(binary.NativeEndian.Uint32(a.value[8:])/clockTicks + 1)}
		}
		attributes = append(attributes, a)
	}
	slices.SortStableFunc(attributes, func(a, b attribute) int { return int(a.kind) - int(b.kind) })
	m.Body = encode(header, attributes)
	m.Text = routeText(header, attributes)
	return m, true, nil
}

func routeText(header []byte, attributes []attribute) string {
	text := "default"
	if address, ok := netip.AddrFromSlice(find(attributes, unix.RTA_DST)); ok {
		text = netip.PrefixFrom(address, int(header[1])).String()
	}
	if gateway, ok := netip.AddrFromSlice(find(attributes, unix.RTA_GATEWAY)); ok {
		text += " via " + gateway.String()
	}
	return fmt.Sprintf("%s table %d metric %d", text, number(attributes, unix.RTA_TABLE), number(attributes, unix.RTA_PRIORITY))
}

// gateway returns the next hop of a default route in table main.
func (m Message) gateway() (netip.Addr, bool) {
	header, attributes := m.parts(routeHeader)
	if header[1] != 0 || number(attributes, unix.RTA_TABLE) != unix.RT_TABLE_MAIN {
		return netip.Addr{}, false
	}
	return netip.AddrFromSlice(find(attributes, unix.RTA_GATEWAY))
}

// isDefault reports whether the route is a default route in table main.
func (m Message) isDefault() bool {
	header, attributes := m.parts(routeHeader)
	return header[1] == 0 && number(attributes, unix.RTA_TABLE) == unix.RT_TABLE_MAIN
}

// ofKernel reports whether the kernel itself adds the route, together with an address.
func (m Message) ofKernel() bool {
	header, _ := m.parts(routeHeader)
	return header[5] == unix.RTPROT_KERNEL
}

// routeOn returns the body that adds the route to a link. It adds one to the metric of a route from a router
// advertisement, and the copy expires with the route's lifetime. The kernel refreshes only routes that it has added
// itself, and it adds none while another route has the same metric.
func (m Message) routeOn(to link) []byte {
	header, attributes := m.parts(routeHeader)
	advertised := header[0] == unix.AF_INET6 && header[5] == unix.RTPROT_RA
	for i, a := range attributes {
		switch a.kind {
		case unix.RTA_OIF:
			attributes[i].value = u32(uint32(to.index))
		case unix.RTA_MULTIPATH:
			attributes[i].value = boundHops(a.value, to.index)
		case unix.RTA_PRIORITY:
			if advertised {
				attributes[i].value = u32(number(attributes, unix.RTA_PRIORITY) + 1)
			}
		}
	}
	return encode(header, attributes)
}

// routeKey identifies a route. It excludes the expiry, which decreases.
func (m Message) routeKey() string {
	header, attributes := m.parts(routeHeader)
	return string(encode(header, slices.DeleteFunc(attributes, func(a attribute) bool { return a.kind == unix.RTA_EXPIRES })))
}

// nexthopHeader is the length of struct rtnexthop in bytes: length, flags, hops and link.
const nexthopHeader = 8

// unboundHops replaces the link by 0 in the next hops of a multipath route. uses reports whether any next hop uses the
// link.
func unboundHops(value []byte, index int) (hops []byte, uses bool, err error) {
	hops = slices.Clone(value)
	err = eachHop(hops, func(hop []byte) {
		hop[2] &= unix.RTNH_F_ONLINK | unix.RTNH_F_PERVASIVE
		if binary.NativeEndian.Uint32(hop[4:]) == uint32(index) {
			uses = true
			binary.NativeEndian.PutUint32(hop[4:], 0)
		}
	})
	return hops, uses, err
}

func boundHops(value []byte, index int) []byte {
	hops := slices.Clone(value)
	_ = eachHop(hops, func(hop []byte) {
		if binary.NativeEndian.Uint32(hop[4:]) == 0 {
			binary.NativeEndian.PutUint32(hop[4:], uint32(index))
		}
	})
	return hops
}

func eachHop(hops []byte, do func(hop []byte)) error {
	for len(hops) >= nexthopHeader {
		length := int(binary.NativeEndian.Uint16(hops))
		if length < nexthopHeader || length > len(hops) {
			return fmt.Errorf("next hop of %d bytes in %d", length, len(hops))
		}
		do(hops[:length])
		hops = hops[min(aligned(length), len(hops)):]
	}
	return nil
}

// newNeighbor decodes a permanent neighbour entry of the link.
func newNeighbor(body []byte, on link) (m Message, ok bool, err error) {
	if len(body) < neighborHeader || binary.NativeEndian.Uint32(body[4:]) != uint32(on.index) ||
		binary.NativeEndian.Uint16(body[8:])&unix.NUD_PERMANENT == 0 || body[0] != unix.AF_INET && body[0] != unix.AF_INET6 {
		return m, false, nil
	}
	all, err := decode(body[neighborHeader:])
	if err != nil {
		return m, false, err
	}
	header := slices.Clone(body[:neighborHeader])
	binary.NativeEndian.PutUint32(header[4:], 0)
	attributes := only(all, unix.NDA_DST, unix.NDA_LLADDR)
	m.Body = encode(header, attributes)
	address, _ := netip.AddrFromSlice(find(attributes, unix.NDA_DST))
	m.Text = fmt.Sprintf("%s at %x", address, find(attributes, unix.NDA_LLADDR))
	return m, true, nil
}

func (m Message) neighborOn(to link) []byte {
	header, attributes := m.parts(neighborHeader)
	binary.NativeEndian.PutUint32(header[4:], uint32(to.index))
	return encode(header, attributes)
}

// newRule decodes a rule that names the link.
func newRule(body []byte, on link) (m Message, ok bool, err error) {
	if len(body) < ruleHeader {
		return m, false, nil
	}
	attributes, err := decode(body[ruleHeader:])
	if err != nil {
		return m, false, err
	}
	for i, a := range attributes {
		if (a.kind == unix.FRA_IIFNAME || a.kind == unix.FRA_OIFNAME) && cString(a.value) == on.name {
			attributes[i].value, ok = []byte("*\x00"), true
		}
	}
	if !ok {
		return m, false, nil
	}
	header := slices.Clone(body[:ruleHeader])
	binary.NativeEndian.PutUint32(header[8:], binary.NativeEndian.Uint32(header[8:])&ruleFlagsPermitted)
	m.Body = encode(header, attributes)
	m.Text = fmt.Sprintf("rule %d", number(attributes, unix.FRA_PRIORITY))
	return m, true, nil
}

func (m Message) ruleOn(to link) []byte {
	header, attributes := m.parts(ruleHeader)
	for i, a := range attributes {
		if a.kind == unix.FRA_IIFNAME || a.kind == unix.FRA_OIFNAME {
			attributes[i].value = []byte(bound(cString(a.value), to.name) + "\x00")
		}
	}
	return encode(header, attributes)
}

func cString(b []byte) string { return strings.TrimRight(string(b), "\x00") }

// unbound replaces the link's name by "*" at the start of a label: "eth0:1" becomes "*:1".
func unbound(label, name string) string {
	if rest, ok := strings.CutPrefix(label, name); ok && (rest == "" || rest[0] == ':') {
		return "*" + rest
	}
	return label
}

// bound reverses unbound. If the label would be too long, it returns the link's name.
func bound(label, name string) string {
	rest, ok := strings.CutPrefix(label, "*")
	switch {
	case !ok:
		return label
	case len(name)+len(rest) >= unix.IFNAMSIZ:
		return name
	}
	return name + rest
}

// deletedOn returns the body that removes the route from a link. Unlike routeOn it does not change the metric.
func (m Message) deletedOn(from link) []byte {
	header, attributes := m.parts(routeHeader)
	for i, a := range attributes {
		switch a.kind {
		case unix.RTA_OIF:
			attributes[i].value = u32(uint32(from.index))
		case unix.RTA_MULTIPATH:
			attributes[i].value = boundHops(a.value, from.index)
		}
	}
	return encode(header, attributes)
}
