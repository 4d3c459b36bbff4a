package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-network/weft/pkg/install/beside"
	"github.com/weft-network/weft/pkg/install/rebuild"
)

func newDatabase(target *cluster) *cobra.Command {
	cmd := &cobra.Command{Use: "db", Short: "Repair the OVN databases",
		Example: "  kubectl weft db rebuild --local"}
	cmd.AddCommand(newRebuild(target))
	return cmd
}

// rebuildCommand holds the flags of "db rebuild".
type rebuildCommand struct {
	rebuild.Options
	cluster *cluster
	local   bool
	output  string
}

const rebuildLong = `Recreate the southbound database while the network runs. A new database is computed from the
northbound database, seeded with the chassis and the bindings, and then replaces the old one in a
single step. With --nb the northbound database is recreated first, and the operator fills it.
Existing pods lose no packet. New pods wait while ovn-northd is paused.

The command must run on the host of the databases and ovn-northd (--local), as a user who may write
their files. If a step fails, all steps are undone; nothing in the running network changes before
the swap.`

func newRebuild(target *cluster) *cobra.Command {
	c := &rebuildCommand{cluster: target, Options: rebuild.Options{
		RunDir: "/run/ovn", NB: "unix:/run/ovn/ovnnb_db.sock", SB: "unix:/run/ovn/ovnsb_db.sock",
		NBFile: "/var/lib/ovn/ovnnb_db.db", SBFile: "/var/lib/ovn/ovnsb_db.db",
		NBSchema: "/usr/share/ovn/ovn-nb.ovsschema", SBSchema: "/usr/share/ovn/ovn-sb.ovsschema",
		Programs: beside.Programs{OVSDBServer: "ovsdb-server", OVSDBTool: "ovsdb-tool", Northd: "ovn-northd"},
		Wait:     2 * time.Minute,
	}}
	cmd := &cobra.Command{
		Use:   "rebuild --local",
		Short: "Recreate the OVN databases while the network runs",
		Long:  rebuildLong,
		Example: `  kubectl weft db rebuild --local
  kubectl weft db rebuild --local --nb -o json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := outlive()
			defer stop()
			return c.run(ctx, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&c.local, "local", false, "the databases are on this host")
	flags.StringVarP(&c.output, "output", "o", "text", "text or json")
	completeWords(cmd, "output", "text", "json")
	flags.BoolVar(&c.Northbound, "nb", false, "also recreate the northbound database; the operator fills it")
	flags.BoolVar(&c.DropForeign, "drop-foreign-rows", false, "with --nb: drop the northbound rows that are not Weft's")
	flags.BoolVar(&c.NewKeys, "allow-new-keys", false, "continue if tunnel keys change: packets are lost until all chassis have followed")
	flags.StringVar(&c.RunDir, "run-dir", c.RunDir, "folder of ovnnb_db.ctl, ovnsb_db.ctl and ovn-northd.<pid>.ctl")
	flags.StringVar(&c.Options.NB, "nb-remote", c.Options.NB, "OVSDB remote of the northbound database")
	flags.StringVar(&c.Options.SB, "sb-remote", c.Options.SB, "OVSDB remote of the southbound database")
	flags.StringVar(&c.NBFile, "nb-file", c.NBFile, "file of the northbound database")
	flags.StringVar(&c.SBFile, "sb-file", c.SBFile, "file of the southbound database")
	flags.StringVar(&c.NBSchema, "nb-schema", c.NBSchema, "schema file, used if the northbound database does not answer")
	flags.StringVar(&c.SBSchema, "sb-schema", c.SBSchema, "schema file, used if the southbound database does not answer")
	flags.StringVar(&c.Programs.OVSDBServer, "ovsdb-server", c.Programs.OVSDBServer, "path of ovsdb-server")
	flags.StringVar(&c.Programs.OVSDBTool, "ovsdb-tool", c.Programs.OVSDBTool, "path of ovsdb-tool")
	flags.StringVar(&c.Programs.Northd, "ovn-northd", c.Programs.Northd,
		"path of ovn-northd; its version must be that of the running ovn-northd")
	flags.DurationVar(&c.Wait, "wait", c.Wait, "limit of each wait: for the operator, ovn-northd, a server and the chassis")
	return cmd
}

// outlive lets a command complete or undo what it has begun. A closed output does not end the process, and a closed
// terminal or another signal only ends ctx. stop restores the previous handling of signals.
func outlive() (ctx context.Context, stop func()) {
	ctx, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	closed := make(chan os.Signal, 1)
	// A write to a closed output then returns an error. Unlike an ignored signal, this is not inherited by child
	// processes.
	signal.Notify(closed, syscall.SIGPIPE)
	return ctx, func() {
		signal.Stop(closed)
		release()
	}
}

var errNotLocal = errors.New("run the command with --local on the host of the OVN databases and ovn-northd")

func (c *rebuildCommand) run(ctx context.Context, out io.Writer) error {
	if c.output != "text" && c.output != "json" {
		return fmt.Errorf("invalid output %q: want text or json", c.output)
	}
	if err := positive("wait", c.Wait); err != nil {
		return err
	}
	if !c.local {
		return errNotLocal
	}
	if c.DropForeign && !c.Northbound {
		return errors.New("--drop-foreign-rows needs --nb")
	}
	objects, err := newDatabaseCluster(c.cluster)
	if err != nil {
		return err
	}
	if c.output == "text" {
		c.OnStep = func(s rebuild.Step) { printStep(out, s) }
	}
	report, err := rebuild.Run(ctx, c.Options, objects)
	if c.output == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		err = errors.Join(err, encoder.Encode(report))
	} else {
		printReport(out, report)
	}
	if err == nil && len(report.Silent)+len(report.Unbound) > 0 {
		return errDifferent
	}
	return err
}

func printStep(out io.Writer, s rebuild.Step) {
	text := s.Detail
	if s.Error != "" {
		text = "FAILED"
	}
	fmt.Fprintln(out, strings.TrimRight(fmt.Sprintf("%7.3fs  %-32s %s", s.Seconds, s.Name, text), " "))
}

func printReport(out io.Writer, r rebuild.Report) {
	for _, line := range []struct {
		what  string
		names []string
	}{{"note: ", r.Notes}, {"silent chassis: ", r.Silent}, {"no longer bound: ", r.Unbound}, {"previous file: ", r.Previous}} {
		for _, name := range line.names {
			fmt.Fprintln(out, line.what+name)
		}
	}
	if r.Error == "" {
		fmt.Fprintf(out, "rebuilt in %.1f s; ovn-northd paused for %.1f s\n", r.Seconds, r.PausedSeconds)
	}
}
