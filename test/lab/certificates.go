package lab

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/weft-network/weft/test/lab/pki"
)

// certificate describes one key pair to issue. A client of the API server also gets a kubeconfig.
type certificate struct {
	file       string
	subject    pki.Subject
	kubeConfig bool
}

func certificates(nodes []Machine) []certificate {
	loopback := netip.MustParseAddr("127.0.0.1")
	cp := ControlPlane()
	all := []certificate{registryCertificate(),
		{"apiserver", pki.Subject{
			Name: "kube-apiserver",
			DNSNames: []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
				"kubernetes.default.svc.cluster.local"},
			Addresses: []netip.Addr{loopback, cp.IPv4.Addr(), cp.IPv6.Addr(),
				netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("fd00:10:96::1")},
		}, false},
		{"apiserver-kubelet-client", pki.Subject{Name: "kube-apiserver-kubelet-client", Groups: []string{"system:masters"}}, false},
		{"admin", pki.Subject{Name: "admin", Groups: []string{"system:masters"}}, true},
		{"kube-controller-manager", pki.Subject{Name: "system:kube-controller-manager", Addresses: []netip.Addr{loopback}}, true},
		{"kube-scheduler", pki.Subject{Name: "system:kube-scheduler", Addresses: []netip.Addr{loopback}}, true},
	}
	for _, n := range nodes {
		all = append(all, certificate{n.Name, pki.Subject{
			Name: "system:node:" + n.Name, Groups: []string{"system:nodes"}, DNSNames: []string{n.Name},
			Addresses: []netip.Addr{loopback, n.IPv4.Addr(), n.IPv6.Addr()},
		}, true})
	}
	return all
}

// makePKI writes every key pair and kubeconfig of the cluster.
func (c *Cluster) makePKI(nodes []Machine) error {
	if err := os.MkdirAll(c.pkiDir(), 0o700); err != nil {
		return err
	}
	now := time.Now()
	ca, err := pki.NewAuthority("kubernetes-ca", now)
	if err != nil {
		return err
	}
	if err := ca.Write(c.pkiDir(), "ca"); err != nil {
		return err
	}
	for _, cert := range certificates(nodes) {
		if err := c.issue(ca, cert, now); err != nil {
			return err
		}
	}
	if err := c.makeOVNPKI(nodes); err != nil {
		return err
	}
	return c.makeSigningKeys(now)
}

func (c *Cluster) issue(ca *pki.Authority, cert certificate, now time.Time) error {
	pair, err := ca.Issue(cert.subject, now)
	if err != nil {
		return err
	}
	if err := pair.Write(c.pkiDir(), cert.file); err != nil {
		return err
	}
	if !cert.kubeConfig {
		return nil
	}
	text := pki.KubeConfig(c.Name, "https://"+APIServer, ca.Cert, pair)
	return os.WriteFile(filepath.Join(c.pkiDir(), cert.file+".kubeconfig"), text, 0o600)
}

// makeSigningKeys creates the keys that do not depend on the cluster's authority: the front proxy's and the service
// accounts'.
func (c *Cluster) makeSigningKeys(now time.Time) error {
	front, err := pki.NewAuthority("front-proxy-ca", now)
	if err != nil {
		return err
	}
	client, err := front.Issue(pki.Subject{Name: "front-proxy-client"}, now)
	if err != nil {
		return err
	}
	accounts, err := pki.NewSigningKey()
	if err != nil {
		return err
	}
	for file, pair := range map[string]pki.Pair{"front-proxy-ca": front.Pair, "front-proxy-client": client, "service-accounts": accounts} {
		if err := pair.Write(c.pkiDir(), file); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}
