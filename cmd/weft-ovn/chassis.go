package main

import (
	"context"
	"flag"
	"fmt"
	"os/signal"
	"strings"
	"syscall"

	"github.com/go-logr/logr"

	"github.com/weft-network/weft/pkg/install/chassis"
	"github.com/weft-network/weft/pkg/install/launch"
	"github.com/weft-network/weft/pkg/process/version"
)

// chassisCommand keeps the chassis of other zones' nodes in the southbound database, and removes the chassis of former nodes.
func chassisCommand(args []string) error {
	var northbound, southbound string
	flags := flag.NewFlagSet("weft-ovn chassis", flag.ContinueOnError)
	flags.StringVar(&northbound, "nb", "unix:"+launch.OVNRun+"/ovnnb_db.sock",
		"OVSDB remotes of the northbound database, separated by commas")
	flags.StringVar(&southbound, "sb", "unix:"+launch.OVNRun+"/ovnsb_db.sock",
		"OVSDB remote of one server of the southbound database, to which this program writes while that server leads")
	if err := flags.Parse(args); err != nil {
		return err
	}
	for flag, value := range map[string]string{"--nb": northbound, "--sb": southbound} {
		if value == "" {
			return fmt.Errorf("%s is required", flag)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	chassis.Run(ctx, chassis.Options{Northbound: strings.Split(northbound, ","), Southbound: southbound,
		Writer: "weft-ovn chassis " + version.String(), Log: logr.FromSlogHandler(logHandler())})
	return nil
}
