package histories

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weft-network/weft/pkg/install/pki"
	"github.com/weft-network/weft/pkg/servers/extender"
)

// extenders is how many extenders answer, each for a kube-scheduler of its own.
const extenders = 2

// extenderProcess is one process of the extender, from its start to its end or crash. Its requests go through its own
// server, and its connection to the API server has the faults of a link.
type extenderProcess struct {
	link    *link
	client  *http.Client
	cancel  context.CancelFunc
	ended   chan struct{} // closed when the manager has returned, with err
	err     error
	crashed atomic.Bool
}

// startExtender starts an extender as its program does. Its first lists are as many revisions old as stale says. It
// returns when the extender answers.
func startExtender(c *cluster, name string, stale int64, notify func()) (*extenderProcess, error) {
	e := &extenderProcess{ended: make(chan struct{})}
	config := c.restConfig(func(next http.RoundTripper) http.RoundTripper {
		if e.link == nil { // the manager's clients share one
			e.link = newLink(next, stale, nil, func() { e.crashed.Store(true); notify() })
		}
		return e.link
	})
	options, err := extender.ManagerOptions()
	if err != nil {
		return nil, err
	}
	options.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return c.mapper, nil }
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return nil, err
	}
	files, clientConfig, err := certificates(c.dir)
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(c.dir, name)
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	ready := make(chan struct{})
	if _, err := extender.Setup(mgr, extender.Options{Listener: listener, TLS: files, Ready: func() { close(ready) }}); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	e.client = &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: clientConfig,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}}}
	ctx, cancel := context.WithCancel(context.Background())
	e.cancel = cancel
	go func() {
		e.err = mgr.Start(ctx)
		close(e.ended)
	}()
	select {
	case <-ready:
		return e, nil
	case <-e.ended:
		return nil, fmt.Errorf("extender %s ended: %w", name, e.err)
	case <-time.After(patience):
		e.kill()
		return nil, fmt.Errorf("extender %s did not start within %s; the goroutines are in %s", name, patience, stacks())
	}
}

// certificates makes the files of the extenders' servers in a folder, and the configuration of their clients.
func certificates(dir string) (files extender.TLS, of *tls.Config, err error) {
	file := func(name string) string { return filepath.Join(dir, name) }
	files = extender.TLS{PrivateKey: file("tls.key"), Certificate: file("tls.crt"), ClientCA: file("ca.crt")}
	if _, err := os.Stat(files.ClientCA); errors.Is(err, os.ErrNotExist) {
		authority, err := pki.NewAuthority("weft-extender-ca", time.Now())
		if err != nil {
			return files, nil, err
		}
		pair, err := authority.Issue(pki.Subject{Name: "weft-extender", Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}, time.Now())
		if err = errors.Join(err, os.WriteFile(files.PrivateKey, pair.Key, 0o600), os.WriteFile(files.Certificate, pair.Cert, 0o600),
			os.WriteFile(files.ClientCA, authority.Cert, 0o600)); err != nil {
			return files, nil, err
		}
	}
	pair, err := tls.LoadX509KeyPair(files.Certificate, files.PrivateKey)
	if err != nil {
		return files, nil, err
	}
	text, err := os.ReadFile(files.ClientCA)
	authorities := x509.NewCertPool()
	if err != nil || !authorities.AppendCertsFromPEM(text) {
		return files, nil, errors.Join(err, errors.New("no authority"))
	}
	return files, &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: authorities, Certificates: []tls.Certificate{pair},
		ServerName: "127.0.0.1"}, nil
}

// post posts a request as kube-scheduler does, and reads the answer.
func (e *extenderProcess) post(ctx context.Context, path string, args, answer any) error {
	body, err := json.Marshal(args)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://127.0.0.1"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := e.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, text)
	}
	if err == nil {
		err = json.Unmarshal(text, answer)
	}
	if err != nil {
		return fmt.Errorf("extender, %s: %w", path, err)
	}
	return nil
}

// kill ends the process as a crash does: it writes nothing any more.
func (e *extenderProcess) kill() {
	e.link.kill()
	e.cancel()
}

// end waits until a killed process has ended.
func (e *extenderProcess) end() error {
	e.client.CloseIdleConnections()
	select {
	case <-e.ended:
		return nil
	case <-time.After(patience):
		return fmt.Errorf("the extender did not end within %s; the goroutines are in %s", patience, stacks())
	}
}
