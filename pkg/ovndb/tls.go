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

// TLS names the PEM files with which a server at an "ssl:" remote and this process authenticate each other, like
// ovs-vsctl's --private-key, --certificate and --ca-cert. They are read for each connection, so that replacing them
// needs neither a restart nor a file watch. If a key and a certificate do not match because they are being replaced,
// the connection is retried, as for an unreachable server.
type TLS struct {
	PrivateKey, Certificate, CACert string
	// ServerName is the name or address that the server's certificate must be valid for. The default is the remote's
	// host.
	ServerName string
}

// errNoCertificates means that a CA file contains no certificate.
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
		// The certificate is sent even if the server names other authorities, so that the server reports an unknown
		// certificate and not a missing one.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil },
	}, nil
}

// secure wraps a connection to a server in TLS. It closes conn if it fails.
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

// abrupt is a TLS connection that closes at once. tls.Conn's own Close waits up to 5 s for a peer that accepts
// nothing.
type abrupt struct {
	*tls.Conn
	raw net.Conn
}

// Close implements net.Conn.
func (a abrupt) Close() error { return a.raw.Close() }
