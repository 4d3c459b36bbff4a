package openflow

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"
)

// peer is a switch whose messages are fixed. It keeps what it receives.
type peer struct {
	io.Reader
	received bytes.Buffer
}

func (p *peer) Write(text []byte) (int, error) { return p.received.Write(text) }

// part returns a reply with meters whose packet counts equal their IDs.
func part(more bool, meters ...uint32) []byte {
	body := []byte{0, multipartMeter, 0, 0, 0, 0, 0, 0}
	if more {
		body[3] = multipartMore
	}
	for _, meter := range meters {
		m := make([]byte, meterLength+16) // with a band
		binary.BigEndian.PutUint32(m, meter)
		binary.BigEndian.PutUint16(m[4:], uint16(len(m)))
		binary.BigEndian.PutUint64(m[16:], uint64(meter))
		body = append(body, m...)
	}
	return message(typeMultipart+1, body)
}

// A reply can come in parts, and the switch may send an echo request between them.
func TestMetersInSeveralReplies(t *testing.T) {
	hello := message(typeHello, []byte{0, 1, 0, 8, 0, 0, 0, 0x40})
	sent := bytes.Join([][]byte{hello, part(true, 1, 2), message(typeEchoRequest, []byte("ping")), part(false, 3)}, nil)
	p := &peer{Reader: bytes.NewReader(sent)}
	got, err := requestMeters(p)
	if err != nil || len(got) != 3 || got[3] != 3 {
		t.Errorf("%v, %v", got, err)
	}
	if !strings.HasSuffix(p.received.String(), string(message(typeEchoReply, []byte("ping")))) {
		t.Errorf("the switch received % x", p.received.String())
	}
}

func TestInvalidMeterReplies(t *testing.T) {
	short := part(false, 1)
	binary.BigEndian.PutUint16(short[headerLength+8+4:], 7)
	for want, reply := range map[string][]byte{
		"EOF": nil,
		"the switch returned an OpenFlow error: 00 01 00 05": message(typeError, []byte{0, 1, 0, 5}),
		"that has no meters":             message(typeMultipart+1, []byte{0, 1, 0, 0, 0, 0, 0, 0}),
		"a meter of 7 bytes":             short,
		"an OpenFlow message of 3 bytes": {version15, typeHello, 0, 3, 0, 0, 0, 1},
	} {
		if got, err := requestMeters(&peer{Reader: bytes.NewReader(reply)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v (%v), want error %q", got, err, want)
		}
	}
}

func FuzzMeterReply(f *testing.F) {
	f.Add(part(true, 1, 2))
	f.Add(part(false, 7))
	f.Add(message(typeError, nil))
	f.Fuzz(func(t *testing.T, reply []byte) {
		if got, err := requestMeters(&peer{Reader: bytes.NewReader(reply)}); err == nil && got == nil {
			t.Error("neither meters nor an error")
		}
	})
}
