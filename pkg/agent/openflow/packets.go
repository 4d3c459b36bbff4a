package openflow

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"path/filepath"
)

// OpenFlow 1.5 (OpenFlow Switch Specification 1.5.1, 7.2.3, 7.3.2, 7.3.6 and 7.4.1).
const (
	typeSetConfig = 9
	typePacketIn  = 10
	typePacketOut = 13
	typeBarrier   = 20 // the reply has the next number
	wholePacket   = 0xffff
	noBuffer      = 0xffffffff
	matchOXM      = 1
	oxmInPort     = 0x80000004
	outputLength  = 16
	packetInMatch = 16 // where a packet's match begins

	portController = 0xfffffffd
	actionVendor   = 0xffff
	vendorNicira   = 0x2320
	actionTrack    = 35
	actionNAT      = 36
	natLength      = 16
	trackLength    = 24 + natLength
)

// Packet is a packet that a flow with the controller action sent.
type Packet struct {
	// Table is the table of that flow.
	Table int
	Frame []byte
}

// Packets exchanges packets with a bridge. One goroutine may receive while another one sends.
type Packets struct{ conn net.Conn }

// DialPackets connects to a bridge of the ovs-vswitchd whose run directory is runDir, and subscribes to the packets of
// flows with the controller action.
func DialPackets(ctx context.Context, runDir, bridge string) (*Packets, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(runDir, bridge+".mgmt"))
	if err != nil {
		return nil, err
	}
	// A connection to this socket receives no packets until it sets the number of bytes to send of each.
	config := binary.BigEndian.AppendUint16(make([]byte, 2), wholePacket)
	if _, err := conn.Write(append(message(typeHello, nil), message(typeSetConfig, config)...)); err != nil {
		conn.Close()
		return nil, err
	}
	return &Packets{conn}, nil
}

// Close closes the connection. A Receive that waits returns an error.
func (p *Packets) Close() error { return p.conn.Close() }

// Receive waits for the next packet.
func (p *Packets) Receive() (Packet, error) {
	for {
		kind, body, err := receive(p.conn)
		if err != nil {
			return Packet{}, err
		}
		if kind == typePacketIn {
			return readPacket(body)
		}
	}
}

func readPacket(body []byte) (Packet, error) {
	if len(body) < packetInMatch+4 {
		return Packet{}, fmt.Errorf("a packet-in of %d bytes", len(body))
	}
	length := int(binary.BigEndian.Uint16(body[packetInMatch+2:]))
	frame := packetInMatch + (length+7)/8*8 + 2 // the match is padded to 8 bytes
	if frame > len(body) {
		return Packet{}, fmt.Errorf("a packet-in of %d bytes with a match of %d", len(body), length)
	}
	return Packet{Table: int(body[7]), Frame: body[frame:]}, nil
}

// Action is the action that the bridge applies to a packet of Send.
type Action []byte

// Output returns the action that sends a packet to a port.
func Output(port int) Action {
	a := binary.BigEndian.AppendUint16(nil, 0)
	a = binary.BigEndian.AppendUint16(a, outputLength)
	a = binary.BigEndian.AppendUint32(a, uint32(port))
	return append(a, make([]byte, 8)...)
}

// Translate returns the action ct(zone=...,table=...,nat), which translates a packet in a conntrack zone and sends it to
// a table.
func Translate(zone, table int) Action {
	a := nicira(trackLength, actionTrack)
	a = append(a, make([]byte, 6)...) // no flags; the zone is an immediate value
	a = binary.BigEndian.AppendUint16(a, uint16(zone))
	a = append(a, byte(table), 0, 0, 0, 0, 0)
	return append(append(a, nicira(natLength, actionNAT)...), make([]byte, 6)...)
}

// nicira returns the header of an Open vSwitch extension action (openvswitch/nicira-ext.h, struct nx_action_conntrack
// and nx_action_nat).
func nicira(length, subtype uint16) Action {
	a := binary.BigEndian.AppendUint16(nil, actionVendor)
	a = binary.BigEndian.AppendUint16(a, length)
	a = binary.BigEndian.AppendUint32(a, vendorNicira)
	return binary.BigEndian.AppendUint16(a, subtype)
}

// Send has the bridge apply an action to a frame, with CONTROLLER as its in_port.
func (p *Packets) Send(frame []byte, action Action) error {
	body := binary.BigEndian.AppendUint32(nil, noBuffer)
	body = binary.BigEndian.AppendUint16(body, uint16(len(action)))
	body = append(body, 0, 0)
	body = binary.BigEndian.AppendUint16(body, matchOXM)
	body = binary.BigEndian.AppendUint16(body, 12) // the match without its padding
	body = binary.BigEndian.AppendUint32(body, oxmInPort)
	body = binary.BigEndian.AppendUint32(body, portController)
	body = append(append(body, 0, 0, 0, 0), action...)
	_, err := p.conn.Write(message(typePacketOut, append(body, frame...)))
	return err
}

// Flush waits until the bridge has processed all that was sent. A connection that is closed before may lose frames. It
// discards packets that arrive meanwhile.
func (p *Packets) Flush(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { p.conn.Close() })()
	if _, err := p.conn.Write(message(typeBarrier, nil)); err != nil {
		return err
	}
	for {
		if kind, _, err := receive(p.conn); err != nil || kind == typeBarrier+1 {
			return err
		}
	}
}
