package lab

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/weft-network/weft/test/lab/pki"
)

// Each OVN database has its own authority, so that no key on a node opens the northbound database.
const (
	northboundCA = "ovn-nb-ca"
	southboundCA = "ovn-sb-ca"
)

// Key pairs of the product: the operator's for the northbound database, and the agents' for the southbound
// database's read-only listener.
const (
	operatorPair = "ovn-operator"
	agentPair    = "ovn-agent"
)

// controllerPair names the key pair of a node's ovn-controller. It contains the chassis' name, as OVN's role
// requires (ovn-sb(5), RBAC).
func controllerPair(m Machine) string { return "ovn-" + m.Name }

// ovnDir is a link to a folder, so that all files can be replaced in one step. A program of OVN that reads a new key
// with the old certificate keeps the previous pair until both files change again.
func (c *Cluster) ovnDir() string { return filepath.Join(c.pkiDir(), "ovn") }

// makeOVNPKI writes the databases' authorities and the key pairs that they sign.
func (c *Cluster) makeOVNPKI(nodes []Machine) error {
	if err := errors.Join(os.Mkdir(c.ovnDir()+".1", 0o700), os.Symlink("ovn.1", c.ovnDir())); err != nil {
		return err
	}
	now := time.Now()
	server := pki.Subject{Addresses: []netip.Addr{ControlPlane().IPv4.Addr(), ControlPlane().IPv6.Addr()}}
	south := map[string]pki.Subject{"ovn-sb": server, agentPair: {Name: "weft-agent"}}
	for _, n := range nodes {
		south[controllerPair(n)] = pki.Subject{Name: n.Name}
	}
	for ca, pairs := range map[string]map[string]pki.Subject{
		northboundCA: {"ovn-nb": server, operatorPair: {Name: "weft-operator"}},
		southboundCA: south,
	} {
		if err := c.signAll(ca, pairs, now); err != nil {
			return fmt.Errorf("%s: %w", ca, err)
		}
	}
	return nil
}

func (c *Cluster) signAll(name string, pairs map[string]pki.Subject, now time.Time) error {
	ca, err := pki.NewAuthority(name, now)
	if err != nil {
		return err
	}
	if err := ca.Write(c.ovnDir(), name); err != nil {
		return err
	}
	for file, subject := range pairs {
		pair, err := ca.Issue(subject, now)
		if err != nil {
			return err
		}
		if err := pair.Write(c.ovnDir(), file); err != nil {
			return err
		}
	}
	return nil
}

// tlsFlags are the flags that give any program of OVN and Open vSwitch its key pair and trusted authority.
func (c *Cluster) tlsFlags(pair, ca string) []string {
	file := func(name string) string { return filepath.Join(c.ovnDir(), name) }
	return []string{"--private-key=" + file(pair+".key"), "--certificate=" + file(pair+".crt"), "--ca-cert=" + file(ca+".crt")}
}

// ControllerTLS returns the flags with which a program has the rights of a node's ovn-controller in the southbound
// database.
func (c *Cluster) ControllerTLS(m Machine) []string {
	return c.tlsFlags(controllerPair(m), southboundCA)
}

// AgentTLS returns the flags with which a program has an agent's rights in the southbound database.
func (c *Cluster) AgentTLS() []string { return c.tlsFlags(agentPair, southboundCA) }

// OperatorTLS returns the flags with which a program has the operator's rights in the northbound database.
func (c *Cluster) OperatorTLS() []string { return c.tlsFlags(operatorPair, northboundCA) }

// RotateSouthbound replaces the southbound database's key pairs and authorities in one step: change edits a copy of
// their folder. It also updates the agents' Secret. It notifies no process.
func (c *Cluster) RotateSouthbound(ctx context.Context, change func(dir string) error) error {
	was, err := os.Readlink(c.ovnDir())
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(strings.TrimPrefix(was, "ovn."))
	if err != nil {
		return err
	}
	is := fmt.Sprintf("ovn.%d", number+1)
	next, link := filepath.Join(c.pkiDir(), is), c.ovnDir()+".new"
	if err := os.CopyFS(next, os.DirFS(c.ovnDir())); err != nil {
		return err
	}
	if err := change(next); err != nil {
		return err
	}
	if err := errors.Join(os.Symlink(is, link), os.Rename(link, c.ovnDir())); err != nil {
		return err
	}
	secrets, err := c.tlsSecrets()
	if err != nil {
		return err
	}
	return c.Apply(ctx, secrets)
}

// tlsSecrets returns the manifests of the product's key pairs.
func (c *Cluster) tlsSecrets() (string, error) {
	manifests := ""
	for _, s := range []struct{ name, pair, ca string }{{"weft-nb-tls", operatorPair, northboundCA},
		{"weft-sb-tls", agentPair, southboundCA}} {
		manifests += fmt.Sprintf(
			"---\napiVersion: v1\nkind: Secret\nmetadata: {name: %s, namespace: %s}\ntype: "+
				"kubernetes.io/tls\ndata:\n", s.name, productNamespace)
		for key, file := range map[string]string{"tls.key": s.pair + ".key", "tls.crt": s.pair + ".crt", "ca.crt": s.ca + ".crt"} {
			text, err := os.ReadFile(filepath.Join(c.ovnDir(), file))
			if err != nil {
				return "", fmt.Errorf("secret %s: %w", s.name, err)
			}
			manifests += fmt.Sprintf("  %s: %s\n", key, base64.StdEncoding.EncodeToString(text))
		}
	}
	return manifests, nil
}
