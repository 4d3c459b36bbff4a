package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weft-network/weft/pkg/kubectl/connectivity"
	"github.com/weft-network/weft/test/poll"
)

var errFew = errors.New("too few datagrams")

// serving is a server on the loopback link.
type serving struct {
	tcp, udp, control string
	stop              func() error
}

func startServer(t *testing.T, name string) serving {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	path := filepath.Join(t.TempDir(), "s")
	l, err := listen(ctx, "127.0.0.1:0", path)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, name, l) }()
	s := serving{l.tcp.Addr().String(), l.udp.LocalAddr().String(), path, func() error {
		cancel()
		return <-ended
	}}
	t.Cleanup(func() { cancel() })
	return s
}

// Every kind of probe is answered by a real server, and fails without one.
func TestProbes(t *testing.T) {
	s := startServer(t, "web")
	results := Run(t.Context(), []connectivity.Probe{{Kind: connectivity.TCP, To: s.tcp}, {Kind: connectivity.UDP, To: s.udp},
		{Kind: connectivity.Open, To: s.tcp}, {Kind: connectivity.Size, To: s.udp}, {Kind: "smoke"}})
	for i, server := range []string{"web", "web", "", "web"} {
		if r := results[i]; r.Error != "" || r.Server != server || r.Attempts != 1 {
			t.Errorf("probe %d: %+v, want an answer of %q at the first attempt", i, r, server)
		}
	}
	if r := results[3]; r.Size != maxPacket || r.MTU != maxPacket {
		t.Errorf("the largest packet has %d bytes of %d, want %d", r.Size, r.MTU, maxPacket)
	}
	if r := results[4]; !strings.Contains(r.Error, "unknown kind") {
		t.Errorf("an unknown kind: %+v", r)
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	for _, r := range Run(t.Context(), []connectivity.Probe{{Kind: connectivity.TCP, To: s.tcp},
		{Kind: connectivity.UDP, To: s.udp, Patience: pause * 2}}) {
		if r.Error != "connection refused" {
			t.Errorf("without a server: %+v", r)
		}
	}
}

// A probe with patience is repeated until the server answers.
func TestPatience(t *testing.T) {
	s := startServer(t, "first")
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	result := make(chan connectivity.Result, 1)
	go func() {
		result <- Run(context.Background(), []connectivity.Probe{{Kind: connectivity.TCP, To: s.tcp, Patience: time.Minute}})[0]
	}()
	l, err := listen(t.Context(), s.tcp, filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { _ = serve(ctx, "second", l) }()
	if r := <-result; r.Server != "second" || r.Error != "" {
		t.Errorf("%+v, want an answer of the second server", r)
	}
}

func TestForeignDatagramsAreIgnored(t *testing.T) {
	for _, text := range [][]byte{nil, []byte("weft"), bytes.Repeat([]byte{'x'}, 100), header{kind: who}.marshal(0),
		marshalAnswer(header{kind: who}, 1, identity{"web"}, 0)[:headerSize+12]} {
		if _, _, _, err := parseAnswer(text); err == nil {
			t.Errorf("%q is an answer", text)
		}
	}
	answer := marshalAnswer(header{flown, 2, 3}, 4, identity{"web"}, 500)
	h, received, by, err := parseAnswer(answer)
	if err != nil || h != (header{flown, 2, 3}) || received != 4 || by.Server != "web" || len(answer) != 500 {
		t.Errorf("read %+v, %d, %+v of %d bytes, error %v", h, received, by, len(answer), err)
	}
}

func TestBisect(t *testing.T) {
	for _, limit := range []int{0, 575, 576, 577, 1399, 1400, 1401, 9000} {
		tried := 0
		want := min(limit, 1400)
		if limit < 576 {
			want = 0
		}
		if got := bisect(576, 1400, func(size int) bool { tried++; return size <= limit }); got != want || tried > 12 {
			t.Errorf("of %d: %d in %d attempts, want %d", limit, got, tried, want)
		}
	}
}

// A flow counts what a real server receives, also through the command, and what it does not.
func TestFlows(t *testing.T) {
	s, gone := startServer(t, "web"), startServer(t, "gone")
	if err := gone.stop(); err != nil {
		t.Fatal(err)
	}
	request := func(r connectivity.FlowRequest) (f connectivity.Flows) {
		t.Helper()
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := forward(t.Context(), s.control, bytes.NewReader(text), &out); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(out.Bytes(), &f); err != nil {
			t.Fatalf("%v: %s", err, out.String())
		}
		return f
	}
	request(connectivity.FlowRequest{Start: []string{s.udp, gone.udp}, Interval: leastInterval})
	err := poll.Slowly(t.Context(), time.Minute, func() error {
		if f := request(connectivity.FlowRequest{}); f.Flows[0].Sent < 20 || f.Flows[1].Sent < 20 {
			return errFew
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // stopping twice changes nothing
		f := request(connectivity.FlowRequest{Stop: true})
		if got := f.Flows[0]; f.Received[got.ID] != got.Sent || got.Answered != got.Sent ||
			got.LostThere != 0 || got.LostBack != 0 || got.To != s.udp || got.Error != "" {
			t.Errorf("to the server: %+v", got)
		}
		if got := f.Flows[1]; got.LostThere != got.Sent || got.LostBack != 0 || got.Gap == 0 || got.Error != "connection refused" {
			t.Errorf("to nobody: %+v", got)
		}
	}
}

// Losses there and back are distinguished by the server's count.
func TestTally(t *testing.T) {
	var c tally
	at := time.Unix(1900000000, 0)
	for i := range 10 {
		c.sent(at.Add(time.Duration(i) * 100 * time.Millisecond))
	}
	for i, received := range []uint64{1, 2, 3, 4} { // of 10, the server received 7 and its answers to 4 returned
		c.answered(header{flown, 1, uint64(i)}, received, at.Add(time.Duration(i)*100*time.Millisecond))
	}
	if got := c.state("", at.Add(900*time.Millisecond)); got.Sent != 10 || got.LostThere != 0 || got.LostBack != 0 {
		t.Errorf("datagrams of the last second are lost: %+v", got)
	}
	c.answered(header{kind: count, flow: 1}, 7, at.Add(time.Second))
	c.finish()
	got := c.state("", at.Add(time.Hour))
	if got.LostThere != 3 || got.LostBack != 3 || got.Gap != 600*time.Millisecond || !got.GapAt.Equal(at.Add(300*time.Millisecond)) {
		t.Errorf("%+v, want 3 lost there, 3 lost back, and a gap of 600 ms", got)
	}
}

func TestLinkMTU(t *testing.T) {
	if mtu, err := linkMTU(netip.MustParseAddr("127.0.0.1")); err != nil || mtu == 0 {
		t.Errorf("MTU %d, error %v", mtu, err)
	}
	if _, err := linkMTU(netip.MustParseAddr("192.0.2.1")); err == nil {
		t.Error("an address of no link has an MTU")
	}
}
