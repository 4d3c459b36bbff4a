package openflow

import (
	"encoding/binary"
	"fmt"
)

// A flow monitor of OpenFlow 1.5 (OpenFlow Switch Specification 1.5.1, 7.3.5.16).
const (
	multipartMonitor = 16
	anyPort          = 0xffffffff
	allTables        = 0xff
	updateLength     = 24 // an update before its match
	// Flags of a request.
	watchInitial, watchAdd, watchRemoved, watchModify, watchInstructions = 1, 2, 4, 8, 16

	watchAll = watchInitial | watchAdd | watchRemoved | watchModify | watchInstructions
	// Events of an update.
	updateInitial, updateAdded, updateRemoved, updateModified, updatePaused, updateResumed = 0, 1, 2, 3, 5, 6
)

// monitor encodes a request for the changes of flows that match these fields, whatever else they match.
func monitor(id uint32, flags uint16, fields []byte) []byte {
	body := binary.BigEndian.AppendUint16(nil, multipartMonitor)
	body = append(body, make([]byte, multipartLength-headerLength-len(body))...)
	body = binary.BigEndian.AppendUint32(body, id)
	body = binary.BigEndian.AppendUint32(body, anyPort)
	body = binary.BigEndian.AppendUint32(body, anyPort) // any group
	body = binary.BigEndian.AppendUint16(body, flags)
	body = append(body, allTables, 0) // 0: add
	body = binary.BigEndian.AppendUint16(body, matchOXM)
	body = binary.BigEndian.AppendUint16(body, uint16(4+len(fields)))
	body = append(body, fields...)
	return message(typeMultipart, append(body, make([]byte, (8-(4+len(fields))%8)%8)...)) // the match is padded to 8 bytes
}

// update is an event of a monitor.
type update struct {
	event  uint16
	table  int
	cookie uint64
	// identity is the flow's table, priority and match.
	identity string
	// fields are the match, and instructions what the flow does, both encoded.
	fields, instructions []byte
}

// isOfFlow reports whether the event is about one flow.
func (u update) isOfFlow() bool { return u.event <= updateModified }

// eachUpdate calls do with each update of a reply.
func eachUpdate(reply []byte, do func(update) error) error {
	const head = multipartLength - headerLength
	if len(reply) < head || binary.BigEndian.Uint16(reply) != multipartMonitor {
		return fmt.Errorf("a reply of %d bytes that has no updates of flows", len(reply))
	}
	for rest := reply[head:]; len(rest) > 0; {
		if len(rest) < 8 {
			return fmt.Errorf("an update of a flow with %d bytes", len(rest))
		}
		length := int(binary.BigEndian.Uint16(rest))
		if length < 8 || length > len(rest) {
			return fmt.Errorf("an update of a flow with %d bytes, but only %d bytes are left", length, len(rest))
		}
		u, err := readUpdate(rest[:length])
		if err == nil {
			err = do(u)
		}
		if err != nil {
			return err
		}
		rest = rest[length:]
	}
	return nil
}

func readUpdate(one []byte) (update, error) {
	u := update{event: binary.BigEndian.Uint16(one[2:])}
	if !u.isOfFlow() {
		return u, nil
	}
	if len(one) < updateLength+4 {
		return u, fmt.Errorf("an update of a flow with %d bytes", len(one))
	}
	end := updateLength + (int(binary.BigEndian.Uint16(one[updateLength+2:]))+7)/8*8 // the match is padded to 8 bytes
	if end > len(one) || end < updateLength+8 {
		return u, fmt.Errorf("an update of a flow with %d bytes and a match of %d", len(one), end-updateLength)
	}
	u.table, u.cookie = int(one[4]), binary.BigEndian.Uint64(one[16:])
	u.identity = string(one[4:5]) + string(one[10:12]) + string(one[updateLength:end]) // table, priority, match
	u.fields, u.instructions = one[updateLength+4:end], one[end:]
	return u, nil
}
