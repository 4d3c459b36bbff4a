package openflow

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"
)

// peer is a switch that has said everything already.
type peer struct {
	io.Reader
	told bytes.Buffer
}

func (p *peer) Write(text []byte) (int, error) { return p.told.Write(text) }

// part is an answer with meters, each of which has its number of packets.
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

// An answer can come in parts, and the switch may ask whether somebody is there.
func TestAnAnswerInParts(t *testing.T) {
	said := bytes.Join([][]byte{message(typeHello, []byte{0, 1, 0, 8, 0, 0, 0, 0x40}), part(true, 1, 2), message(typeEchoRequest, []byte("ping")), part(false, 3)}, nil)
	p := &peer{Reader: bytes.NewReader(said)}
	got, err := askMeters(p)
	if err != nil || len(got) != 3 || got[3] != 3 {
		t.Errorf("%v, %v", got, err)
	}
	if !strings.HasSuffix(p.told.String(), string(message(typeEchoReply, []byte("ping")))) {
		t.Errorf("told % x", p.told.String())
	}
}

func TestAnAnswerThatIsNone(t *testing.T) {
	short := part(false, 1)
	binary.BigEndian.PutUint16(short[headerLength+8+4:], 7)
	for says, answer := range map[string][]byte{
		"EOF":                             nil,
		"the switch refuses: 00 01 00 05": message(typeError, []byte{0, 1, 0, 5}),
		"to another question":             message(typeMultipart+1, []byte{0, 1, 0, 0, 0, 0, 0, 0}),
		"a meter of 7 bytes":              short,
		"a message of 3 bytes":            {version15, typeHello, 0, 3, 0, 0, 0, 1},
	} {
		if got, err := askMeters(&peer{Reader: bytes.NewReader(answer)}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v (%v), wanted %q", got, err, says)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add(part(true, 1, 2))
	f.Add(part(false, 7))
	f.Add(message(typeError, nil))
	f.Fuzz(func(t *testing.T, answer []byte) {
		if got, err := askMeters(&peer{Reader: bytes.NewReader(answer)}); err == nil && got == nil {
			t.Error("neither meters nor an error")
		}
	})
}
