package cniwire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func podRequest() Request {
	return Request{
		Version:     Version,
		Command:     Add,
		ContainerID: "0123456789abcdef",
		NetNS:       "/run/netns/cni-1234",
		IfName:      "eth0",
		Args: Args{PodNamespace: "demo", PodName: "web-0", PodUID: "6e1d6d5a-4c2a-4b57-a6e2-3f2f1e9d8c7b",
			InfraContainerID: "0123456789abcdef"},
		Config: json.RawMessage(`{"cniVersion":"1.0.0","name":"weft","type":"weft-cni"}`),
	}
}

func TestAMessageArrivesUnchanged(t *testing.T) {
	var stream bytes.Buffer
	if err := Write(&stream, podRequest()); err != nil {
		t.Fatal(err)
	}
	var got Request
	if err := Read(&stream, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(podRequest(), got); diff != "" {
		t.Errorf("received (-sent +got):\n%s", diff)
	}
	if stream.Len() != 0 {
		t.Errorf("%d bytes left", stream.Len())
	}
}

func framed(length uint32, message string) string {
	return string(binary.BigEndian.AppendUint32(nil, length)) + message
}

func TestReadOfGarbage(t *testing.T) {
	for name, test := range map[string]struct {
		stream string
		coded  bool
		text   string
	}{
		"nothing":                   {"", false, "EOF"},
		"half a length":             {"\x00\x00", false, "unexpected EOF"},
		"half a message":            {framed(10, `{"a"`), false, "message ends after 4 of 10 bytes"},
		"only a length":             {framed(10, ""), false, "message ends after 0 of 10 bytes"},
		"an HTTP request":           {"GET / HTTP/1.1\r\n\r\n", true, "above the limit"},
		"bare JSON":                 {`{"version":1}`, true, "above the limit"},
		"one byte too many":         {framed(MaxMessage+1, ""), true, "above the limit"},
		"the largest length":        {framed(1<<32-1, ""), true, "above the limit"},
		"an empty message":          {framed(0, ""), true, "decode message"},
		"invalid JSON":              {framed(3, "{{{"), true, "decode message"},
		"another kind of value":     {framed(2, "17"), true, "decode message"},
		"a field of the wrong type": {framed(15, `{"version":"1"}`), true, "decode message"},
		"binary":                    {framed(4, "\xff\x00\xfe\x01"), true, "decode message"},
	} {
		t.Run(name, func(t *testing.T) {
			var req Request
			err := Read(strings.NewReader(test.stream), &req)
			if err == nil || !strings.Contains(err.Error(), test.text) {
				t.Errorf("Read: %v", err)
			}
			var coded *Error
			if errors.As(err, &coded) != test.coded || coded != nil && coded.Code != CodeDecodingFailure {
				t.Errorf("error %#v", err)
			}
		})
	}
}

func TestWriteRefusesWhatReadWouldRefuse(t *testing.T) {
	var stream bytes.Buffer
	if err := Write(&stream, strings.Repeat("x", MaxMessage)); err == nil || stream.Len() != 0 {
		t.Errorf("Write: %v, %d bytes written", err, stream.Len())
	}
	if err := Write(&stream, strings.Repeat("x", MaxMessage-2)); err != nil {
		t.Errorf("Write of the largest message: %v", err)
	}
	var message string
	if err := Read(&stream, &message); err != nil || len(message) != MaxMessage-2 {
		t.Errorf("Read of the largest message: %v", err)
	}
}

// FuzzRead feeds arbitrary bytes to Read: the result is an error, or a request that Validate accepts or refuses with
// a code.
func FuzzRead(f *testing.F) {
	var stream bytes.Buffer
	if err := Write(&stream, podRequest()); err != nil {
		f.Fatal(err)
	}
	f.Add(stream.Bytes())
	f.Add([]byte(framed(2, "{}")))
	f.Fuzz(func(t *testing.T, message []byte) {
		var req Request
		if err := Read(bytes.NewReader(message), &req); err != nil {
			return
		}
		err := req.Validate(NetNSRoots())
		var coded *Error
		if err != nil && !errors.As(err, &coded) {
			t.Errorf("Validate of %q: error without a code: %v", message, err)
		}
		if err := Write(io.Discard, req); err != nil {
			t.Errorf("Write of the received request: %v", err)
		}
	})
}
