// Command lab-connect connects clients with the destination of their HTTP CONNECT (RFC 9110 §9.3.6). On a node it is
// the API server's path to pods.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: lab-connect SOCKET")
		os.Exit(2)
	}
	fmt.Fprintln(os.Stderr, "lab-connect:", serve(os.Args[1]))
	os.Exit(1)
}

// serve listens at a path, and first removes a previous socket there.
func serve(path string) error {
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.HandlerFunc(connect), ReadHeaderTimeout: 10 * time.Second}
	return server.Serve(listener)
}

func connect(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(w, "CONNECT only", http.StatusMethodNotAllowed)
		return
	}
	server, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer server.Close()
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer client.Close()
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connected\r\n\r\n"); err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(server, buffered)
		_ = server.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(client, server)
}
