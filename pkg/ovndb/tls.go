package ovndb

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// TLS says how a server at an "ssl:" remote and this process know each other: files in PEM, as ovs-vsctl's --private-key,
// --certificate and --ca-cert name them. They are read for each connection: who replaces them needs no restart, and nobody watches them. A key
// and a certificate that do not belong together, read while they were being replaced, are tried again like a server that is away.
type TLS struct {
	PrivateKey, Certificate, CACert string
	// ServerName is what the server's certificate must be for; empty: the remote's own host, by name or address.
	ServerName string
}

// errNoCertificates says that a CA file holds none.
var errNoCertificates = errors.New("holds no certificate")

// config reads the files. Servers of Open vSwitch have TLS 1.3 with OpenSSL 1.1.1 and newer.
func (t TLS) config(host string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(t.Certificate, t.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", t.Certificate, t.PrivateKey, err)
	}
	text, err := os.ReadFile(t.CACert)
	if err != nil {
		return nil, fmt.Errorf("CA certificates: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("CA certificates %s: %w", t.CACert, errNoCertificates)
	}
	return &tls.Config{RootCAs: roots, ServerName: cmp.Or(t.ServerName, host), MinVersion: tls.VersionTLS13,
		// Shown also where the server names other authorities: it then says that it does not know ours, not that there is none.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil },
	}, nil
}

// secure makes a TLS connection of one to a server. It closes conn if it fails.
func (t TLS) secure(ctx context.Context, conn net.Conn, host string, limit time.Duration) (net.Conn, error) {
	config, err := t.config(host)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return abrupt{secured, conn}, nil
}

// abrupt is a TLS connection that ends at once: tls.Conn's own Close waits up to 5 s for a peer that takes nothing.
type abrupt struct {
	*tls.Conn
	raw net.Conn
}

// Close implements net.Conn.
func (a abrupt) Close() error { return a.raw.Close() }
