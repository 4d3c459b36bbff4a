package ovndbtest

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"sync"
	"testing"
)

// Proxy sits between a client and a server and loses connections during one of every given number of transactions:
// half of the time before the server receives it, half of the time after the commit and before the reply.
type Proxy struct {
	listener net.Listener
	server   *Server
	every    int

	mu   sync.Mutex
	rand *rand.Rand
	cut  int
}

// StartProxy starts a proxy in front of the server. The seed decides which transactions are lost.
func StartProxy(t testing.TB, server *Server, every int, seed uint64) *Proxy {
	t.Helper()
	listener, err := net.Listen("unix", filepath.Join(server.dir, "proxy"))
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: listener, server: server, every: every, rand: rand.New(rand.NewPCG(seed, seed))}
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.serve()
	}()
	t.Cleanup(func() {
		listener.Close()
		<-done
	})
	return p
}

// Endpoint returns the proxy's OVSDB remote.
func (p *Proxy) Endpoint() string { return "unix:" + p.listener.Addr().String() }

// Cut counts the transactions that were lost.
func (p *Proxy) Cut() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut
}

func (p *Proxy) serve() {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		upstream, err := net.Dial("unix", p.server.socket())
		if err != nil {
			client.Close()
			continue
		}
		all.Go(func() { p.join(client, upstream) })
	}
}

// join copies both ways until either side ends or a transaction is to be lost.
func (p *Proxy) join(client, upstream net.Conn) {
	var both sync.WaitGroup
	both.Go(func() {
		defer client.Close()
		_, _ = io.Copy(client, upstream)
	})
	defer both.Wait()
	defer upstream.Close()
	defer client.Close()
	buffer := make([]byte, 1<<20)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		lose, after := false, false
		if bytes.Contains(buffer[:n], []byte(`"transact"`)) && bytes.Contains(buffer[:n], []byte(`"op":"wait"`)) {
			lose, after = p.dice()
		}
		if lose && after {
			client.Close() // so that the reply is lost
		}
		if !lose || after {
			if _, err := upstream.Write(buffer[:n]); err != nil {
				return
			}
		}
		if lose {
			return
		}
	}
}

func (p *Proxy) dice() (lose, after bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rand.IntN(p.every) != 0 {
		return false, false
	}
	p.cut++
	return true, p.rand.IntN(2) == 0
}
