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

	"github.com/weft-network/weft/pkg/rebuild"
)

func newDatabase(target *cluster) *cobra.Command {
	cmd := &cobra.Command{Use: "db", Short: "Repair the OVN databases"}
	cmd.AddCommand(newRebuild(target))
	return cmd
}

// rebuildCommand are the flags of "db rebuild".
type rebuildCommand struct {
	rebuild.Options
	cluster *cluster
	local   bool
	output  string
}

const rebuildLong = `Make the southbound database anew while the network runs: a new one is computed aside from the northbound database, seeded with
the chassis and the bindings, and takes the old one's place in one moment. With --nb the northbound database is made anew before, and
the operator fills it. Existing pods lose no packet; a new pod waits as long as ovn-northd pauses.

It has to run where the databases and ovn-northd do, as a user who may write there (--local). A step that fails takes back what was
done; before the swap nothing of the running network has changed.`

func newRebuild(target *cluster) *cobra.Command {
	c := &rebuildCommand{cluster: target, Options: rebuild.Options{
		RunDir: "/run/ovn", NB: "unix:/run/ovn/ovnnb_db.sock", SB: "unix:/run/ovn/ovnsb_db.sock",
		NBFile: "/var/lib/ovn/ovnnb_db.db", SBFile: "/var/lib/ovn/ovnsb_db.db",
		NBSchema: "/usr/share/ovn/ovn-nb.ovsschema", SBSchema: "/usr/share/ovn/ovn-sb.ovsschema",
		Programs: rebuild.Programs{OVSDBServer: "ovsdb-server", OVSDBTool: "ovsdb-tool", Northd: "ovn-northd"},
		Wait:     2 * time.Minute,
	}}
	cmd := &cobra.Command{
		Use:   "rebuild --local",
		Short: "Make the OVN databases anew while the network runs",
		Long:  rebuildLong,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return c.run(ctx, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&c.local, "local", false, "the databases are on this machine")
	flags.StringVarP(&c.output, "output", "o", "text", "text or json")
	flags.BoolVar(&c.Northbound, "nb", false, "make the northbound database anew too; the operator fills it")
	flags.BoolVar(&c.DropForeign, "drop-foreign-rows", false, "with --nb: lose the northbound rows that are not Weft's")
	flags.BoolVar(&c.NewKeys, "allow-new-keys", false, "go on when tunnel keys differ from before: packets are lost until all chassis follow")
	flags.StringVar(&c.RunDir, "run-dir", c.RunDir, "folder of ovnnb_db.ctl, ovnsb_db.ctl and ovn-northd.<pid>.ctl")
	flags.StringVar(&c.Options.NB, "nb-remote", c.Options.NB, "the northbound database")
	flags.StringVar(&c.Options.SB, "sb-remote", c.Options.SB, "the southbound database")
	flags.StringVar(&c.NBFile, "nb-file", c.NBFile, "file of the northbound database")
	flags.StringVar(&c.SBFile, "sb-file", c.SBFile, "file of the southbound database")
	flags.StringVar(&c.NBSchema, "nb-schema", c.NBSchema, "schema of a northbound database that does not answer")
	flags.StringVar(&c.SBSchema, "sb-schema", c.SBSchema, "schema of a southbound database that does not answer")
	flags.StringVar(&c.Programs.OVSDBServer, "ovsdb-server", c.Programs.OVSDBServer, "path of the program")
	flags.StringVar(&c.Programs.OVSDBTool, "ovsdb-tool", c.Programs.OVSDBTool, "path of the program")
	flags.StringVar(&c.Programs.Northd, "ovn-northd", c.Programs.Northd, "path of the program, of the same version as the running one")
	flags.DurationVar(&c.Wait, "wait", c.Wait, "bounds each wait: for the operator, ovn-northd, a server, the chassis")
	return cmd
}

var errNotLocal = errors.New("run this with --local on the machine where the OVN databases and ovn-northd run")

func (c *rebuildCommand) run(ctx context.Context, out io.Writer) error {
	if c.output != "text" && c.output != "json" {
		return fmt.Errorf("output %q: want text or json", c.output)
	}
	if !c.local {
		return errNotLocal
	}
	objects, err := newDatabaseCluster(c.cluster)
	if err != nil {
		return err
	}
	if c.output == "text" {
		c.Told = func(s rebuild.Step) { printStep(out, s) }
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
	}{{"note: ", r.Notes}, {"silent chassis: ", r.Silent}, {"bound no more: ", r.Unbound}, {"the file of before: ", r.Previous}} {
		for _, name := range line.names {
			fmt.Fprintln(out, line.what+name)
		}
	}
	if r.Error == "" {
		fmt.Fprintf(out, "rebuilt in %.1f s; ovn-northd paused for %.1f s\n", r.Seconds, r.PausedSeconds)
	}
}
