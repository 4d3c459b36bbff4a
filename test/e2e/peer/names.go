package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/net/dns/dnsmessage"
)

func newNames() *cobra.Command {
	var listen string
	var records []string
	var ttl uint32
	cmd := &cobra.Command{
		Use:   "names",
		Short: "Serve a few names over UDP until the standard input ends",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			zone := map[string][]netip.Addr{}
			for _, record := range records {
				name, text, _ := strings.Cut(record, "=")
				address, err := netip.ParseAddr(text)
				if err != nil {
					return err
				}
				zone[name+"."] = append(zone[name+"."], address)
			}
			socket, err := (&net.ListenConfig{}).ListenPacket(cmd.Context(), "udp", listen)
			if err != nil {
				return err
			}
			go func() { _, _ = io.Copy(io.Discard, cmd.InOrStdin()); socket.Close() }()
			context.AfterFunc(cmd.Context(), func() { socket.Close() })
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), "ready"); err != nil {
				return err
			}
			serveNames(socket, zone, ttl)
			return nil
		},
	}
	cmd.Flags().StringVar(&listen, "listen", ":53", "ADDRESS:PORT")
	cmd.Flags().StringArrayVar(&records, "record", nil, "NAME=ADDRESS; may be given again")
	cmd.Flags().Uint32Var(&ttl, "ttl", 5, "of each answer, in seconds")
	return cmd
}

func serveNames(socket net.PacketConn, zone map[string][]netip.Addr, ttl uint32) {
	buffer := make([]byte, 1500)
	for {
		n, from, err := socket.ReadFrom(buffer)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(buffer[:n]); err != nil || len(m.Questions) != 1 {
			continue
		}
		if text, err := answerTo(m, zone, ttl); err == nil {
			_, _ = socket.WriteTo(text, from) // the client retries
		}
	}
}

func answerTo(m dnsmessage.Message, zone map[string][]netip.Addr, ttl uint32) ([]byte, error) {
	query := m.Questions[0]
	addresses, exists := zone[strings.ToLower(query.Name.String())]
	m.Response, m.Additionals = true, nil
	if !exists {
		m.RCode = dnsmessage.RCodeNameError
	}
	for _, a := range addresses {
		r := dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: query.Name, Class: dnsmessage.ClassINET, TTL: ttl}}
		switch {
		case a.Is4() && query.Type == dnsmessage.TypeA:
			r.Body = &dnsmessage.AResource{A: a.As4()}
		case a.Is6() && query.Type == dnsmessage.TypeAAAA:
			r.Body = &dnsmessage.AAAAResource{AAAA: a.As16()}
		default:
			continue
		}
		m.Answers = append(m.Answers, r)
	}
	return m.Pack()
}
