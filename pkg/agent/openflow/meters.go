package openflow

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"time"
)

// This package implements parts of OpenFlow 1.5 itself (OpenFlow Switch Specification 1.5.1, 7.1 and 7.3.5.13), because
// go-openvswitch does not support meters. br-int allows this version because ovn-controller uses it too.
const (
	version15        = 6
	typeHello        = 0
	typeError        = 1
	typeEchoRequest  = 2
	typeEchoReply    = 3
	typeMultipart    = 18 // a reply has the next number
	multipartMeter   = 9
	multipartMore    = 1
	allMeters        = 0xffffffff
	headerLength     = 8
	multipartLength  = 16
	meterLength      = 40 // without the bands
	metersTimeout    = 5 * time.Second
	multipartRequest = 24
)

// MeterPackets returns the number of packets that reached each meter of a bridge, by meter ID. It includes packets that
// the meter dropped. runDir is ovs-vswitchd's run directory.
func MeterPackets(ctx context.Context, runDir, bridge string) (map[uint32]uint64, error) {
	socket := filepath.Join(runDir, bridge+".mgmt")
	ctx, cancel := context.WithTimeout(ctx, metersTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	packets, err := requestMeters(conn)
	if err != nil {
		return nil, fmt.Errorf("%s: meters: %w", socket, err)
	}
	return packets, nil
}

func requestMeters(conn io.ReadWriter) (map[uint32]uint64, error) {
	hello := message(typeHello, nil)
	body := binary.BigEndian.AppendUint16(nil, multipartMeter)
	body = append(body, make([]byte, 6)...)
	body = binary.BigEndian.AppendUint32(body, allMeters)
	request := message(typeMultipart, append(body, make([]byte, multipartRequest-headerLength-len(body))...))
	if _, err := conn.Write(append(hello, request...)); err != nil {
		return nil, err
	}
	found := map[uint32]uint64{}
	for {
		kind, text, err := receive(conn)
		if err != nil {
			return nil, err
		}
		if kind != typeMultipart+1 {
			continue
		}
		if more, err := readMeters(text, found); err != nil || !more {
			return found, err
		}
	}
}

// message encodes an OpenFlow message with transaction ID 1.
func message(kind byte, body []byte) []byte {
	m := []byte{version15, kind}
	m = binary.BigEndian.AppendUint16(m, uint16(headerLength+len(body)))
	m = binary.BigEndian.AppendUint32(m, 1)
	return append(m, body...)
}

// receive returns the next message. It replies to echo requests. An error message is an error.
func receive(conn io.ReadWriter) (kind byte, body []byte, err error) {
	for {
		kind, body, err := readMessage(conn)
		switch {
		case err != nil:
			return 0, nil, err
		case kind == typeError:
			return 0, nil, fmt.Errorf("the switch returned an OpenFlow error: % x", body[:min(len(body), 4)])
		case kind != typeEchoRequest:
			return kind, body, nil
		}
		if _, err := conn.Write(message(typeEchoReply, body)); err != nil {
			return 0, nil, err
		}
	}
}

func readMessage(conn io.Reader) (kind byte, body []byte, err error) {
	var header [headerLength]byte
	if _, err := io.ReadFull(conn, header[:]); err != nil {
		return 0, nil, err
	}
	length := int(binary.BigEndian.Uint16(header[2:]))
	if length < headerLength {
		return 0, nil, fmt.Errorf("an OpenFlow message of %d bytes", length)
	}
	body = make([]byte, length-headerLength)
	_, err = io.ReadFull(conn, body)
	return header[1], body, err
}

// readMeters adds the meters of one part of a reply to found. more reports whether another part follows.
func readMeters(text []byte, found map[uint32]uint64) (more bool, err error) {
	const head = multipartLength - headerLength
	if len(text) < head || binary.BigEndian.Uint16(text) != multipartMeter {
		return false, fmt.Errorf("a reply of %d bytes that has no meters", len(text))
	}
	more = binary.BigEndian.Uint16(text[2:])&multipartMore != 0
	for text = text[head:]; len(text) > 0; {
		if len(text) < meterLength {
			return false, fmt.Errorf("a meter of %d bytes", len(text))
		}
		length := int(binary.BigEndian.Uint16(text[4:]))
		if length < meterLength || length > len(text) {
			return false, fmt.Errorf("a meter of %d bytes, but only %d bytes are left", length, len(text))
		}
		found[binary.BigEndian.Uint32(text)] = binary.BigEndian.Uint64(text[16:])
		text = text[length:]
	}
	return more, nil
}
