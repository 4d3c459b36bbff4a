package openflow

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"path/filepath"
)

// multipartPorts requests the descriptions of a bridge's ports (OpenFlow Switch Specification 1.5.1, 7.3.5.7).
const multipartPorts = 13

// HasPort reports whether ovs-vswitchd has made a bridge's port. runDir is its run directory.
func HasPort(ctx context.Context, runDir, bridge, port string) (bool, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(runDir, bridge+".mgmt"))
	if err != nil {
		return false, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	body := binary.BigEndian.AppendUint16(nil, multipartPorts)
	body = append(body, make([]byte, multipartLength-headerLength-len(body))...)
	body = append(binary.BigEndian.AppendUint32(body, anyPort), 0, 0, 0, 0)
	if _, err := conn.Write(append(message(typeHello, nil), message(typeMultipart, body)...)); err != nil {
		return false, err
	}
	name := append([]byte(port), 0) // a description has the name with zeros behind it
	for found := false; ; {
		kind, reply, err := receive(conn)
		if err != nil {
			return found, err
		}
		if kind != typeMultipart+1 || len(reply) < 4 {
			continue
		}
		found = found || bytes.Contains(reply, name)
		if binary.BigEndian.Uint16(reply[2:])&multipartMore == 0 {
			return found, nil
		}
	}
}
