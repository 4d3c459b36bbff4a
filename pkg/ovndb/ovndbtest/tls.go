package ovndbtest

import (
	"net"
	"path/filepath"
	"strconv"
	"testing"
)

// TLSFiles are a server's key and certificate, and the certificates of the authorities that sign its clients'
// certificates, in PEM.
type TLSFiles struct{ PrivateKey, Certificate, CACert string }

// StartTLS is Start with a listener at which client and server authenticate with certificates, and with more
// arguments for ovsdb-server. The server reads its files again when they change.
func StartTLS(t testing.TB, schema string, files TLSFiles, more ...string) *Server {
	t.Helper()
	port := strconv.Itoa(freePort(t))
	s := &Server{t: t, dir: shortDir(t), schema: schema, secure: net.JoinHostPort("127.0.0.1", port)}
	s.extra = append([]string{"--remote=pssl:" + port + ":127.0.0.1", "--private-key=" + files.PrivateKey,
		"--certificate=" + files.Certificate, "--ca-cert=" + files.CACert}, more...)
	s.create()
	s.Run()
	return s
}

// TLSEndpoint returns the OVSDB remote of a server that StartTLS started.
func (s *Server) TLSEndpoint() string { return "ssl:" + s.secure }

// HangUp closes all connections. The server continues to run.
func (s *Server) HangUp() {
	s.t.Helper()
	Command(s.t, "ovs-appctl", "-t", filepath.Join(s.dir, "ctl"), "ovsdb-server/reconnect")
}

// StartTLSWire starts a path to the server's TLS listener.
func StartTLSWire(t testing.TB, server *Server) *Wire {
	t.Helper()
	w := startWire(t, "tcp", server.secure)
	w.scheme = "ssl:"
	return w
}

// freePort returns an unused port; the server does not report which port it chose.
func freePort(t testing.TB) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}
