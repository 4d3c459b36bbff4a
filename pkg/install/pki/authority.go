package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
)

const (
	// AuthorityValidity is the lifetime of an authority's certificate.
	AuthorityValidity = 10 * 365 * 24 * time.Hour
	// LeafValidity is the maximum lifetime of any other certificate.
	LeafValidity = 365 * 24 * time.Hour
	// early backdates certificates for peers whose clocks are behind.
	early = time.Hour
)

// ChassisSigner is the signer of chassis certificates (CertificateSigningRequest.spec.signerName).
const ChassisSigner = "network.weft.dev/chassis"

// ChassisUsages returns the usages of a chassis certificate.
func ChassisUsages() []certificatesv1.KeyUsage {
	return []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
}

// Pair is a certificate and its private key, PEM encoded.
type Pair struct{ Cert, Key []byte }

// Subject is the owner of a pair. Peers identify servers by address and clients by name.
type Subject struct {
	Name      string
	Addresses []netip.Addr
}

// Authority signs certificates.
type Authority struct {
	Pair
	cert *x509.Certificate
	key  crypto.Signer
}

// NewAuthority creates a self-signed authority.
func NewAuthority(name string, now time.Time) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := newTemplate(Subject{Name: name}, now, AuthorityValidity)
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("authority %s: %w", name, err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return ReadAuthority(Pair{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	})
}

// ReadAuthority parses the Pair of an Authority.
func ReadAuthority(pair Pair) (*Authority, error) {
	cert, err := firstCertificate(pair.Cert)
	if err != nil {
		return nil, err
	}
	key, err := readKey(pair.Key)
	if err != nil {
		return nil, err
	}
	if !cert.IsCA || !publicEqual(cert, key) {
		return nil, errors.New("certificate and key do not belong to an authority")
	}
	return &Authority{pair, cert, key}, nil
}

// Issue creates a pair that is valid for both servers and clients.
func (a *Authority) Issue(s Subject, now time.Time) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, err
	}
	cert, err := a.sign(s, key.Public(), now, LeafValidity, x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth)
	return Pair{cert, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})}, err
}

// SignChassis signs a node's request for a chassis certificate. Of the request it uses only the common name and the
// public key.
func (a *Authority) SignChassis(request *x509.CertificateRequest, now time.Time, validity time.Duration) ([]byte, error) {
	return a.sign(Subject{Name: request.Subject.CommonName}, request.PublicKey, now, min(validity, LeafValidity),
		x509.ExtKeyUsageClientAuth)
}

func (a *Authority) sign(s Subject, public crypto.PublicKey, now time.Time, validity time.Duration,
	usages ...x509.ExtKeyUsage,
) ([]byte, error) {
	template, err := newTemplate(s, now, validity)
	if err != nil {
		return nil, err
	}
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature, usages
	if template.NotAfter.After(a.cert.NotAfter) {
		template.NotAfter = a.cert.NotAfter
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, public, a.key)
	if err != nil {
		return nil, fmt.Errorf("certificate of %s: %w", s.Name, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

func newTemplate(s Subject, now time.Time, validity time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: s.Name},
		NotBefore: now.Add(-early), NotAfter: now.Add(validity),
	}
	for _, a := range s.Addresses {
		template.IPAddresses = append(template.IPAddresses, net.IP(a.AsSlice()))
	}
	return template, nil
}

// ReissueReason returns why a pair must be issued again, or "" if it is good. A pair is reissued if it cannot be
// parsed, is signed by another authority, is for another subject, or has less than a third of its lifetime left.
func (a *Authority) ReissueReason(pair Pair, s Subject, now time.Time) string {
	cert, err := firstCertificate(pair.Cert)
	if err != nil {
		return err.Error()
	}
	key, err := readKey(pair.Key)
	switch {
	case err != nil:
		return err.Error()
	case !publicEqual(cert, key):
		return "the key does not match the certificate"
	case cert.CheckSignatureFrom(a.cert) != nil:
		return "the certificate is signed by another authority"
	case cert.Subject.CommonName != s.Name || !slices.Equal(addressesOf(cert), sorted(s.Addresses)):
		return "the certificate is for another name or other addresses"
	case now.After(Renewal(cert)):
		return "the certificate expires on " + cert.NotAfter.UTC().Format(time.DateOnly)
	}
	return ""
}

// SignedBy reports whether one of the authorities signed the first certificate of pair.
func SignedBy(pair, authorities []byte) bool {
	cert, err := firstCertificate(pair)
	if err != nil {
		return false
	}
	for block, rest := pem.Decode(authorities); block != nil; block, rest = pem.Decode(rest) {
		if authority, err := x509.ParseCertificate(block.Bytes); err == nil && cert.CheckSignatureFrom(authority) == nil {
			return true
		}
	}
	return false
}

func firstCertificate(text []byte) (*x509.Certificate, error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			return x509.ParseCertificate(block.Bytes)
		}
	}
	return nil, errors.New("no certificate found")
}

// Renewal returns when a certificate must be replaced: after two thirds of its lifetime.
func Renewal(cert *x509.Certificate) time.Time {
	return cert.NotAfter.Add(-cert.NotAfter.Sub(cert.NotBefore) / 3)
}

// RenewalOf returns the Renewal of a pair, or the zero time if the pair cannot be parsed.
func RenewalOf(pair Pair) time.Time {
	cert, err := firstCertificate(pair.Cert)
	if err != nil {
		return time.Time{}
	}
	return Renewal(cert)
}

func addressesOf(cert *x509.Certificate) []netip.Addr {
	var found []netip.Addr
	for _, ip := range cert.IPAddresses {
		if a, ok := netip.AddrFromSlice(ip); ok {
			found = append(found, a.Unmap())
		}
	}
	return sorted(found)
}

func sorted(addresses []netip.Addr) []netip.Addr {
	return slices.SortedFunc(slices.Values(addresses), netip.Addr.Compare)
}

func publicEqual(cert *x509.Certificate, key crypto.Signer) bool {
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	return ok && public.Equal(cert.PublicKey)
}

func readKey(text []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(bytes.TrimSpace(text))
	if block == nil {
		return nil, errors.New("no private key found")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("unsupported private key of type %T", key)
	}
	return signer, nil
}
