package member

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"
)

// RelayName is the common name of the relays' certificates, by which a Source recognizes them.
const RelayName = "weft-relay"

// Source forwards relays to the socket of this host's southbound database, where no role restricts a client. A relay
// applies OVN's role itself before it forwards the transactions of ovn-controllers, and its own certificate is no
// chassis'. ovsdb-server cannot be this listener, because it accepts every certificate of its authority, and that
// authority signs each chassis.
type Source struct {
	// Address is the TCP address to listen on.
	Address string
	// Run is the folder of the database's socket.
	Run string
	// Identity is the southbound database's own.
	Identity func() (Identity, error)
	Log      *slog.Logger
}

// Serve accepts connections until ctx ends.
func (s *Source) Serve(ctx context.Context) error { return accept(ctx, s.Address, s.Log, s.serve) }

func (s *Source) serve(ctx context.Context, conn net.Conn) error {
	id, err := s.Identity()
	if err != nil {
		return err
	}
	config, err := id.config()
	if err != nil {
		return err
	}
	config.VerifyConnection = func(state tls.ConnectionState) error { return relay(state.PeerCertificates[0]) }
	secured, err := secure(ctx, conn, config)
	if err != nil {
		return err
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	return pipe(ctx, secured, own(s.Run, "sb"))
}

// relay returns an error unless the certificate is a relay's. A node of that name has a certificate of the same name, but
// not for servers (pki.Authority.SignChassis).
func relay(cert *x509.Certificate) error {
	if cert.Subject.CommonName != RelayName || !slices.Contains(cert.ExtKeyUsage, x509.ExtKeyUsageServerAuth) {
		return fmt.Errorf("the certificate of %s is not a relay's", cert.Subject)
	}
	return nil
}
