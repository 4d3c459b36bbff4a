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
	c := &cobra.Command{Use: "bundle", Short: "Collect what somebody needs who looks into a problem, without secrets", Args: cobra.NoArgs,
		Long: `Collect into one file (tar.gz) what somebody needs who looks into a problem: Weft's resources, the nodes, what runs in the operator's
namespace with its events and logs, the status, drift, invariants and metrics.

Secrets are never read. Private keys, tokens and passwords in logs and in the environment of containers are replaced by REDACTED. Names and
addresses of nodes and pods are in it.

What cannot be read is named in errors.txt. Exit codes: 0 all was collected, 1 something is missing, 2 an error.`,
	}
	c.Flags().StringVarP(&name, "file", "f", "", `the file to write, "-" for the output; by default weft-bundle-<time>.tar.gz`)
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
			fmt.Fprintf(c.OutOrStdout(), "%s: collected; %d parts are missing, see errors.txt in it\n", name, missing)
		}
		return different(missing)
	}
	return c
}

// writeBundle returns how many parts could not be collected. A file that could not be written whole is removed.
func writeBundle(c *cobra.Command, target *cluster, name string, now time.Time) (missing int, err error) {
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
	collector, err := newCollector(target)
	if err != nil {
		return 0, err
	}
	a := newArchive(out, "weft-bundle-"+now.Format("20060102-150405"), now)
	collector.collect(c.Context(), a)
	return len(a.missing), errors.Join(a.close(), c.Context().Err())
}

// archive is the file that is written. Whatever goes into it is redacted.
type archive struct {
	folder  string
	now     time.Time
	zip     *gzip.Writer
	tar     *tar.Writer
	missing []string
	err     error // the first of writing
}

func newArchive(out io.Writer, folder string, now time.Time) *archive {
	zip := gzip.NewWriter(out)
	return &archive{folder: folder, now: now, zip: zip, tar: tar.NewWriter(zip)}
}

// add writes one part, or notes why there is none.
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
