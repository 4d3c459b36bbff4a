package pki

import (
	"crypto/tls"
	"crypto/x509"
	"net/netip"
	"testing"
	"time"
)

func TestIssuedPairServesItsAddress(t *testing.T) {
	now := time.Now()
	ca, err := NewAuthority("ca", now)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Issue(Subject{Name: "api", Groups: []string{"g"}, Addresses: []netip.Addr{netip.MustParseAddr("fd00::1")}}, now)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.Cert)
	if _, err := parsed.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "fd00::1", CurrentTime: now}); err != nil {
		t.Error(err)
	}
	if _, err := parsed.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "fd00::2", CurrentTime: now}); err == nil {
		t.Error("the certificate is valid for an address that it does not name")
	}
}
