package resolver_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/weft-network/weft/pkg/process/resolver"
)

// script is a name server's reply to a question. nil means no reply.
type script func(m *dnsmessage.Message, tcp bool) *dnsmessage.Message

// serve runs a name server and returns its address.
func serve(t *testing.T, answer script) netip.AddrPort {
	t.Helper()
	stream, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := netip.MustParseAddrPort(stream.Addr().String())
	packets, err := net.ListenPacket("udp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stream.Close(); packets.Close() })
	reply := func(request []byte, tcp bool) []byte {
		var m dnsmessage.Message
		if err := m.Unpack(request); err != nil {
			t.Errorf("the question cannot be read: %v", err)
			return nil
		}
		m.Response, m.Additionals = true, nil
		made := answer(&m, tcp)
		if made == nil {
			return nil
		}
		text, err := made.Pack()
		if err != nil {
			t.Error(err)
		}
		return text
	}
	go func() {
		buffer := make([]byte, 1500)
		for {
			n, from, err := packets.ReadFrom(buffer)
			if err != nil {
				return
			}
			if text := reply(buffer[:n], false); text != nil {
				_, _ = packets.WriteTo(text, from)
			}
		}
	}()
	go func() {
		for {
			conn, err := stream.Accept()
			if err != nil {
				return
			}
			var length [2]byte
			if _, err := io.ReadFull(conn, length[:]); err == nil {
				request := make([]byte, binary.BigEndian.Uint16(length[:]))
				if _, err := io.ReadFull(conn, request); err == nil {
					text := reply(request, true)
					_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(text))), text...))
				}
			}
			conn.Close()
		}
	}()
	return at
}

func record(name string, ttl uint32, body dnsmessage.ResourceBody) dnsmessage.Resource {
	return dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName(name),
		Class: dnsmessage.ClassINET, TTL: ttl}, Body: body}
}

func a(name string, ttl uint32, address string) dnsmessage.Resource {
	return record(name, ttl, &dnsmessage.AResource{A: netip.MustParseAddr(address).As4()})
}

func aaaa(name string, ttl uint32, address string) dnsmessage.Resource {
	return record(name, ttl, &dnsmessage.AAAAResource{AAAA: netip.MustParseAddr(address).As16()})
}

// zone replies from records.
func zone(records ...dnsmessage.Resource) script {
	return func(m *dnsmessage.Message, _ bool) *dnsmessage.Message {
		for _, r := range records {
			switch r.Body.(type) {
			case *dnsmessage.AResource:
				if m.Questions[0].Type != dnsmessage.TypeA {
					continue
				}
			case *dnsmessage.AAAAResource:
				if m.Questions[0].Type != dnsmessage.TypeAAAA {
					continue
				}
			}
			m.Answers = append(m.Answers, r)
		}
		return m
	}
}

func failing(code dnsmessage.RCode) script {
	return func(m *dnsmessage.Message, _ bool) *dnsmessage.Message {
		m.RCode = code
		return m
	}
}

func silent(*dnsmessage.Message, bool) *dnsmessage.Message { return nil }

func TestLookup(t *testing.T) {
	dual := zone(a("www.example.org.", 60, "192.0.2.1"), aaaa("www.example.org.", 90, "2001:db8::1"),
		a("www.example.org.", 60, "192.0.2.2"))
	for name, test := range map[string]struct {
		servers []script
		want    string // addresses and TTL
		err     string
	}{
		"both families": {servers: []script{dual}, want: "[192.0.2.1 192.0.2.2 2001:db8::1] 1m0s"},
		"one family":    {servers: []script{zone(aaaa("WWW.example.ORG.", 7, "2001:db8::1"))}, want: "[2001:db8::1] 7s"},
		"a server that failed": {servers: []script{failing(dnsmessage.RCodeServerFailure), dual},
			want: "[192.0.2.1 192.0.2.2 2001:db8::1] 1m0s"},
		"a server that refuses": {servers: []script{failing(dnsmessage.RCodeRefused)}, err: "the name server failed: Refused"},
		"no such name":          {servers: []script{failing(dnsmessage.RCodeNameError)}, err: resolver.ErrAbsent.Error()},
		"no address":            {servers: []script{zone()}, err: resolver.ErrAbsent.Error()},
		"a silent server":       {servers: []script{silent, dual}, want: "[192.0.2.1 192.0.2.2 2001:db8::1] 1m0s"},
		"another's address": {servers: []script{zone(a("evil.example.org.", 60, "192.0.2.66"),
			a("www.example.org.", 60, "192.0.2.1"))}, want: "[192.0.2.1] 1m0s"},
		"an alias": {servers: []script{zone(a("edge.example.net.", 60, "192.0.2.9"),
			record("www.example.org.", 20, &dnsmessage.CNAMEResource{CNAME: dnsmessage.MustNewName("Lb.example.net.")}),
			record("lb.example.net.", 300, &dnsmessage.CNAMEResource{CNAME: dnsmessage.MustNewName("edge.example.net.")}))},
			want: "[192.0.2.9] 20s"},
		"aliases in a ring": {servers: []script{zone(record("www.example.org.", 20,
			&dnsmessage.CNAMEResource{CNAME: dnsmessage.MustNewName("www.example.org.")}))}, err: resolver.ErrAbsent.Error()},
		"one family alone is answered": {servers: []script{func(m *dnsmessage.Message, _ bool) *dnsmessage.Message {
			if m.Questions[0].Type == dnsmessage.TypeAAAA {
				m.RCode = dnsmessage.RCodeServerFailure
				return m
			}
			return dual(m, false)
		}}, want: "[192.0.2.1 192.0.2.2] 1m0s", err: "the name server failed: ServerFailure"},
		"too much for a datagram": {servers: []script{func(m *dnsmessage.Message, tcp bool) *dnsmessage.Message {
			if m.Truncated = !tcp; tcp {
				for i := range 200 {
					m = zone(a("www.example.org.", 60, fmt.Sprintf("192.0.2.%d", i)))(m, tcp)
				}
			}
			return m
		}}, want: "200 addresses"},
		"a guess before the answer": {servers: []script{func(m *dnsmessage.Message, _ bool) *dnsmessage.Message {
			m.ID++
			return m
		}, dual}, want: "[192.0.2.1 192.0.2.2 2001:db8::1] 1m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var servers []netip.AddrPort
			for _, s := range test.servers {
				servers = append(servers, serve(t, s))
			}
			c := resolver.Client{Servers: func() ([]netip.AddrPort, error) { return servers, nil }}
			got, err := c.Lookup(t.Context(), "www.example.org")
			if fmt.Sprint(err) != test.err && (err != nil || test.err != "") {
				t.Errorf("error %v, want %q", err, test.err)
			}
			slices.SortFunc(got.Addresses, netip.Addr.Compare)
			text := fmt.Sprint(got.Addresses, " ", got.TTL)
			if len(got.Addresses) > 100 {
				text = fmt.Sprint(len(got.Addresses), " addresses")
			}
			if test.want != "" && text != test.want {
				t.Errorf("got %s, want %s", text, test.want)
			}
		})
	}
}

// No server replies. The error is the same each time and does not contain the local port.
func TestNoServerAnswers(t *testing.T) {
	server := netip.MustParseAddrPort("127.0.0.1:1")
	c := resolver.Client{Servers: func() ([]netip.AddrPort, error) { return []netip.AddrPort{server}, nil }}
	if _, err := c.Lookup(t.Context(), "www.example.org"); err == nil || err.Error() != "no answer from the name servers [127.0.0.1:1]" {
		t.Errorf("error %v", err)
	}
}

func TestServersOfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	read := resolver.FromFile(path)
	if _, err := read(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v of a file that is not there", err)
	}
	for text, want := range map[string]string{
		"search example.org\nnameserver 192.0.2.1\n# nameserver 192.0.2.9\n" +
			"nameserver 2001:db8::1\noptions ndots:5\n": "[192.0.2.1:53 [2001:db8::1]:53] <nil>",
		"nameserver none\n": "[] " + path + " lists no name server",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		servers, err := read() // the current content
		if got := fmt.Sprint(servers, " ", err); got != want {
			t.Errorf("%q gives %s, want %s", text, got, want)
		}
	}
}

// scripted is a name server whose answer a test sets, and a clock.
type scripted struct {
	now     time.Time
	answer  resolver.Answer
	err     error
	queries atomic.Int32
}

func (s *scripted) lookup(context.Context, string) (resolver.Answer, error) {
	s.queries.Add(1)
	return s.answer, s.err
}

func (s *scripted) says(ttl time.Duration, addresses ...string) {
	s.answer, s.err = resolver.Answer{TTL: ttl}, nil
	for _, text := range addresses {
		s.answer.Addresses = append(s.answer.Addresses, netip.MustParseAddr(text))
	}
}

// TestAnAddressOutlivesItsAnswer: an address that an answer lacks stays as long as an earlier client may still use
// it.
func TestAnAddressOutlivesItsAnswer(t *testing.T) {
	s := &scripted{now: time.Unix(0, 0)}
	names := resolver.New(s.lookup, func() time.Time { return s.now })
	step := func(what string, pass time.Duration, again time.Duration, want string, queries int32) {
		t.Helper()
		s.now = s.now.Add(pass)
		if got := names.Resolve(t.Context(), "n"); got != again {
			t.Errorf("%s: come back after %s, want %s", what, got, again)
		}
		addresses, _, err := names.Known("n")
		var texts []string
		for _, a := range addresses {
			texts = append(texts, a.String())
		}
		if err != nil {
			texts = append(texts, err.Error())
		}
		if got := strings.Join(texts, " "); got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
		if got := s.queries.Load(); got != queries {
			t.Errorf("%s: %d queries, want %d", what, got, queries)
		}
	}
	s.says(time.Minute, "192.0.2.1", "192.0.2.2")
	step("the first answer", 0, time.Minute, "192.0.2.1 192.0.2.2", 1)
	step("before its end", 20*time.Second, 40*time.Second, "192.0.2.1 192.0.2.2", 1)
	s.says(10*time.Second, "192.0.2.2", "192.0.2.3")
	step("another", 40*time.Second, 10*time.Second, "192.0.2.1 192.0.2.2 192.0.2.3", 2)
	s.says(0, "192.0.2.3")
	step("a third, for no time", 10*time.Second, resolver.MinTTL, "192.0.2.1 192.0.2.2 192.0.2.3", 3)
	s.err, s.answer = errors.New("silence"), resolver.Answer{}
	step("none", 5*time.Second, 5*time.Second, "192.0.2.1 192.0.2.2 192.0.2.3 silence", 4)
	step("none again", 5*time.Second, 10*time.Second, "192.0.2.1 192.0.2.3 silence", 5)
	s.answer.Addresses = []netip.Addr{netip.MustParseAddr("2001:db8::1")}
	step("one family alone", 10*time.Second, 20*time.Second, "192.0.2.1 192.0.2.3 2001:db8::1 silence", 6)
	s.says(24*time.Hour, "192.0.2.3")
	step("the last", 20*time.Second, 10*time.Second, "192.0.2.1 192.0.2.3 2001:db8::1", 7)
	step("the first one's time is over", 10*time.Second, 10*time.Second, "192.0.2.3 2001:db8::1", 7)
	step("its one family's too", 10*time.Second, resolver.MaxTTL-20*time.Second, "192.0.2.3", 7)
	s.err, s.answer = resolver.ErrAbsent, resolver.Answer{}
	step("no such name", resolver.MaxTTL, 30*time.Second, "192.0.2.3 "+resolver.ErrAbsent.Error(), 8)
	step("for long", resolver.MaxTTL, 30*time.Second, resolver.ErrAbsent.Error(), 9)
}

// TestSeedsStayUntilAnAnswerLacksThem: a process that cannot query continues with the addresses of an earlier
// process.
func TestSeedsStayUntilAnAnswerLacksThem(t *testing.T) {
	s := &scripted{now: time.Unix(0, 0), err: errors.New("silence")}
	names := resolver.New(s.lookup, func() time.Time { return s.now })
	names.Seed("n", []netip.Addr{netip.MustParseAddr("192.0.2.1")})
	if _, queried, _ := names.Known("n"); queried || !names.Remembers("n") {
		t.Error("a seed counts as an answer")
	}
	for range 20 {
		s.now = s.now.Add(names.Resolve(t.Context(), "n"))
	}
	names.Seed("n", nil) // is too late
	if addresses, _, err := names.Known("n"); len(addresses) != 1 || err == nil {
		t.Errorf("%v, %v after failures", addresses, err)
	}
	s.says(time.Minute, "192.0.2.2")
	s.now = s.now.Add(time.Hour)
	for want := 2; want > 0; want-- {
		s.now = s.now.Add(names.Resolve(t.Context(), "n"))
		if addresses, _, _ := names.Known("n"); len(addresses) != want {
			t.Errorf("%v, want %d", addresses, want)
		}
	}
	names.Forget("n")
	if names.Remembers("n") {
		t.Error("it is not forgotten")
	}
}
