// Package pki creates the certificates of a lab cluster: its authorities, and a key pair per component.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"
)

// validity is long for a lab and short for a leaked key.
const validity = 30 * 24 * time.Hour

// Pair is a certificate and its key, PEM encoded.
type Pair struct{ Cert, Key []byte }

// Authority signs key pairs.
type Authority struct {
	Pair
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Subject is the owner of a key pair. Servers need names and addresses, clients need groups.
type Subject struct {
	Name      string
	Groups    []string
	DNSNames  []string
	Addresses []netip.Addr
}

// NewAuthority creates a self-signed authority.
func NewAuthority(name string, now time.Time) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := newTemplate(Subject{Name: name}, now)
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature
	pair, der, err := sign(template, template, key, key)
	if err != nil {
		return nil, fmt.Errorf("authority %s: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	return &Authority{pair, cert, key}, err
}

// Issue signs a key pair for servers and clients.
func (a *Authority) Issue(s Subject, now time.Time) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	template, err := newTemplate(s, now)
	if err != nil {
		return Pair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	pair, _, err := sign(template, a.cert, key, a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("certificate %s: %w", s.Name, err)
	}
	return pair, nil
}

func newTemplate(s Subject, now time.Time) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: s.Name, Organization: s.Groups},
		DNSNames:     s.DNSNames,
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(validity),
	}
	for _, a := range s.Addresses {
		template.IPAddresses = append(template.IPAddresses, net.IP(a.AsSlice()))
	}
	return template, nil
}

func sign(template, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) (Pair, []byte, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return Pair{}, nil, err
	}
	keyPEM, err := keyPEM(key)
	return Pair{pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), keyPEM}, der, err
}

func keyPEM(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// NewSigningKey creates the key pair that signs and verifies service account tokens. Cert is the bare public key.
func NewSigningKey() (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return Pair{}, err
	}
	private, err := keyPEM(key)
	return Pair{pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), private}, err
}

// Write stores a pair as NAME.crt and NAME.key.
func (p Pair) Write(dir, name string) error {
	if err := os.WriteFile(filepath.Join(dir, name+".crt"), p.Cert, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".key"), p.Key, 0o600)
}
