package resolver

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	// patience is how long a lookup waits for one reply of one name server.
	patience = 2 * time.Second
	// rounds is how often a lookup tries all name servers before it fails.
	rounds = 2
	// payload is the largest accepted UDP reply, in bytes. Replies of this size are not fragmented.
	payload = 1232
	// longestChain bounds the number of aliases that lead to an address.
	longestChain = 16
	dnsPort      = 53
)

// errServer is a reply that reports only a failure.
var errServer = errors.New("the name server failed")

// Client queries name servers.
type Client struct {
	// Servers returns the name servers in the order of queries. It is called for each lookup.
	Servers func() ([]netip.AddrPort, error)
}

// FromFile returns a function that reads the name servers from a file in the format of resolv.conf(5). It ignores the
// search list, because names are fully qualified.
func FromFile(path string) func() ([]netip.AddrPort, error) {
	return func() ([]netip.AddrPort, error) {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var servers []netip.AddrPort
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if len(fields) < 2 || fields[0] != "nameserver" {
				continue
			}
			if address, err := netip.ParseAddr(fields[1]); err == nil {
				servers = append(servers, netip.AddrPortFrom(address, dnsPort))
			}
		}
		if len(servers) == 0 {
			return nil, fmt.Errorf("%s lists no name server", path)
		}
		return servers, nil
	}
}

// Lookup queries the addresses of both families concurrently.
func (c *Client) Lookup(ctx context.Context, name string) (Answer, error) {
	servers, err := c.Servers()
	if err != nil {
		return Answer{}, err
	}
	types := [...]dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA}
	var answers [len(types)]Answer
	var errs [len(types)]error
	var queries sync.WaitGroup
	for i, t := range types {
		queries.Go(func() { answers[i], errs[i] = query(ctx, servers, name, t) })
	}
	queries.Wait()
	all, absent := Answer{TTL: MaxTTL}, 0
	for i, answer := range answers {
		switch {
		case errors.Is(errs[i], ErrAbsent):
			absent++
		case errs[i] != nil:
			err = errs[i]
		default:
			all.Addresses, all.TTL = append(all.Addresses, answer.Addresses...), min(all.TTL, answer.TTL)
		}
	}
	if absent == len(types) {
		return Answer{}, ErrAbsent
	}
	return all, err
}

// query queries the servers in order for addresses of one family, until one replies.
func query(ctx context.Context, servers []netip.AddrPort, name string, t dnsmessage.Type) (Answer, error) {
	question, err := questionOf(name, t)
	if err != nil {
		return Answer{}, err
	}
	failed := fmt.Errorf("no answer from the name servers %v", servers)
	for range rounds {
		for _, server := range servers {
			reply, err := exchange(ctx, server, question)
			if err != nil {
				if ctx.Err() != nil {
					return Answer{}, ctx.Err()
				}
				continue
			}
			answer, err := Read(reply, question)
			if !errors.Is(err, errServer) {
				return answer, err
			}
			failed = err
		}
	}
	return Answer{}, failed
}

func questionOf(name string, t dnsmessage.Type) (dnsmessage.Question, error) {
	full, err := dnsmessage.NewName(strings.TrimSuffix(name, ".") + ".")
	return dnsmessage.Question{Name: full, Type: t, Class: dnsmessage.ClassINET}, err
}

// exchange queries by UDP, and by TCP if the reply does not fit.
func exchange(ctx context.Context, server netip.AddrPort, question dnsmessage.Question) (*dnsmessage.Message, error) {
	for _, network := range []string{"udp", "tcp"} {
		reply, err := exchangeOver(ctx, network, server, question)
		if err != nil || !reply.Truncated {
			return reply, err
		}
	}
	return nil, errServer
}

func exchangeOver(ctx context.Context, network string, server netip.AddrPort, question dnsmessage.Question) (*dnsmessage.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	id := uint16(rand.Uint32())
	request, err := pack(id, question)
	if err != nil {
		return nil, err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, server.String())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if network == "tcp" {
		request = append(binary.BigEndian.AppendUint16(nil, uint16(len(request))), request...)
	}
	if _, err := conn.Write(request); err != nil {
		return nil, err
	}
	for {
		text, err := receive(conn, network)
		if err != nil {
			return nil, err
		}
		var reply dnsmessage.Message
		// Any other message is a late reply or an attempt to spoof one.
		if err := reply.Unpack(text); err == nil && reply.Response && reply.ID == id && len(reply.Questions) == 1 &&
			Same(reply.Questions[0], question) {
			return &reply, nil
		}
	}
}

func pack(id uint16, question dnsmessage.Question) ([]byte, error) {
	var edns dnsmessage.Resource
	edns.Body = &dnsmessage.OPTResource{}
	if err := edns.Header.SetEDNS0(payload, dnsmessage.RCodeSuccess, false); err != nil {
		return nil, err
	}
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: id, RecursionDesired: true},
		Questions: []dnsmessage.Question{question}, Additionals: []dnsmessage.Resource{edns}}
	return m.Pack()
}

func receive(conn net.Conn, network string) ([]byte, error) {
	if network == "udp" {
		buffer := make([]byte, payload)
		n, err := conn.Read(buffer)
		return buffer[:n], err
	}
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return nil, err
	}
	text := make([]byte, binary.BigEndian.Uint16(length[:]))
	_, err := io.ReadFull(conn, text)
	return text, err
}

// Same reports whether two questions are equal; names are compared without case.
func Same(a, b dnsmessage.Question) bool {
	return a.Type == b.Type && a.Class == b.Class && strings.EqualFold(a.Name.String(), b.Name.String())
}

// Read returns the addresses of the name and of its aliases. It ignores other addresses in a reply.
func Read(reply *dnsmessage.Message, question dnsmessage.Question) (Answer, error) {
	switch reply.RCode {
	case dnsmessage.RCodeSuccess:
	case dnsmessage.RCodeNameError:
		return Answer{}, ErrAbsent
	default:
		return Answer{}, fmt.Errorf("%w: %s", errServer, strings.TrimPrefix(reply.RCode.String(), "RCode"))
	}
	answer, name, ttl := Answer{}, strings.ToLower(question.Name.String()), uint32(math.MaxInt32)
	for range longestChain {
		alias := ""
		for _, r := range reply.Answers {
			if !strings.EqualFold(r.Header.Name.String(), name) {
				continue
			}
			switch body := r.Body.(type) {
			case *dnsmessage.AResource:
				answer.Addresses = append(answer.Addresses, netip.AddrFrom4(body.A))
			case *dnsmessage.AAAAResource:
				answer.Addresses = append(answer.Addresses, netip.AddrFrom16(body.AAAA).Unmap())
			case *dnsmessage.CNAMEResource:
				alias = strings.ToLower(body.CNAME.String())
			default:
				continue
			}
			ttl = min(ttl, r.Header.TTL)
		}
		if alias == "" || len(answer.Addresses) > 0 {
			break
		}
		name = alias
	}
	if len(answer.Addresses) == 0 {
		return Answer{}, ErrAbsent
	}
	answer.TTL = time.Duration(ttl) * time.Second
	return answer, nil
}
