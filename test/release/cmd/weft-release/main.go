// Command weft-release makes, signs and pushes releases, for "make release" and "make push". It is the registry of the lab, too.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/weft-network/weft/test/release"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "weft-release:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage: weft-release make|sign|push|serve FLAGS; see --help of each")

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	flags := flag.NewFlagSet("weft-release "+args[0], flag.ContinueOnError)
	out := flags.String("out", "", "folder of the release, or of the registry")
	switch args[0] {
	case "make":
		r := release.Release{}
		flags.StringVar(&r.Source, "source", ".", "root of the source")
		flags.StringVar(&r.Cache, "cache", "", "folder for Debian's packages")
		flags.StringVar(&r.Version, "version", "", "version, such as v1.2.3")
		flags.StringVar(&r.Image, "image", "", "registry and repository of the image, such as registry.example/weft")
		architectures := flags.String("architectures", "amd64,arm64", "architectures of the image")
		flags.BoolVar(&r.Plugins, "plugins", true, "make kubectl weft, too")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		r.Out, r.Architectures = *out, strings.Split(*architectures, ",")
		return makeRelease(ctx, r)
	case "sign":
		key := flags.String("key", "", "file with the private key, ECDSA in PEM")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return release.Sign(*out, *key)
	case "push":
		to := flags.String("to", "", "another repository than that of the manifests")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		pushed, err := release.Push(ctx, *out, *to)
		if err == nil {
			fmt.Println(pushed)
		}
		return err
	case "serve":
		listen := flags.String("listen", "", "address")
		cert, key := flags.String("cert", "", "file with the certificate"), flags.String("key", "", "file with its key")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return release.Serve(ctx, *listen, *cert, *key, *out, log.Default())
	}
	return errUsage
}

func makeRelease(ctx context.Context, r release.Release) (err error) {
	if r.Source, err = filepath.Abs(r.Source); err != nil {
		return err
	}
	lists := filepath.Join(r.Source, "config", "image")
	if r.Packages, err = release.ReadPackages(filepath.Join(lists, "packages")); err != nil {
		return err
	}
	if r.Omitted, err = release.ReadPackages(filepath.Join(lists, "omitted")); err != nil {
		return err
	}
	if r.Revision, r.Time, err = revision(ctx, r.Source); err != nil {
		return err
	}
	return r.Make(ctx)
}

// revision returns the source's commit, and the time that files get: $SOURCE_DATE_EPOCH, or the commit's.
func revision(ctx context.Context, source string) (commit string, at time.Time, err error) {
	cmd := exec.CommandContext(ctx, "git", "-C", source, "log", "-1", "--format=%H %ct")
	text, err := cmd.Output()
	if err != nil {
		return "", at, fmt.Errorf("%s: %w", cmd, err)
	}
	commit, seconds, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		seconds = epoch
	}
	number, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return "", at, fmt.Errorf("the time of the release: %w", err)
	}
	return commit, time.Unix(number, 0).UTC(), nil
}
