package main

import (
	"context"
	"flag"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/weft-network/weft/pkg/launch"
	"github.com/weft-network/weft/pkg/member"
)

// memberCommand takes the operator's orders for the databases of this host, and connects them with their other members.
func memberCommand(args []string) error {
	var address, data, tls string
	var check bool
	flags := flag.NewFlagSet("weft-ovn member", flag.ContinueOnError)
	flags.StringVar(&address, "listen", ":"+member.Port, "where the operator and the other members reach it")
	flags.StringVar(&data, "data-dir", dataDir, "folder of the databases")
	flags.StringVar(&tls, "tls-dir", launch.TLSDir, "folder of tls.key, tls.crt and ca.crt, of the northbound database")
	flags.BoolVar(&check, "check", false, "do nothing but say, by the exit code, whether the databases of this host are connected to their others")
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
	server := &member.Server{Address: address, Run: launch.OVNRun, Data: data, Identity: member.Files(files.PrivateKey, files.Certificate, files.CACert),
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	return server.Serve(ctx)
}
