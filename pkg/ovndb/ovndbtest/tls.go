package ovndbtest

import (
	"net"
	"path/filepath"
	"strconv"
	"testing"
)

// TLSFiles are a server's key and certificate, and the certificates of the authorities that sign its clients', in PEM.
type TLSFiles struct{ PrivateKey, Certificate, CACert string }

// StartTLS is Start with a listener at which client and server show their certificates, and more arguments of ovsdb-server. The server reads
// its files again when they change.
func StartTLS(t testing.TB, schema string, files TLSFiles, more ...string) *Server {
	t.Helper()
	port := strconv.Itoa(freePort(t))
	s := &Server{t: t, dir: shortDir(t), schema: schema, secure: net.JoinHostPort("127.0.0.1", port)}
	s.extra = append([]string{"--remote=pssl:" + port + ":127.0.0.1", "--private-key=" + files.PrivateKey, "--certificate=" + files.Certificate, "--ca-cert=" + files.CACert}, more...)
	s.create()
	s.Run()
	return s
}

// TLSEndpoint returns the OVSDB remote of a server that StartTLS started.
func (s *Server) TLSEndpoint() string { return "ssl:" + s.secure }

// HangUp ends all connections; the server goes on.
func (s *Server) HangUp() {
	s.t.Helper()
	Command(s.t, "ovs-appctl", "-t", filepath.Join(s.dir, "ctl"), "ovsdb-server/reconnect")
}

// StartTLSWire starts a path to that remote.
func StartTLSWire(t testing.TB, server *Server) *Wire {
	t.Helper()
	w := startWire(t, "tcp", server.secure)
	w.scheme = "ssl:"
	return w
}

// freePort is one that nobody listens at; the server could not tell which it took.
func freePort(t testing.TB) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}
