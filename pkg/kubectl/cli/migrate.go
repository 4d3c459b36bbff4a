package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/weft-network/weft/pkg/kubectl/migrate"
)

// formatYAML prints manifests.
const formatYAML format = "yaml"

func newMigrate(target *cluster) *cobra.Command {
	c := &cobra.Command{Use: "migrate", Short: "Prepare the move of a cluster from another network", Args: noArguments,
		Example: "  kubectl weft migrate inspect"}
	c.AddCommand(newMigrateInspect(target))
	return c
}

type inspectCommand struct {
	cluster *cluster
	format  format
	files   []string
	folder  string
}

func newMigrateInspect(target *cluster) *cobra.Command {
	i := &inspectCommand{cluster: target}
	c := &cobra.Command{Use: "inspect", Args: noArguments, Short: "Find out what of another network's objects Weft can take over",
		Long: `Read a cluster with ovn-kubernetes, kube-ovn, Calico, Cilium or flannel, and say for each object of the network
whether it is translated, kept as it is, not needed, or has no counterpart. Pools of MetalLB, and
NetworkAttachmentDefinitions, are read too.

Only the API server is read, and nothing is written to it. The right to read is sufficient. A right that is missing is
named, with the command that grants it.

-o yaml prints the manifests for Weft. --output-dir writes them into a folder, together with report.txt and
report.json. -f reads objects from files instead of the API server.

Exit codes: 0 everything has a counterpart or needs none, 1 something needs a person, 2 an error.`,
		Example: `  kubectl weft migrate inspect
  kubectl weft migrate inspect --output-dir weft
  kubectl weft migrate inspect -o yaml > weft.yaml
  kubectl weft migrate inspect -f dump.yaml -o json`,
		RunE: i.run}
	c.Flags().StringVarP((*string)(&i.format), "output", "o", string(formatText), "text, yaml or json")
	c.Flags().StringSliceVarP(&i.files, "filename", "f", nil, `files or folders with the cluster's objects; "-" is standard input`)
	c.Flags().StringVar(&i.folder, "output-dir", "", "folder to write the manifests and the report to")
	completeWords(c, "output", string(formatText), string(formatYAML), string(formatJSON))
	return c
}

func (i *inspectCommand) run(c *cobra.Command, _ []string) error {
	if i.format != formatYAML && i.format.check() != nil {
		return fmt.Errorf("invalid output %q: want text, yaml or json", string(i.format))
	}
	read, err := i.read(c)
	if err != nil {
		return err
	}
	report := migrate.Inspect(read)
	if report.Source.Network == "" {
		return foundNoNetwork(report)
	}
	if i.folder != "" {
		if err := writeMigration(i.folder, report); err != nil {
			return err
		}
	}
	if err := i.print(c, report); err != nil {
		return err
	}
	if !report.Complete() {
		return errDifferent
	}
	return nil
}

// read reads the cluster, or the files.
func (i *inspectCommand) read(c *cobra.Command) (migrate.Cluster, error) {
	if len(i.files) == 0 {
		config, err := i.cluster.restConfig()
		if err != nil {
			return migrate.Cluster{}, err
		}
		return readForeign(c.Context(), config)
	}
	var read migrate.Cluster
	documents, err := readFiles(i.files, c.InOrStdin())
	for _, d := range documents {
		read.Objects = append(read.Objects, d.Object)
	}
	return read, err
}

// foundNoNetwork is the error for a cluster without a known network. It names what could not be read.
func foundNoNetwork(r migrate.Report) error {
	err := errors.New("found no network of ovn-kubernetes, kube-ovn, Calico, Cilium or flannel")
	if len(r.Unread) > 0 {
		return fmt.Errorf("%w; %s", err, grant(r.Unread))
	}
	return err
}

// print prints the report, or the manifests.
func (i *inspectCommand) print(c *cobra.Command, report migrate.Report) error {
	if i.format != formatYAML {
		return i.format.write(c.OutOrStdout(), inspectAnswer(report), func() string { return migrationText(report) })
	}
	for _, m := range report.Manifests {
		if err := writeManifest(c.OutOrStdout(), m); err != nil {
			return err
		}
	}
	fmt.Fprintln(c.ErrOrStderr(), migrationSummary(report))
	return nil
}

// inspectAnswer is the answer of "kubectl weft migrate inspect -o json".
type inspectAnswer migrate.Report

// MarshalJSON encodes empty lists as [] instead of null.
func (a inspectAnswer) MarshalJSON() ([]byte, error) {
	type plain inspectAnswer
	a.Objects, a.Manifests, a.Problems, a.Steps = listOf(a.Objects), listOf(a.Manifests), listOf(a.Problems), listOf(a.Steps)
	a.Unread, a.Source.Evidence, a.Source.Besides = listOf(a.Unread), listOf(a.Source.Evidence), listOf(a.Source.Besides)
	return json.Marshal(plain(a))
}

func writeManifest(out io.Writer, m migrate.Manifest) error {
	text, err := yaml.Marshal(m.Object)
	if err != nil {
		return err
	}
	if _, err = fmt.Fprintln(out, "---"); err != nil {
		return err
	}
	for _, from := range m.From {
		if _, err = fmt.Fprintln(out, "# from", from); err != nil {
			return err
		}
	}
	_, err = out.Write(text)
	return err
}

// writeMigration writes the manifests and the report into a folder, which must not have such files yet.
func writeMigration(folder string, report migrate.Report) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	var names []string
	for _, m := range report.Manifests {
		if !slices.Contains(names, m.File) {
			names = append(names, m.File)
		}
	}
	for _, name := range names {
		err := writeNew(filepath.Join(folder, name), func(out io.Writer) error {
			for _, m := range report.Manifests {
				if m.File != name {
					continue
				}
				if err := writeManifest(out, m); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	err := writeNew(filepath.Join(folder, "report.txt"), func(out io.Writer) error {
		_, err := io.WriteString(out, migrationText(report))
		return err
	})
	if err != nil {
		return err
	}
	return writeNew(filepath.Join(folder, "report.json"), func(out io.Writer) error {
		return formatJSON.write(out, inspectAnswer(report), nil)
	})
}

// writeNew writes a file that does not exist yet.
func writeNew(name string, write func(io.Writer) error) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists: choose another folder, or remove it", name)
	}
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}
