package bfd

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// aPacket is a good packet, and its bytes as of RFC 5880 §4.1.
var (
	aPacket = Packet{Diagnostic: timeExpired, State: Up, Poll: true, Multiplier: 3, Mine: 0x01020304, Yours: 0x05060708,
		Transmit: 300 * time.Millisecond, Receive: 50 * time.Millisecond}
	itsBytes = []byte{0x21, 0xe0, 3, 24, 1, 2, 3, 4, 5, 6, 7, 8, 0, 4, 0x93, 0xe0, 0, 0, 0xc3, 0x50, 0, 0, 0, 0}
)

func TestPackets(t *testing.T) {
	if have := aPacket.Bytes(); !bytes.Equal(have, itsBytes) {
		t.Errorf("% x, want % x", have, itsBytes)
	}
	padded := append(bytes.Clone(itsBytes), 0, 0)
	for _, b := range [][]byte{itsBytes, padded} {
		have, err := Parse(b)
		if diff := cmp.Diff(aPacket, have); diff != "" || err != nil {
			t.Errorf("% x: %v (-want +have):\n%s", b, err, diff)
		}
	}
}

func TestBadPackets(t *testing.T) {
	for name, change := range map[string]func([]byte) []byte{
		"short":               func(b []byte) []byte { return b[:23] },
		"length too small":    func(b []byte) []byte { b[3] = 23; return b },
		"length too large":    func(b []byte) []byte { b[3] = 25; return b },
		"version 0":           func(b []byte) []byte { b[0] = 0x01; return b },
		"multipoint":          func(b []byte) []byte { b[1] |= flagMultipoint; return b },
		"authentication":      func(b []byte) []byte { b[1] |= flagAuthentication; return b },
		"multiplier 0":        func(b []byte) []byte { b[2] = 0; return b },
		"no discriminator":    func(b []byte) []byte { clear(b[4:8]); return b },
		"up without receiver": func(b []byte) []byte { clear(b[8:12]); return b },
	} {
		if p, err := Parse(change(bytes.Clone(itsBytes))); err == nil {
			t.Errorf("%s: accepted as %+v", name, p)
		}
	}
}

// What Parse accepts is sent the same, but for what a node never sends.
func FuzzParse(f *testing.F) {
	f.Add(itsBytes)
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Parse(b)
		if err != nil {
			return
		}
		again, err := Parse(p.Bytes())
		if err != nil || again != p {
			t.Errorf("%+v became %+v: %v", p, again, err)
		}
	})
}
