package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/netip"
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func authority(t *testing.T, name string) *Authority {
	t.Helper()
	a, err := NewAuthority(name, now)
	if err != nil {
		t.Fatal(err)
	}
	if a, err = ReadAuthority(a.Pair); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestAPairIsReissuedWhenItMust(t *testing.T) {
	a, other := authority(t, "one"), authority(t, "one")
	s := Subject{Name: "sb", Addresses: []netip.Addr{netip.MustParseAddr("fd00::10"), netip.MustParseAddr("192.0.2.10")}}
	pair, err := a.Issue(s, now)
	if err != nil {
		t.Fatal(err)
	}
	second, err := a.Issue(s, now)
	if err != nil {
		t.Fatal(err)
	}
	moved := Subject{Name: "sb", Addresses: s.Addresses[:1]}
	for name, c := range map[string]struct {
		authority *Authority
		pair      Pair
		subject   Subject
		at        time.Time
		want      string
	}{
		"good":                     {a, pair, s, now, ""},
		"good until a third":       {a, pair, s, now.Add(LeafValidity*2/3 - time.Hour), ""},
		"about to expire":          {a, pair, s, now.Add(LeafValidity*2/3 + time.Hour), "expires"},
		"another authority":        {other, pair, s, now, "another authority"},
		"an address was removed":   {a, pair, moved, now, "other addresses"},
		"another name":             {a, pair, Subject{Name: "nb", Addresses: s.Addresses}, now, "another name"},
		"key of another pair":      {a, Pair{pair.Cert, second.Key}, s, now, "does not match"},
		"nothing":                  {a, Pair{}, s, now, "no certificate"},
		"a certificate, no key":    {a, Pair{Cert: pair.Cert}, s, now, "no private key"},
		"another type of PEM file": {a, Pair{[]byte("-----BEGIN X-----\n-----END X-----"), pair.Key}, s, now, "no certificate"},
	} {
		have := c.authority.ReissueReason(c.pair, c.subject, c.at)
		if have != c.want && (c.want == "" || !strings.Contains(have, c.want)) {
			t.Errorf("%s: %q, want %q", name, have, c.want)
		}
	}
}

// TestAChassisHasItsNameAndIsNotAServer signs a request for more than a chassis may have, and checks that the
// certificate verifies for clients only.
func TestAChassisHasItsNameAndIsNotAServer(t *testing.T) {
	a := authority(t, "southbound")
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "n1", Organization: []string{"system:masters"}}, DNSNames: []string{"sb"},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	request, err := x509.ParseCertificateRequest(der)
	if err != nil {
		t.Fatal(err)
	}
	text, err := a.SignChassis(request, now, 100*LeafValidity)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := firstCertificate(text)
	if err != nil {
		t.Fatal(err)
	}
	if cert.Subject.String() != "CN=n1" || len(cert.DNSNames) > 0 || cert.NotAfter.After(now.Add(LeafValidity)) {
		t.Errorf("%s, DNS names %q, until %s: more than may be signed", cert.Subject, cert.DNSNames, cert.NotAfter)
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	for usage, good := range map[x509.ExtKeyUsage]bool{x509.ExtKeyUsageClientAuth: true, x509.ExtKeyUsageServerAuth: false} {
		_, err := cert.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage}})
		if (err == nil) != good {
			t.Errorf("usage %d: %v", usage, err)
		}
	}
}

func TestALeafIsNotAnAuthority(t *testing.T) {
	a := authority(t, "one")
	leaf, err := a.Issue(Subject{Name: "x"}, now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ReadAuthority(leaf); err == nil {
		t.Error("a leaf was accepted as an authority")
	}
	if _, err := tls.X509KeyPair(leaf.Cert, leaf.Key); err != nil {
		t.Error(err)
	}
}

func TestSignedBy(t *testing.T) {
	a, b := authority(t, "one"), authority(t, "one")
	pair, err := a.Issue(Subject{Name: "n1"}, now)
	if err != nil {
		t.Fatal(err)
	}
	both := append(append([]byte{}, b.Cert...), a.Cert...)
	file := append(append([]byte{}, pair.Key...), pair.Cert...)
	for name, c := range map[string]struct {
		pair, authorities []byte
		want              bool
	}{
		"its authority":       {file, a.Cert, true},
		"beside another":      {file, both, true},
		"another of its name": {file, b.Cert, false},
		"no authority":        {file, nil, false},
		"no certificate":      {pair.Key, both, false},
	} {
		if have := SignedBy(c.pair, c.authorities); have != c.want {
			t.Errorf("%s: %t", name, have)
		}
	}
}
