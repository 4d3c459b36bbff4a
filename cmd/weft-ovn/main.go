// Command weft-ovn is the entry point of the containers of OVN and Open vSwitch: see package launch.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/weft-network/weft/pkg/install/launch"
)

func main() {
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "weft-ovn:", err)
		os.Exit(1)
	}
}

// places are the folders of a program's files, and whether its databases are clustered.
type places struct {
	data, tls, identity, source string
	cluster                     bool
}

// dataDir is the folder of OVN's databases.
const dataDir = "/var/lib/ovn"

var all = map[string]func(places) (launch.Program, error){
	"nb":    func(p places) (launch.Program, error) { return p.member("nb", launch.Northbound) },
	"sb":    func(p places) (launch.Program, error) { return p.member("sb", launch.Southbound) },
	"relay": func(p places) (launch.Program, error) { return launch.Relay(p.source, launch.TLSIn(p.tls)) },
	"northd": func(p places) (launch.Program, error) {
		if p.cluster {
			return launch.ClusterNorthd(), nil
		}
		return launch.Northd(), nil
	},
	"ovsdb": func(places) (launch.Program, error) { return launch.SwitchDatabase(launch.Datapath()) },
	"vswitchd": func(places) (launch.Program, error) {
		launch.Datapath() // makes the kernel load its module
		return launch.Switch(), nil
	},
	"ike": func(places) (launch.Program, error) { return launch.IKE(launch.IKERun), nil },
	"controller": func(p places) (launch.Program, error) {
		return launch.Controller(launch.ChassisTLS(p.identity, launch.TLSIn(p.tls).CACert)), nil
	},
}

// member returns the server of a database.
func (p places) member(name string, server func(string, launch.TLS) (launch.Program, error)) (launch.Program, error) {
	program, err := server(p.data, launch.TLSIn(p.tls))
	if err != nil || !p.cluster {
		return program, err
	}
	return launch.InCluster(program, name, p.data), nil
}

func run(args []string) error {
	commands := map[string]func([]string) error{"member": memberCommand, "identity": identityCommand, "source": sourceCommand,
		"relay-check": relayCheckCommand, "chassis": chassisCommand}
	if len(args) > 0 && commands[args[0]] != nil {
		return commands[args[0]](args[1:])
	}
	if len(args) > 0 && args[0] == "trace" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		return traceCommand(ctx, args[1:], os.Stdin, os.Stdout)
	}
	if len(args) > 0 && args[0] == "clear" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		return launch.Clear(ctx, launch.Leftovers)
	}
	if len(args) > 0 && args[0] == "programs" {
		return programsCommand(context.Background(), args[1:])
	}
	if len(args) == 0 || all[args[0]] == nil {
		return fmt.Errorf("the first argument must be one of %s, identity, member, source, relay-check, chassis, clear, programs, trace",
			strings.Join(slices.Sorted(maps.Keys(all)), ", "))
	}
	var p places
	flags := flag.NewFlagSet("weft-ovn "+args[0], flag.ContinueOnError)
	flags.StringVar(&p.data, "data-dir", dataDir, "folder of the database")
	flags.StringVar(&p.tls, "tls-dir", launch.TLSDir, "folder of tls.key, tls.crt and ca.crt")
	flags.StringVar(&p.identity, "identity-dir", launch.IdentityDir, "folder of the chassis' key pair, which \"weft-ovn identity\" renews")
	flags.StringVar(&p.source, "source", os.Getenv("WEFT_SB_SOURCE"),
		"of a relay: the southbound database's OVSDB remotes for relays, separated by commas (environment WEFT_SB_SOURCE)")
	flags.BoolVar(&p.cluster, "cluster", false,
		"the databases are clustered: create or join each as the operator orders through \"weft-ovn member\"")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	program, err := all[args[0]](p)
	if err != nil {
		return err
	}
	return become(program)
}

// logHandler writes the messages of the severity that the environment chooses.
func logHandler() slog.Handler {
	severity := map[string]slog.Level{"error": slog.LevelError, "warning": slog.LevelWarn, "debug": slog.LevelDebug}
	return slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: severity[strings.ToLower(os.Getenv(launch.LogLevel))]})
}

// become prepares the program and replaces this process with it. It returns only on an error.
func become(program launch.Program) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := program.Prepare(ctx); err != nil {
		return err
	}
	path, err := exec.LookPath(program.Argv[0])
	if err != nil {
		return err
	}
	stop() // from here on the program handles the signals
	return fmt.Errorf("%s: %w", path, syscall.Exec(path, program.Argv, append(os.Environ(), program.Env...)))
}
