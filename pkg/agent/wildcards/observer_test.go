package wildcards

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

const (
	podAddress = "10.244.0.5:40000"
	server     = "10.96.0.10:53"
)

func question(name string, of dnsmessage.Type) dnsmessage.Question {
	return dnsmessage.Question{Name: dnsmessage.MustNewName(name), Type: of, Class: dnsmessage.ClassINET}
}

func pack(m dnsmessage.Message) []byte {
	text, err := m.Pack()
	if err != nil {
		panic(err)
	}
	return text
}

func queryOf(id uint16, name string, of dnsmessage.Type) []byte {
	return pack(dnsmessage.Message{Header: dnsmessage.Header{ID: id, RecursionDesired: true},
		Questions: []dnsmessage.Question{question(name, of)}})
}

// answerOf answers with addresses, which belong to an alias if that is set.
func answerOf(id uint16, name, alias string, ttl time.Duration, addresses ...string) []byte {
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: id, Response: true},
		Questions: []dnsmessage.Question{question(name, dnsmessage.TypeA)}}
	header := func(of string) dnsmessage.ResourceHeader {
		return dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName(of), Class: dnsmessage.ClassINET, TTL: uint32(ttl / time.Second)}
	}
	owner := name
	if alias != "" {
		m.Answers = append(m.Answers, dnsmessage.Resource{Header: header(name),
			Body: &dnsmessage.CNAMEResource{CNAME: dnsmessage.MustNewName(alias)}})
		owner = alias
	}
	for _, text := range addresses {
		a := netip.MustParseAddr(text)
		if a.Is6() {
			m.Questions[0].Type = dnsmessage.TypeAAAA
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: header(owner), Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
			continue
		}
		m.Answers = append(m.Answers, dnsmessage.Resource{Header: header(owner), Body: &dnsmessage.AResource{A: a.As4()}})
	}
	return pack(m)
}

// bed is an observer at a time.
type bed struct {
	*observer
	now time.Time
}

func newBed(reported []networkv1alpha1.ObservedWildcard, names ...string) *bed {
	b := &bed{newObserver(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	b.want(names, []netip.Addr{netip.MustParseAddrPort(server).Addr(), netip.MustParseAddr("fd02::a")}, reported, b.now)
	return b
}

func (b *bed) sends(message []byte, from, to string, link int) bool {
	return b.take(packet{link, netip.MustParseAddrPort(from), netip.MustParseAddrPort(to), message}, false, b.now)
}

func (b *bed) gets(message []byte, from, to string, link int) bool {
	return b.take(packet{link, netip.MustParseAddrPort(from), netip.MustParseAddrPort(to), message}, true, b.now)
}

// resolves passes a query and its answer.
func (b *bed) resolves(name string, ttl time.Duration, addresses ...string) bool {
	of := dnsmessage.TypeA
	if netip.MustParseAddr(addresses[0]).Is6() {
		of = dnsmessage.TypeAAAA
	}
	b.sends(queryOf(1, name, of), podAddress, server, 3)
	return b.gets(answerOf(1, name, "", ttl, addresses...), server, podAddress, 3)
}

func (b *bed) text() string {
	list, _, full := b.known(b.now)
	var texts []string
	for _, w := range list {
		texts = append(texts, fmt.Sprint(w.Name, w.Addresses))
	}
	if full {
		texts = append(texts, "full")
	}
	return strings.Join(texts, " ")
}

func TestWhichAnswersCount(t *testing.T) {
	query, answer := queryOf(7, "www.example.com.", dnsmessage.TypeA), answerOf(7, "www.example.com.", "", time.Minute, "192.0.2.1")
	const link = 3
	for name, c := range map[string]struct {
		events func(b *bed)
		want   string
	}{
		"an answer": {func(b *bed) {
			b.sends(query, podAddress, server, link)
			b.gets(answer, server, podAddress, link)
		}, "*.example.com[192.0.2.1]"},
		"another case": {func(b *bed) {
			b.sends(queryOf(7, "wWw.ExAmple.com.", dnsmessage.TypeA), podAddress, server, link)
			b.gets(answerOf(7, "wWw.ExAmple.com.", "", time.Minute, "192.0.2.1"), server, podAddress, link)
		}, "*.example.com[192.0.2.1]"},
		"an alias elsewhere": {func(b *bed) {
			b.sends(query, podAddress, server, link)
			b.gets(answerOf(7, "www.example.com.", "edge.example.net.", time.Minute, "192.0.2.9"), server, podAddress, link)
		}, "*.example.com[192.0.2.9]"},
		"a deeper name": {func(b *bed) { b.resolves("a.b.example.com.", time.Minute, "192.0.2.2") }, "*.example.com[192.0.2.2]"},
		"both families": {func(b *bed) {
			b.resolves("www.example.com.", time.Minute, "2001:db8::1")
			b.resolves("www.example.com.", time.Minute, "192.0.2.1")
		}, "*.example.com[192.0.2.1 2001:db8::1]"},
		"the domain itself":     {func(b *bed) { b.resolves("example.com.", time.Minute, "192.0.2.3") }, ""},
		"another domain":        {func(b *bed) { b.resolves("www.badexample.com.", time.Minute, "192.0.2.4") }, ""},
		"an address of no host": {func(b *bed) { b.resolves("www.example.com.", time.Minute, "169.254.169.254", "127.0.0.1") }, ""},
		"no query": {func(b *bed) {
			b.gets(answer, server, podAddress, link)
		}, ""},
		"a server of the pod's own": {func(b *bed) {
			b.sends(query, podAddress, "203.0.113.5:53", link)
			b.gets(answer, "203.0.113.5:53", podAddress, link)
		}, ""},
		"a second answer": {func(b *bed) {
			b.sends(query, podAddress, server, link)
			b.gets(answer, server, podAddress, link)
			b.gets(answerOf(7, "www.example.com.", "", time.Minute, "192.0.2.66"), server, podAddress, link)
		}, "*.example.com[192.0.2.1]"},
		"another question in the answer": {func(b *bed) {
			b.sends(query, podAddress, server, link)
			b.gets(answerOf(7, "other.example.com.", "", time.Minute, "192.0.2.66"), server, podAddress, link)
		}, ""},
		"another ID": {func(b *bed) {
			b.sends(query, podAddress, server, link)
			b.gets(answerOf(8, "www.example.com.", "", time.Minute, "192.0.2.66"), server, podAddress, link)
		}, ""},
		"another pod's link": {func(b *bed) {
			b.sends(query, podAddress, server, link)
			b.gets(answer, server, podAddress, link+1)
		}, ""},
		"an answer that the pod sends": {func(b *bed) {
			b.sends(query, podAddress, server, link)
			b.sends(answer, server, podAddress, link)
		}, ""},
		"a late answer": {func(b *bed) {
			b.sends(query, podAddress, server, link)
			b.now = b.now.Add(patience + time.Second)
			b.gets(answer, server, podAddress, link)
		}, ""},
		"no such name": {func(b *bed) {
			b.sends(query, podAddress, server, link)
			m := dnsmessage.Message{Header: dnsmessage.Header{ID: 7, Response: true, RCode: dnsmessage.RCodeNameError},
				Questions: []dnsmessage.Question{question("www.example.com.", dnsmessage.TypeA)}}
			b.gets(pack(m), server, podAddress, link)
		}, ""},
		"an answer that is cut off": {func(b *bed) {
			b.sends(query, podAddress, server, link)
			b.gets(answer[:len(answer)-3], server, podAddress, link)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(nil, "*.example.com")
			c.events(b)
			if got := b.text(); got != c.want {
				t.Errorf("known are %q, want %q", got, c.want)
			}
		})
	}
}

func TestHowLongAddressesStay(t *testing.T) {
	b := newBed([]networkv1alpha1.ObservedWildcard{{Name: "*.example.com", Addresses: []networkv1alpha1.IP{"192.0.2.9"}},
		{Name: "*.former.example", Addresses: []networkv1alpha1.IP{"192.0.2.10"}}}, "*.example.com", "*.www.example.com")
	if !b.resolves("a.www.example.com.", time.Minute, "192.0.2.1") || !b.resolves("b.example.com.", 12*time.Hour, "192.0.2.2") {
		t.Fatal("the answers are not new")
	}
	if b.resolves("a.www.example.com.", time.Minute, "192.0.2.1") {
		t.Error("an address that is known already is reported as new")
	}
	want := "*.example.com[192.0.2.1 192.0.2.2 192.0.2.9] *.www.example.com[192.0.2.1]"
	if got := b.text(); got != want {
		t.Errorf("known are %q, want %q", got, want)
	}
	b.now = b.now.Add(30 * time.Minute)
	b.resolves("a.www.example.com.", time.Minute, "192.0.2.1") // renews
	b.now = b.now.Add(40 * time.Minute)
	if got, want := b.text(), "*.example.com[192.0.2.1 192.0.2.2] *.www.example.com[192.0.2.1]"; got != want {
		t.Errorf("after the hour of the reported address, known are %q, want %q", got, want)
	}
	if _, until, _ := b.known(b.now); until != b.now.Add(20*time.Minute) {
		t.Errorf("the first address stays until %s", until)
	}
	b.now = b.now.Add(time.Hour)
	if got, want := b.text(), "*.example.com[192.0.2.2]"; got != want {
		t.Errorf("after an hour, known are %q, want %q", got, want)
	}
	b.now = b.now.Add(longest)
	if got := b.text(); got != "" || b.count != 0 {
		t.Errorf("after a day, known are %q, and %d are counted", got, b.count)
	}
}

func TestNamesChange(t *testing.T) {
	b := newBed(nil, "*.example.com", "*.example.org")
	b.resolves("www.example.com.", time.Minute, "192.0.2.1")
	b.resolves("www.example.org.", time.Minute, "192.0.2.2")
	b.want([]string{"*.example.org"}, b.servers, nil, b.now)
	// What was reported for a name that was wanted before is not newer than what is known.
	b.want([]string{"*.example.net", "*.example.org"}, b.servers, []networkv1alpha1.ObservedWildcard{
		{Name: "*.example.net", Addresses: []networkv1alpha1.IP{"192.0.2.3", "bad"}},
		{Name: "*.example.org", Addresses: []networkv1alpha1.IP{"192.0.2.4"}}}, b.now)
	if got, want := b.text(), "*.example.net[192.0.2.3] *.example.org[192.0.2.2]"; got != want || b.count != 2 {
		t.Errorf("known are %q, want %q; %d are counted", got, want, b.count)
	}
}

func TestLimits(t *testing.T) {
	b := newBed(nil, "*.example.com", "*.example.org")
	fill := func(name string, first, n int) (changes int) {
		for i := range n {
			a := netip.AddrFrom4([4]byte{198, 18, byte((first + i) >> 8), byte(first + i)})
			if b.resolves(name, time.Minute, a.String()) {
				changes++
			}
		}
		return changes
	}
	if n := fill("www.example.com.", 0, networkv1alpha1.MaxAddressesOfWildcard); n != networkv1alpha1.MaxAddressesOfWildcard {
		t.Fatalf("%d changes", n)
	}
	if n := fill("www.example.com.", 2000, 3); n != 1 || !strings.HasSuffix(b.text(), "full") {
		t.Errorf("%d changes beyond the limit, want 1, which reports it", n)
	}
	if n := fill("www.example.org.", 0, 1); n != 1 {
		t.Error("another name has no room")
	}
	list, _, _ := b.known(b.now)
	if i := slices.IndexFunc(list, func(w networkv1alpha1.ObservedWildcard) bool { return w.Name == "*.example.com" }); i < 0 ||
		len(list[i].Addresses) != networkv1alpha1.MaxAddressesOfWildcard {
		t.Error("the status would be refused")
	}
	b.want([]string{"*.example.org"}, b.servers, nil, b.now)
	if strings.HasSuffix(b.text(), "full") {
		t.Error("the limit is still reported, although the name with many addresses is gone")
	}
	b.want([]string{"*.example.com", "*.example.org"}, b.servers, nil, b.now)
	b.now = b.now.Add(2 * time.Hour)
	if got := b.text(); got != "" {
		t.Errorf("after the addresses expired: %s", got)
	}
	for i := range maxQueries + 10 {
		b.sends(queryOf(uint16(i), "www.example.com.", dnsmessage.TypeA), podAddress, server, i)
	}
	if len(b.queries) != maxQueries {
		t.Errorf("%d queries wait", len(b.queries))
	}
	b.now = b.now.Add(patience + time.Second)
	if !b.resolves("www.example.com.", time.Minute, "192.0.2.1") {
		t.Error("old queries leave no room for new ones")
	}
}

func FuzzMessages(f *testing.F) {
	f.Add(queryOf(7, "www.example.com.", dnsmessage.TypeA), answerOf(7, "www.example.com.", "a.example.net.", time.Minute, "192.0.2.1"))
	f.Fuzz(func(t *testing.T, query, answer []byte) {
		b := newBed(nil, "*.example.com")
		b.sends(query, podAddress, server, 3)
		b.gets(answer, server, podAddress, 3)
		if (b.text() == "") != (b.count == 0) {
			t.Errorf("known are %q, and %d are counted", b.text(), b.count)
		}
	})
}
