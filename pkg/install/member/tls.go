package member

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Both ends of a connection agree on its purpose by application protocol negotiation (RFC 7301): an order, or a
// socket of the member.
const protocolOrder = "weft-order"

func protocolOf(database string, raft bool) string {
	if raft {
		return "weft-" + database + "-raft"
	}
	return "weft-" + database
}

// Timeouts for a silent peer. The probes of raft and ovn-northd do not detect it, or only late, because these
// programs are connected to a socket of their own host.
const (
	dialTimeout = 5 * time.Second
	silence     = 10 * time.Second
)

var keepAlive = net.KeepAliveConfig{Enable: true, Idle: silence / 2, Interval: silence / 4, Count: 2}

// Identity is a key pair and the authority that signs the certificates of all its peers, in PEM.
type Identity struct{ Key, Cert, CA []byte }

// Files returns a function that reads an identity from files. It reads them at each call, so that replaced
// certificates take effect.
func Files(key, cert, ca string) func() (Identity, error) {
	return func() (id Identity, err error) {
		for path, into := range map[string]*[]byte{key: &id.Key, cert: &id.Cert, ca: &id.CA} {
			if *into, err = os.ReadFile(path); err != nil {
				return id, err
			}
		}
		return id, nil
	}
}

func (id Identity) config(protocols ...string) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(id.Cert, id.Key)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(id.CA) {
		return nil, errors.New("the CA file holds no certificate")
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
		MinVersion: tls.VersionTLS13, NextProtos: protocols}, nil
}

// dial connects to a member with TLS.
func dial(ctx context.Context, address string, id Identity, protocol string) (*tls.Conn, error) {
	config, err := id.config(protocol)
	if err != nil {
		return nil, err
	}
	dialer := &tls.Dialer{Config: config, NetDialer: &net.Dialer{Timeout: dialTimeout, KeepAliveConfig: keepAlive,
		Control: func(_, _ string, raw syscall.RawConn) error { return bound(raw) }}}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	secured, ok := conn.(*tls.Conn)
	if !ok {
		return nil, fmt.Errorf("%T is not a TLS connection", conn)
	}
	return secured, nil
}

// bound limits how long sent data may remain unacknowledged.
func bound(raw syscall.RawConn) error {
	var failed error
	err := raw.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silence.Milliseconds()))
	})
	return errors.Join(err, failed)
}
