package release

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/weft-network/weft/test/lab/apt"
)

// Release is a version of Weft to make.
type Release struct {
	// Source is the root of the source, Out the folder to fill, Cache a folder for packages.
	Source, Out, Cache string
	// Version is a semantic version ("v1.2.3"), Image the image's repository without a tag ("registry.example/weft"), Revision the
	// commit, and Time the time that all files have.
	Version, Image, Revision string
	Time                     time.Time
	// Architectures are "amd64" and "arm64".
	Architectures []string
	// Plugins are the archives of kubectl-weft, for all systems, and krew's manifest.
	Plugins bool
	// Packages are the packages of Debian that the image needs, and Omitted the dependencies without which it runs.
	Packages, Omitted []string
}

// suite is the release of Debian whose packages the image has, as in the Dockerfile.
const suite = "trixie"

// Make makes the release. The folder must be empty or absent, or have a former release, which is replaced.
func (r *Release) Make(ctx context.Context) error {
	if err := r.valid(); err != nil {
		return err
	}
	if err := os.RemoveAll(r.Out); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "weft-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := os.MkdirAll(r.Out, 0o755); err != nil {
		return err
	}
	images, said := map[string]v1.Image{}, &Said{}
	for _, architecture := range r.Architectures {
		debian, packages, err := r.debianTree(ctx, architecture)
		if err != nil {
			return fmt.Errorf("%s: %w", architecture, err)
		}
		weft, err := r.weftTree(ctx, architecture, debian, filepath.Join(work, architecture), said)
		if err != nil {
			return fmt.Errorf("%s: %w", architecture, err)
		}
		if err := r.writeBill(architecture, debian, weft, packages); err != nil {
			return err
		}
		lower, err := layer(debian, r.Time, work)
		if err != nil {
			return err
		}
		upper, err := layer(weft, r.Time, work)
		if err != nil {
			return err
		}
		if images[architecture], err = r.makeImage(architecture, lower, upper); err != nil {
			return err
		}
	}
	digest, err := r.writeIndex(images, filepath.Join(r.Out, "image"))
	if err != nil {
		return err
	}
	if err := errors.Join(r.writeManifests(digest), r.writeNotes()); err != nil {
		return err
	}
	if r.Plugins {
		if err := r.writePlugins(ctx, work); err != nil {
			return err
		}
	}
	return r.writeSums()
}

// valid returns an error that names the first setting that is wrong.
func (r *Release) valid() error {
	if entries, err := os.ReadDir(r.Out); err == nil && len(entries) > 0 {
		if _, err := os.Stat(filepath.Join(r.Out, imageFile)); err != nil {
			return fmt.Errorf("%s is not empty, and no release", r.Out)
		}
	}
	if !version.MatchString(r.Version) {
		return fmt.Errorf("version %q: want one such as v1.2.3 or v1.2.3-rc.1", r.Version)
	}
	if len(r.Architectures) == 0 {
		return errors.New("no architecture")
	}
	for _, a := range r.Architectures {
		if _, ok := machines[a]; !ok {
			return fmt.Errorf("architecture %q: want amd64 or arm64", a)
		}
	}
	return validRepository(r.Image)
}

// ReadPackages reads a list of packages, one in each line; "#" begins a comment.
func ReadPackages(file string) (names []string, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		name, _, _ := strings.Cut(line, "#")
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names, nil
}

func (r *Release) omits(name string) bool { return slices.Contains(r.Omitted, name) }

// download fetches the packages with their dependencies, as they are in the mirror now.
func (r *Release) download(ctx context.Context, architecture string) ([]string, error) {
	mirror, err := apt.Mirror()
	if err != nil {
		return nil, err
	}
	security := strings.TrimSuffix(mirror, "/")
	security = strings.TrimSuffix(security, "/debian") + "/debian-security"
	dir := filepath.Join(r.Cache, architecture)
	if err := os.RemoveAll(filepath.Join(dir, "cache")); err != nil { // packages of former versions
		return nil, err
	}
	a, err := apt.New(dir, architecture, apt.Source{URI: mirror, Suite: suite}, apt.Source{URI: mirror, Suite: suite + "-updates"},
		apt.Source{URI: security, Suite: suite + "-security"})
	if err != nil {
		return nil, err
	}
	return a.Download(ctx, r.Packages...)
}
