package probe

import (
	"encoding/binary"
	"encoding/json"
	"errors"
)

// A datagram has a header of headerSize bytes. Answers repeat it and add the number of datagrams of the flow that the
// server has received, the server's identity in JSON, and zeros up to the size of the request.
//
//	magic (4) | kind (1) | flow (8) | number (8)
const headerSize = 4 + 1 + 8 + 8

var magic = [4]byte{'w', 'e', 'f', 't'}

// The kinds of datagrams.
const (
	who   byte = 'w' // answered with the server's identity
	flown byte = 'f' // counted, and answered
	count byte = 'c' // answered with the count of the flow, and not counted
)

// answered is added to the kind in answers.
const answered byte = 0x80

type header struct {
	kind         byte
	flow, number uint64
}

// identity is what a server answers.
type identity struct {
	Server string `json:"server"`
}

var errForeign = errors.New("not a datagram of weft probe")

// marshal returns a datagram of at least size bytes.
func (h header) marshal(size int) []byte {
	text := make([]byte, max(size, headerSize))
	copy(text, magic[:])
	text[4] = h.kind
	binary.BigEndian.PutUint64(text[5:], h.flow)
	binary.BigEndian.PutUint64(text[13:], h.number)
	return text
}

func parseHeader(text []byte) (h header, err error) {
	if len(text) < headerSize || [4]byte(text) != magic {
		return h, errForeign
	}
	return header{text[4], binary.BigEndian.Uint64(text[5:]), binary.BigEndian.Uint64(text[13:])}, nil
}

// marshalAnswer returns the answer to a request of size bytes, and at least as long.
func marshalAnswer(h header, received uint64, by identity, size int) []byte {
	h.kind |= answered
	text := binary.BigEndian.AppendUint64(h.marshal(0), received)
	name, _ := json.Marshal(by) // a string cannot fail
	text = append(text, byte(len(name)))
	text = append(text, name...)
	return append(text, make([]byte, max(0, size-len(text)))...)
}

// parseAnswer reads what marshalAnswer returns.
func parseAnswer(text []byte) (h header, received uint64, by identity, err error) {
	const least = headerSize + 8 + 1
	if h, err = parseHeader(text); err != nil || h.kind&answered == 0 || len(text) < least {
		return h, 0, by, errForeign
	}
	h.kind &^= answered
	received = binary.BigEndian.Uint64(text[headerSize:])
	name := text[least:]
	if length := int(text[least-1]); length <= len(name) {
		err = json.Unmarshal(name[:length], &by)
	} else {
		err = errForeign
	}
	return h, received, by, err
}
