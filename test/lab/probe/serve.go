package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"
)

// answer reports to a client which server answered and how the server saw the client.
type answer struct {
	Pod    string `json:"pod"`
	Node   string `json:"node"`
	Client string `json:"client"` // address and port
	Server string `json:"server"` // address and port that received the request
}

func newServe() *cobra.Command {
	port, echoes := 8080, 0
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Answer HTTP requests with this pod's name, its node's and the client's address",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if echoes != 0 {
				if err := echo(cmd.Context(), echoes); err != nil {
					return err
				}
			}
			return serve(cmd.Context(), port)
		},
	}
	cmd.Flags().IntVar(&echoes, "echo", 0, "UDP and TCP port that echoes; 0: none")
	cmd.Flags().IntVar(&port, "port", port, "TCP port, IPv4 and IPv6")
	return cmd
}

func serve(ctx context.Context, port int) error {
	listener, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.HandlerFunc(identify), ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { server.Close() })
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// identify reads the names from the environment (the downward API). Its fallback is the host name, which is the
// pod's.
func identify(w http.ResponseWriter, r *http.Request) {
	host, _ := os.Hostname()
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	a := answer{Pod: cmp.Or(os.Getenv("POD_NAME"), host), Node: os.Getenv("NODE_NAME"), Client: r.RemoteAddr}
	if local != nil {
		a.Server = local.String()
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Connection", "close") // a kept connection would hide load balancing
	_ = json.NewEncoder(w).Encode(a)      // an error means that the client has disconnected
}
