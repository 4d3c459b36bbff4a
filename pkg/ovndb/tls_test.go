package ovndb_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/northbound"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/test/lab/pki"
)

func newAuthority(t *testing.T, name string) *pki.Authority {
	t.Helper()
	ca, err := pki.NewAuthority(name, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// identity is a Secret as kubelet mounts it: files that are links into a folder, which is replaced as a whole by
// renaming a link.
type identity struct {
	t       *testing.T
	dir     string
	version int
}

func newIdentity(t *testing.T, name string, signedBy *pki.Authority, trusts ...*pki.Authority) *identity {
	t.Helper()
	i := &identity{t: t, dir: t.TempDir()}
	i.replace(name, time.Now(), signedBy, trusts...)
	for _, file := range []string{"tls.key", "tls.crt", "ca.crt"} {
		i.must(os.Symlink(filepath.Join("..data", file), i.path(file)))
	}
	return i
}

func (i *identity) must(err error) {
	i.t.Helper()
	if err != nil {
		i.t.Fatal(err)
	}
}

func (i *identity) path(parts ...string) string {
	return filepath.Join(append([]string{i.dir}, parts...)...)
}

// replace installs another key pair and other trusted authorities. now is when the certificate is issued.
func (i *identity) replace(name string, now time.Time, signedBy *pki.Authority, trusts ...*pki.Authority) {
	i.t.Helper()
	pair, err := signedBy.Issue(pki.Subject{Name: name, Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}, now)
	i.must(err)
	i.version++
	folder := "..v" + string(rune('0'+i.version))
	i.must(os.Mkdir(i.path(folder), 0o700))
	i.must(pair.Write(i.path(folder), "tls"))
	var roots []byte
	for _, ca := range trusts {
		roots = append(roots, ca.Cert...)
	}
	i.must(os.WriteFile(i.path(folder, "ca.crt"), roots, 0o600))
	i.must(os.Symlink(folder, i.path("..tmp")))
	i.must(os.Rename(i.path("..tmp"), i.path("..data")))
}

func (i *identity) client() ovndb.TLS {
	return ovndb.TLS{PrivateKey: i.path("tls.key"), Certificate: i.path("tls.crt"), CACert: i.path("ca.crt")}
}

func (i *identity) server() ovndbtest.TLSFiles {
	return ovndbtest.TLSFiles{PrivateKey: i.path("tls.key"), Certificate: i.path("tls.crt"), CACert: i.path("ca.crt")}
}

func secured(endpoint string, security ovndb.TLS) ovndb.Config {
	cfg := quick(endpoint)
	cfg.TLS = security
	return cfg
}

func TestEngineWorksOverTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ovn")
	nb := ovndbtest.StartTLS(t, "ovn-nb", newIdentity(t, "nb", ca, ca).server())
	e := runWith(t, secured(nb.TLSEndpoint(), newIdentity(t, "operator", ca, ca).client()))
	e.fill(t)
	e.again(t, func() { nb.Kill(); nb.Run() })
	if err := ovndb.Await(t.Context(), northbound.Schema(), []string{nb.TLSEndpoint()},
		newIdentity(t, "operator", ca, ca).client()); err != nil {
		t.Error(err)
	}
}

// L12: rotated certificates break the connection. Everything is replaced twice, authorities included, in the order
// that avoids an interruption. Each new connection then uses the current files, and neither side is restarted.
func TestCertificatesAreRotated(t *testing.T) {
	t.Parallel()
	was := newAuthority(t, "first")
	server, client := newIdentity(t, "nb", was, was), newIdentity(t, "operator", was, was)
	nb := ovndbtest.StartTLS(t, "ovn-nb", server.server())
	e := runWith(t, secured(nb.TLSEndpoint(), client.client()))
	e.fill(t)
	reconnect := func() { t.Helper(); e.again(t, nb.HangUp) }
	now := time.Now()
	for _, name := range []string{"second", "third"} {
		is := newAuthority(t, name)
		server.replace("nb", now, was, was, is)
		client.replace("operator", now, was, was, is)
		reconnect()
		client.replace("operator", now, is, was, is)
		reconnect()
		server.replace("nb", now, is, is)
		reconnect()
		client.replace("operator", now, is, is)
		reconnect()
		was = is
	}
}

// L12: a certificate that is replaced too late is used as soon as it is there, without a restart. Until then the
// reason is reported.
func TestExpiredCertificateIsReplaced(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ovn")
	expired := time.Now().Add(-60 * 24 * time.Hour)
	server, client := newIdentity(t, "nb", ca, ca), newIdentity(t, "operator", ca, ca)
	nb := ovndbtest.StartTLS(t, "ovn-nb", server.server())
	e := runWith(t, secured(nb.TLSEndpoint(), client.client()))
	e.fill(t)
	for name, c := range map[string]struct {
		spoil, repair func()
		says          string
	}{
		"the client's certificate": {func() { client.replace("operator", expired, ca, ca) }, func() {
			client.replace("operator", time.Now(), ca, ca)
		}, "expired"},
		"the server's certificate": {func() { server.replace("nb", expired, ca, ca) }, func() {
			server.replace("nb", time.Now(), ca, ca)
		}, "expired"},
		"a key of another pair": {func() {
			i := newIdentity(t, "other", ca, ca)
			copyFile(t, i.path("tls.key"), client.path("..data", "tls.key"))
		},
			func() { client.replace("operator", time.Now(), ca, ca) }, "private key does not match"},
		"no file": {func() {
			client.must(os.Remove(client.path("..data", "tls.crt")))
		}, func() { client.replace("operator", time.Now(), ca, ca) }, "no such file"},
		"an empty file of authorities": {func() { client.must(os.WriteFile(client.path("..data", "ca.crt"), nil, 0o600)) },
			func() { client.replace("operator", time.Now(), ca, ca) }, "holds no certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			e.again(t, func() {
				c.spoil()
				nb.Kill()
				nb.Run()
				e.await(t, "the reason", func() bool { return e.failsWith(c.says) })
				c.repair()
			})
		})
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// failsWith reports whether the connection failed for a reason that contains the words.
func (r *running) failsWith(words string) bool {
	err := r.Failure()
	return err != nil && strings.Contains(err.Error(), words)
}

// Either side refuses a peer without the right identity, and nothing is written.
func TestStrangersAreRefused(t *testing.T) {
	t.Parallel()
	ca, other := newAuthority(t, "ovn"), newAuthority(t, "other")
	nb := ovndbtest.StartTLS(t, "ovn-nb", newIdentity(t, "nb", ca, ca).server())
	misnamed := newIdentity(t, "operator", ca, ca).client()
	misnamed.ServerName = "nb.example.org"
	aged := ovndbtest.StartTLS(t, "ovn-nb", newIdentity(t, "nb", ca, ca).server(), "--ssl-protocols=TLSv1.2")
	for name, c := range map[string]struct {
		server   *ovndbtest.Server
		security ovndb.TLS
		says     string
	}{
		"a client of another authority": {nb, newIdentity(t, "agent", other, ca).client(), "unknown certificate authority"},
		"a server of another authority": {nb, newIdentity(t, "operator", ca, other).client(), "signed by unknown authority"},
		"a server of another name":      {nb, misnamed, "nb.example.org"},
		"a server without TLS 1.3":      {aged, newIdentity(t, "operator", ca, ca).client(), "protocol version"},
	} {
		t.Run(name, func(t *testing.T) {
			e := begin(t, secured(c.server.TLSEndpoint(), c.security))
			e.await(t, "the refusal", func() bool { return e.failsWith(c.says) })
			if err := e.try(switchUnit("n1", 10)); !ovndb.IsPending(err) || e.Connected() {
				t.Errorf("a write gives %v", err)
			}
		})
	}
	if written := nb.Transactions() + aged.Transactions(); written != 0 {
		t.Errorf("%d transactions were written", written)
	}
}

// L6 over TLS: tls.Conn's own Close would wait for a peer that accepts nothing.
func TestHalfOpenTLSIsLeft(t *testing.T) {
	for name, spoil := range map[string]func(*ovndbtest.Wire){
		"everything vanishes":   func(w *ovndbtest.Wire) { w.Set(ovndbtest.Lost, ovndbtest.Lost) },
		"requests are not read": func(w *ovndbtest.Wire) { w.Set(ovndbtest.Stalled, ovndbtest.Passing) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ca := newAuthority(t, "ovn")
			nb := ovndbtest.StartTLS(t, "ovn-nb", newIdentity(t, "nb", ca, ca).server())
			wire := ovndbtest.StartTLSWire(t, nb)
			e := runWith(t, secured(wire.Endpoint(), newIdentity(t, "operator", ca, ca).client()))
			e.fill(t)
			e.again(t, func() {
				began := time.Now()
				spoil(wire)
				e.await(t, "the end of the connection", func() bool { return !e.Connected() })
				if took := time.Since(began); took > 4*time.Second { // tls.Conn.Close alone would take 5 s
					t.Errorf("the connection was left after %s, with a heartbeat of 100 ms and a deadline of 1 s", took)
				}
				wire.Set(ovndbtest.Passing, ovndbtest.Passing)
			})
		})
	}
}
