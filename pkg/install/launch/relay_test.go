package launch

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weft-network/weft/pkg/install/member"
	"github.com/weft-network/weft/pkg/install/pki"
	"github.com/weft-network/weft/pkg/ports"
	"github.com/weft-network/weft/test/poll"
)

// relayed is a southbound database with ovn-northd, its source for relays, and a relay.
type relayed struct {
	*testing.T
	dir, address string
	authority    *pki.Authority
	source       *exec.Cmd
}

func newRelayed(t *testing.T) *relayed {
	t.Helper()
	cache := ovn(t)
	authority, err := pki.NewAuthority("sb", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "weft-relay-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	r := &relayed{T: t, dir: dir, authority: authority, address: fmt.Sprintf("127.%d.%d.9", 64+os.Getpid()>>8&63, os.Getpid()&255)}
	for _, name := range []string{"nb", "sb"} {
		if _, err := ovsdbTool(t.Context(), "create", r.path("ovn"+name+"_db.db"), cache.Schema("ovn-"+name)); err != nil {
			t.Fatal(err)
		}
	}
	r.start("ovsdb-server", "--unixctl="+r.path("nb.ctl"), "--remote=punix:"+r.path("ovnnb_db.sock"), r.path("ovnnb_db.db"))
	r.serve()
	r.start("ovn-northd", "--unixctl="+r.path("northd.ctl"), "--ovnnb-db=unix:"+r.path("ovnnb_db.sock"),
		"--ovnsb-db=unix:"+r.path("ovnsb_db.sock"))
	r.write("server", r.issue("weft-sb"))
	r.write("relay", r.issue(member.RelayName))
	r.proxy()
	config, err := relayConfig("OVN_Southbound", fmt.Sprintf("ssl:%s:%d", r.address, ports.SouthboundSource), listeners{
		fmt.Sprintf("pssl:%d:%s", ports.Relay, r.address):       {Role: "ovn-controller"},
		fmt.Sprintf("pssl:%d:%s", ports.RelayReader, r.address): {ReadOnly: true},
		"punix:" + r.path(member.RelayFiles+".sock"):            {ReadOnly: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.path(member.RelayFiles+".json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	r.start(serverArgs(r.path(member.RelayFiles), TLSIn(r.path("relay")))...)
	poll.Eventually(t, time.Minute, func() error { return member.CheckRelay(t.Context(), dir) })
	return r
}

func (r *relayed) path(name string) string { return filepath.Join(r.dir, name) }

func (r *relayed) start(argv ...string) *exec.Cmd {
	r.Helper()
	cmd := exec.Command(argv[0], append(argv[1:], "-vconsole:off", "-vfile:off")...)
	cmd.Dir, cmd.Env = r.dir, append(os.Environ(), "OVS_RUNDIR="+r.dir, "OVN_RUNDIR="+r.dir)
	if err := cmd.Start(); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// serve starts the southbound database's server.
func (r *relayed) serve() {
	r.Helper()
	r.source = r.start("ovsdb-server", "--unixctl="+r.path("sb.ctl"), "--remote=punix:"+r.path("ovnsb_db.sock"), r.path("ovnsb_db.db"))
}

// proxy runs member.Source.
func (r *relayed) proxy() {
	ctx, cancel := context.WithCancel(context.Background())
	files, ended := TLSIn(r.path("server")), make(chan error, 1)
	go func() {
		s := &member.Source{Address: r.address + ports.Any(ports.SouthboundSource), Run: r.dir,
			Identity: member.Files(files.PrivateKey, files.Certificate, files.CACert), Log: slog.New(slog.DiscardHandler)}
		ended <- s.Serve(ctx)
	}()
	r.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			r.Error(err)
		}
	})
}

func (r *relayed) issue(name string) pki.Pair {
	r.Helper()
	pair, err := r.authority.Issue(pki.Subject{Name: name, Addresses: []netip.Addr{netip.MustParseAddr(r.address)}}, time.Now())
	if err != nil {
		r.Fatal(err)
	}
	return pair
}

// chassis returns the pair of a node.
func (r *relayed) chassis(name string) pki.Pair {
	r.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		r.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		r.Fatal(err)
	}
	cert, err := r.authority.SignChassis(&x509.CertificateRequest{Subject: pkix.Name{CommonName: name}, PublicKey: key.Public()},
		time.Now(), pki.LeafValidity)
	if err != nil {
		r.Fatal(err)
	}
	return pki.Pair{Cert: cert, Key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})}
}

// write stores a pair in a folder as a Secret's volume does.
func (r *relayed) write(folder string, pair pki.Pair) {
	r.Helper()
	files := TLSIn(r.path(folder))
	if err := os.MkdirAll(r.path(folder), 0o700); err != nil {
		r.Fatal(err)
	}
	for path, text := range map[string][]byte{files.PrivateKey: pair.Key, files.Certificate: pair.Cert, files.CACert: r.authority.Cert} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			r.Fatal(err)
		}
	}
}

// transact sends a transaction as a client and returns the reply.
func (r *relayed) transact(as string, port int, operations string) string {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), 20*time.Second)
	defer cancel()
	flags := TLSIn(r.path(as)).flags()
	out, _ := exec.CommandContext(ctx, "ovsdb-client", append(flags, "transact", fmt.Sprintf("ssl:%s:%d", r.address, port),
		`["OVN_Southbound",`+operations+`]`)...).CombinedOutput() // the reply has the error
	return string(out)
}

// TestARelayAppliesTheRole checks who may write through a relay. The relay forwards transactions with its own rights, which
// are unrestricted, so the role must hold at the relay.
func TestARelayAppliesTheRole(t *testing.T) {
	r := newRelayed(t)
	for _, name := range []string{"n1", "n2"} {
		r.write(name, r.chassis(name))
	}
	chassis := func(name string) string {
		return `{"op":"insert","table":"Encap","uuid-name":"e","row":{"type":"geneve","ip":"192.0.2.1","chassis_name":"` + name + `"}},` +
			`{"op":"insert","table":"Chassis","row":{"name":"` + name + `","encaps":["named-uuid","e"]}}`
	}
	const denied, readOnly = "permission error", "read only"
	for _, c := range []struct {
		name, as         string
		port             int
		operations, want string
	}{
		{"the own chassis", "n1", ports.Relay, chassis("n1"), `"uuid"`},
		{"another's chassis", "n2", ports.Relay, chassis("n3"), denied},
		{"another's, that exists", "n2", ports.Relay, `{"op":"delete","table":"Chassis","where":[["name","==","n1"]]}`, denied},
		{"flows", "n1", ports.Relay, `{"op":"delete","table":"Logical_Flow","where":[]},` +
			`{"op":"insert","table":"Logical_DP_Group","row":{}}`, denied},
		{"rights", "n1", ports.Relay, `{"op":"delete","table":"RBAC_Role","where":[]}`, denied},
		{"the readers' listener", "n1", ports.RelayReader, chassis("n1"), readOnly},
		{"reading", "n2", ports.RelayReader, `{"op":"select","table":"Chassis","where":[],"columns":["name"]}`, "n1"},
	} {
		poll.Eventually(t, 20*time.Second, func() error { // ovn-northd has written the roles
			if have := r.transact(c.as, c.port, c.operations); !strings.Contains(have, c.want) {
				return fmt.Errorf("%s: %s, want %q", c.name, have, c.want)
			}
			return nil
		})
	}
}

// TestOnlyRelaysReachTheSource checks who may use the unrestricted connection to the southbound database.
func TestOnlyRelaysReachTheSource(t *testing.T) {
	r := newRelayed(t)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(r.authority.Cert)
	for name, c := range map[string]struct {
		pair    pki.Pair
		allowed bool
	}{
		"a relay":                       {r.issue(member.RelayName), true},
		"an agent":                      {r.issue("weft-agent"), false},
		"the database's server":         {r.issue("weft-sb"), false},
		"a chassis":                     {r.chassis("n1"), false},
		"a chassis with a relay's name": {r.chassis(member.RelayName), false},
	} {
		pair, err := tls.X509KeyPair(c.pair.Cert, c.pair.Key)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := tls.Dial("tcp", r.address+ports.Any(ports.SouthboundSource),
			&tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}})
		if err != nil {
			t.Fatalf("%s: %v", name, err) // a TLS 1.3 client learns only from the first read that it was refused
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = conn.Write([]byte(`{"id":1,"method":"list_dbs","params":[]}`))
		n, err := conn.Read(make([]byte, 512))
		if allowed := err == nil && n > 0; allowed != c.allowed {
			t.Errorf("%s: allowed %t (%v), want %t", name, allowed, err, c.allowed)
		}
		conn.Close()
	}
}

// TestARelayOutlivesItsSource kills the southbound database's server under a client of the relay: no row disappears, and
// later writes arrive. A client that saw an empty database would remove all flows.
func TestARelayOutlivesItsSource(t *testing.T) {
	r := newRelayed(t)
	r.write("n1", r.chassis("n1"))
	insert := `{"op":"insert","table":"Encap","uuid-name":"e","row":{"type":"geneve","ip":"192.0.2.1","chassis_name":"n1"}},` +
		`{"op":"insert","table":"Chassis","row":{"name":"n1","encaps":["named-uuid","e"]}}`
	poll.Eventually(t, 20*time.Second, func() error {
		if have := r.transact("n1", ports.Relay, insert); !strings.Contains(have, `"uuid"`) {
			return fmt.Errorf("%s", have)
		}
		return nil
	})
	var seen strings.Builder
	watch := exec.Command("ovsdb-client", "--no-headings", "--format=csv", "monitor", "unix:"+r.path(member.RelayFiles+".sock"),
		"OVN_Southbound", "Chassis", "name,external_ids")
	watch.Stdout = &seen
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		_ = r.source.Process.Kill()
		_ = r.source.Wait()
		r.serve()
		poll.Eventually(t, 30*time.Second, func() error {
			have := r.transact("n1", ports.Relay, fmt.Sprintf(`{"op":"update","table":"Chassis","where":[["name","==","n1"]],`+
				`"row":{"external_ids":["map",[["round","%d"]]]}}`, i))
			if !strings.Contains(have, `"count":1`) {
				return fmt.Errorf("after the source was killed: %s", have)
			}
			return nil
		})
	}
	poll.Eventually(t, 20*time.Second, func() error { // the monitor has the last write, after all others
		out, err := exec.CommandContext(t.Context(), "ovsdb-client", "dump", "unix:"+r.path(member.RelayFiles+".sock"), "OVN_Southbound",
			"Chassis", "external_ids").CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		if !strings.Contains(string(out), `round="2"`) {
			return fmt.Errorf("the monitor has %s", out)
		}
		return nil
	})
	_ = watch.Process.Kill()
	_ = watch.Wait()
	if text := seen.String(); !strings.Contains(text, "initial") || strings.Contains(text, "delete") || strings.Contains(text, "insert") {
		t.Errorf("a client of the relay saw\n%s", text)
	}
}
