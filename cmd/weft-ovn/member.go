package main

import (
	"context"
	"flag"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/weft-network/weft/pkg/install/launch"
	"github.com/weft-network/weft/pkg/install/member"
	"github.com/weft-network/weft/pkg/ports"
)

// memberCommand accepts the operator's orders for the databases of this host, and connects them to their other
// members.
func memberCommand(args []string) error {
	var address, data, tls string
	var check bool
	flags := flag.NewFlagSet("weft-ovn member", flag.ContinueOnError)
	flags.StringVar(&address, "listen", ports.Any(ports.Members), "address to listen on for the operator and the other members")
	flags.StringVar(&data, "data-dir", dataDir, "folder of the databases")
	flags.StringVar(&tls, "tls-dir", launch.TLSDir, "folder of the northbound database's tls.key, tls.crt and ca.crt")
	flags.BoolVar(&check, "check", false,
		"only check that the databases of this host are connected to their clusters; if not, exit with an error")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if check {
		return member.Check(ctx, launch.OVNRun, data)
	}
	for _, dir := range []string{launch.OVNRun, data} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	files := launch.TLSIn(tls)
	server := &member.Server{Address: address, Run: launch.OVNRun, Data: data,
		Identity: member.Files(files.PrivateKey, files.Certificate, files.CACert),
		Log:      slog.New(logHandler())}
	return server.Serve(ctx)
}
