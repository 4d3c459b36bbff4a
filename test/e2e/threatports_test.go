//go:build e2e

package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/pkg/ports"
	"github.com/weft-network/weft/test/lab"
)

// TestDatabasesWantACertificate calls each port of the databases over TLS. Without a certificate, or with a
// self-signed one, a port returns nothing. With its own key pair, it answers.
func TestDatabasesWantACertificate(t *testing.T) {
	forged, err := selfSigned(lab.Node(1).Name)
	must(t, err)
	all := keysOf(t, lab.Node(1))
	operator, agent := pairOf(t, all.operator), pairOf(t, all.agent)
	for remote, right := range map[string]tls.Certificate{all.northbound: operator, all.southbound: agent, all.reader: agent} {
		to := strings.TrimPrefix(remote, "ssl:")
		if answer, err := bed.databases(t.Context(), to, right); !strings.Contains(answer, "OVN_") {
			t.Errorf("%s with the right key pair: %q, %v", to, answer, err)
		}
		for name, certificate := range map[string]tls.Certificate{"no certificate": {}, "a self-signed certificate": forged} {
			if answer, err := bed.databases(t.Context(), to, certificate); answer != "" || !isRefusal(err) {
				t.Errorf("%s with %s: %q, %v, want it refused", to, name, answer, err)
			}
		}
	}
	for _, remote := range []string{all.northbound, all.reader, all.southbound} {
		to := strings.TrimPrefix(remote, "ssl:")
		wrong := agent
		if remote != all.northbound {
			wrong = operator
		}
		if answer, err := bed.databases(t.Context(), to, wrong); answer != "" || !isRefusal(err) {
			t.Errorf("%s with a key pair of the other authority: %q, %v, want it refused", to, answer, err)
		}
	}
}

// pairOf reads the key pair named by flags.
func pairOf(t *testing.T, flags []string) tls.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(strings.TrimPrefix(flags[1], "--certificate="), strings.TrimPrefix(flags[0], "--private-key="))
	must(t, err)
	return pair
}

// isRefusal reports whether the server ended the connection. The reset may arrive before its alert is read.
func isRefusal(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error" || errors.Is(err, io.EOF) ||
		errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE)
}

// databases lists a server's databases over TLS. It shows the certificate even if the server names other
// authorities, and accepts any server.
func (b *testbed) databases(ctx context.Context, to string, certificate tls.Certificate) (answer string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	plain, err := b.DialContext(ctx, "tcp", to)
	if err != nil {
		return "", err
	}
	defer plain.Close()
	deadline, _ := ctx.Deadline()
	show := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certificate, nil }
	conn := tls.Client(plain, &tls.Config{InsecureSkipVerify: true, GetClientCertificate: show})
	if err := conn.SetDeadline(deadline); err != nil {
		return "", err
	}
	if _, err := conn.Write([]byte(`{"id":0,"method":"list_dbs","params":[]}`)); err != nil {
		return "", err
	}
	buffer := make([]byte, 1000)
	n, err := conn.Read(buffer)
	return string(buffer[:n]), err
}

// selfSigned returns a certificate that no authority signed.
func selfSigned(name string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// TestNodesFilesAreRoots checks that only root may use the sockets and keys that control a node's network.
func TestNodesFilesAreRoots(t *testing.T) {
	for path, want := range map[string]string{
		"/run/weft":          "directory 700 0 0",
		"/run/weft/cni.sock": "socket 600 0 0",
	} {
		for _, node := range []string{"n1", "n2"} {
			if have := strings.TrimSpace(bed.mustExec(t, node, "stat", "-c", "%F %a %u %g", path)); have != want {
				t.Errorf("%s of %s is %s, want %s", path, node, have, want)
			}
		}
	}
	sockets := bed.mustExec(t, "n1", "sh", "-c",
		"find /run/openvswitch /run/ovn /run/weft ! -type d ! -type l -exec stat -c '%a %u %n' {} +")
	for line := range strings.Lines(sockets) {
		mode, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if (strings.HasSuffix(rest, ".sock") || strings.HasSuffix(rest, ".ctl") || strings.HasSuffix(rest, ".mgmt") ||
			strings.HasSuffix(rest, ".pem")) &&
			(!strings.HasPrefix(rest, "0 ") || !strings.HasSuffix(mode, "0") && !strings.HasSuffix(mode, "5")) {
			t.Errorf("users other than root may write: %s", line)
		}
	}
	t.Logf("%s", sockets)
}

// TestOpenPortsSayLittle reads the open ports of the agent and the operator. Metrics name no pod and no address,
// health is one word, and nothing else is served.
func TestOpenPortsSayLittle(t *testing.T) {
	pod := bed.peerPod("ports-named", "n1")
	bed.run(t, pod)
	for part, open := range map[part][2]int{agent: {ports.AgentHealth, ports.AgentMetrics},
		operator: {ports.OperatorHealth, ports.OperatorMetrics}} {
		p, err := bed.pod(t.Context(), part, map[bool]string{true: "n1"}[part == agent])
		must(t, err)
		for _, page := range []struct {
			port int
			path string
			want int
		}{{open[0], "/healthz", 200}, {open[0], "/readyz", 200}, {open[1], "/metrics", 200},
			{open[0], "/debug/pprof/", 404}, {open[1], "/debug/pprof/", 404},
			{open[0], "/", 404}, {open[1], "/", 404}} {
			url := fmt.Sprintf("http://%s:%d%s", p.Status.HostIP, page.port, page.path)
			status, text, err := bed.get(t.Context(), url)
			must(t, err)
			if status != page.want {
				t.Errorf("%s: %d, want %d", url, status, page.want)
			}
			if page.path == "/healthz" && text != "ok" {
				t.Errorf("%s: %q", url, text)
			}
			for _, secret := range append([]string{pod.Name, "PRIVATE KEY", "Bearer"}, pod.Status.PodIPs[0].IP, pod.Status.PodIPs[1].IP) {
				if strings.Contains(text, secret) {
					t.Errorf("%s contains %s", url, secret)
				}
			}
		}
	}
}

// get reads a page without credentials.
func (b *testbed) get(ctx context.Context, url string) (status int, text string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	client := http.Client{Transport: &http.Transport{DialContext: b.DialContext, DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}
