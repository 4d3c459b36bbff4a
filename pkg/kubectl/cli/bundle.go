package cli

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func newBundle(target *cluster) *cobra.Command {
	var name string
	c := &cobra.Command{Use: "bundle", Short: "Collect diagnostic data into an archive, without secrets", Args: noArguments,
		Long: `Collect the data for the diagnosis of a problem into one archive (tar.gz): Weft's resources, the
nodes, the workloads in the operator's namespace with their events and logs, the status, drift,
invariants and metrics.

Secrets are never read. Private keys, tokens and passwords in logs and in the environment of
containers are replaced by REDACTED. The archive contains the names and addresses of nodes and pods.

errors.txt names what could not be read. Exit codes: 0 everything was collected, 1 something is
missing, 2 an error.`,
		Example: `  kubectl weft bundle
  kubectl weft bundle -f - | tar tz`,
	}
	c.Flags().StringVarP(&name, "file", "f", "", `file to write, "-" for standard output (default weft-bundle-TIME.tar.gz)`)
	c.RunE = func(c *cobra.Command, _ []string) error {
		now := time.Now().UTC()
		if name == "" {
			name = "weft-bundle-" + now.Format("20060102-150405") + ".tar.gz"
		}
		missing, err := writeBundle(c, target, name, now)
		if err != nil {
			return err
		}
		if name != "-" {
			fmt.Fprintf(c.OutOrStdout(), "%s: collected; %d parts are missing (see errors.txt in the archive)\n", name, missing)
		}
		return different(missing)
	}
	return c
}

// writeBundle returns the number of parts that could not be collected. It removes a file that it could not write
// completely.
func writeBundle(c *cobra.Command, target *cluster, name string, now time.Time) (missing int, err error) {
	collector, err := newCollector(target)
	if err != nil {
		return 0, err
	}
	if err := collector.reach(c.Context()); err != nil {
		return 0, err
	}
	out := c.OutOrStdout()
	if name != "-" {
		file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return 0, err
		}
		defer func() {
			if err = errors.Join(err, file.Close()); err != nil {
				os.Remove(name)
			}
		}()
		out = file
	}
	a := newArchive(out, "weft-bundle-"+now.Format("20060102-150405"), now)
	collector.collect(c.Context(), a)
	return len(a.missing), errors.Join(a.close(), c.Context().Err())
}

// archive writes the parts of a bundle. It redacts all of them.
type archive struct {
	folder  string
	now     time.Time
	zip     *gzip.Writer
	tar     *tar.Writer
	missing []string
	err     error // first error while writing
}

func newArchive(out io.Writer, folder string, now time.Time) *archive {
	zip := gzip.NewWriter(out)
	return &archive{folder: folder, now: now, zip: zip, tar: tar.NewWriter(zip)}
}

// add writes a part, or records why it is missing.
func (a *archive) add(name string, text []byte, err error) {
	if err != nil {
		a.missing = append(a.missing, fmt.Sprintf("%s: %v", name, err))
	}
	if len(text) == 0 || a.err != nil {
		return
	}
	text = redact(text)
	header := &tar.Header{Name: a.folder + "/" + name, Mode: 0o600, Size: int64(len(text)), ModTime: a.now}
	if a.err = a.tar.WriteHeader(header); a.err == nil {
		_, a.err = a.tar.Write(text)
	}
}

func (a *archive) close() error {
	if len(a.missing) > 0 {
		a.add("errors.txt", []byte(strings.Join(a.missing, "\n")+"\n"), nil)
	}
	return errors.Join(a.err, a.tar.Close(), a.zip.Close())
}
