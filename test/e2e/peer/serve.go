package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

func newServe() *cobra.Command {
	var remote string
	var attached bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Answer HTTP, echo TCP and UDP, report the caller; optionally keep a TCP connection to another peer",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithCancel(cmd.Context())
			defer cancel()
			if attached {
				go func() { _, _ = io.Copy(io.Discard, cmd.InOrStdin()); cancel() }()
			}
			return serve(ctx, remote)
		},
	}
	cmd.Flags().BoolVar(&attached, "attached", false, "end with the standard input")
	cmd.Flags().StringVar(&remote, "flow", "", "ADDRESS:PORT to exchange a counter with over one connection")
	return cmd
}

func serve(ctx context.Context, remote string) error {
	group, ctx := errgroup.WithContext(ctx)
	flow := newFlow()
	group.Go(func() error { return echoTCP(ctx) })
	group.Go(func() error { return echoUDP(ctx) })
	group.Go(func() error { return whoTCP(ctx) })
	group.Go(func() error { return whoUDP(ctx) })
	group.Go(func() error { return dscpUDP(ctx) })
	group.Go(func() error { return serveHTTP(ctx, flow) })
	if remote != "" {
		group.Go(func() error { flow.run(ctx, remote); return nil })
	}
	err := group.Wait()
	if ctx.Err() != nil {
		return nil // the error of a closed listener
	}
	return err
}

func echoTCP(ctx context.Context) error {
	listener, err := net.Listen("tcp", fmt.Sprintf(":%d", echoPort))
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { listener.Close() })
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			_, _ = io.Copy(conn, conn) // the client reports errors
		}()
	}
}

func echoUDP(ctx context.Context) error {
	return serveUDP(ctx, echoPort, func(_ netip.AddrPort, datagram []byte) []byte { return datagram })
}

func serveHTTP(ctx context.Context, flow *flow) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/", identify)
	mux.HandleFunc("/pour", pour)
	mux.HandleFunc("/flow", func(w http.ResponseWriter, r *http.Request) { reply(w, flow.state(r.URL.Query().Has("reset"))) })
	server := &http.Server{Addr: fmt.Sprintf(":%d", httpPort), Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { server.Close() })
	return server.ListenAndServe()
}

// identify returns the fields that probe check expects from a server.
func identify(w http.ResponseWriter, r *http.Request) {
	host, _ := os.Hostname()
	w.Header().Set("Connection", "close")
	reply(w, map[string]string{"pod": host, "client": r.RemoteAddr})
}

func reply(w http.ResponseWriter, document any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(document) // an error means that the client has disconnected
}
