package main

import (
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/spf13/cobra"
)

// resolved is one server's answer for a name.
type resolved struct {
	Server    string       `json:"server"` // ADDRESS:PORT; empty: from /etc/resolv.conf
	Protocol  string       `json:"protocol"`
	Name      string       `json:"name"`
	Addresses []netip.Addr `json:"addresses"` // of both families, sorted
	Error     string       `json:"error,omitempty"`
}

func newResolve() *cobra.Command {
	var servers, protocols, names []string
	cmd := &cobra.Command{
		Use:   "resolve",
		Short: "Query each server for the addresses of each name, over each protocol, and print the answers",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var all []resolved
			for _, server := range servers {
				for _, protocol := range protocols {
					for _, name := range names {
						all = append(all, resolve(cmd.Context(), server, protocol, name))
					}
				}
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(all)
		},
	}
	cmd.Flags().StringArrayVar(&servers, "server", nil, "ADDRESS:PORT, or empty for the servers in /etc/resolv.conf; may be given again")
	cmd.Flags().StringSliceVar(&protocols, "protocol", []string{"udp"}, "udp or tcp; may be given again")
	cmd.Flags().StringSliceVar(&names, "name", nil, "may be given again")
	return cmd
}

func resolve(ctx context.Context, server, protocol, name string) resolved {
	const patience = 3 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	dial := func(ctx context.Context, _, address string) (net.Conn, error) {
		if server != "" {
			address = server
		}
		return (&net.Dialer{}).DialContext(ctx, protocol, address)
	}
	r := resolved{Server: server, Protocol: protocol, Name: name}
	var err error
	r.Addresses, err = (&net.Resolver{PreferGo: true, StrictErrors: true, Dial: dial}).LookupNetIP(ctx, "ip", name)
	if err != nil {
		r.Error = err.Error()
	}
	for i, a := range r.Addresses {
		r.Addresses[i] = a.Unmap()
	}
	slices.SortFunc(r.Addresses, netip.Addr.Compare)
	return r
}
