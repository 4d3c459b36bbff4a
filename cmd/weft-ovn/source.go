package main

import (
	"context"
	"flag"
	"log/slog"
	"os/signal"
	"syscall"

	"github.com/weft-network/weft/pkg/install/launch"
	"github.com/weft-network/weft/pkg/install/member"
	"github.com/weft-network/weft/pkg/ports"
)

// sourceCommand connects relays to the southbound database of this host.
func sourceCommand(args []string) error {
	var address, tls string
	flags := flag.NewFlagSet("weft-ovn source", flag.ContinueOnError)
	flags.StringVar(&address, "listen", ports.Any(ports.SouthboundSource), "address to listen on for relays")
	flags.StringVar(&tls, "tls-dir", launch.TLSDir, "folder of the southbound database's tls.key, tls.crt and ca.crt")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	files := launch.TLSIn(tls)
	source := &member.Source{Address: address, Run: launch.OVNRun,
		Identity: member.Files(files.PrivateKey, files.Certificate, files.CACert),
		Log:      slog.New(logHandler())}
	return source.Serve(ctx)
}

// relayCheckCommand fails unless the relay of this host is connected to the southbound database.
func relayCheckCommand(args []string) error {
	if err := flag.NewFlagSet("weft-ovn relay-check", flag.ContinueOnError).Parse(args); err != nil {
		return err
	}
	return member.CheckRelay(context.Background(), launch.OVNRun)
}
