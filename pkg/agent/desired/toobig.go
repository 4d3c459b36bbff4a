package desired

import "fmt"

const (
	// TableAnswered gets the probes of package toobig after conntrack has translated them.
	TableAnswered = 3
	// RouterZone is the zone in which a gateway router translates the sources of packets to outside (option snat-ct-zone).
	RouterZone = 0
	// toAgent sends the whole packet to package toobig. go-openvswitch does not support the controller action and does not
	// list flows that consist of it. The load action, which has no effect, makes it list them.
	toAgent = "clone(controller(max_len=65535),load:0->NXM_NX_REG0[])"
)

// tooBig sends Packet Too Big messages to the agent that conntrack of the userspace datapath cannot relate to a
// connection or damages. The messages also go where they went before. The kernel's conntrack handles them correctly.
func (b ExternalBridge) tooBig() []Flow {
	if !b.Userspace {
		return nil
	}
	const message = "icmp6,icmp_type=2"
	flows := []Flow{{TableAnswered, 100, "ct_state=+est+rpl+trk,ipv6", toAgent}, {TableAnswered, 0, "", drop}}
	if b.Alone {
		return append(flows, Flow{0, 60, from(b.Physical) + "," + message + ",dl_dst=" + b.MAC, toAgent + "," + output(b.Patch)})
	}
	aboutDatagram := fmt.Sprintf("ct_state=+rel+trk,ct_mark=%#x,ct_nw_proto=17,%s", markOVN, message)
	return append(flows, Flow{tableTracked, 110, "ct_state=+inv+trk," + message, toAgent + "," + local},
		Flow{tableTracked, 110, aboutDatagram, toAgent + "," + output(b.Patch)})
}
