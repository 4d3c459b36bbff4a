package release

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path"
	"slices"
	"strings"
	"time"
)

// Entry is one entry of an image.
type Entry struct {
	Header tar.Header
	Body   []byte
	// Package is the name of the package that brings a file; empty: Weft.
	Package string
}

// Tree is a tree of files, by path without a slash at its start.
type Tree map[string]Entry

// Package is a package of Debian.
type Package struct {
	Name, Version, Source, Architecture string
	// Control is what dpkg-query(1) shows of the package, Sums its list of MD5 sums.
	Control, Sums []byte
}

// unneeded are folders of packages that no program reads.
var unneeded = []string{"usr/share/doc/", "usr/share/man/", "usr/share/locale/", "usr/share/info/", "usr/share/lintian/", "usr/share/bug/",
	"usr/share/bash-completion/", "usr/share/zoneinfo/", "usr/share/doc-base/"}

// kept are the licences, which must go with the programs.
func kept(name string) bool {
	return strings.HasPrefix(name, "usr/share/doc/") && path.Base(name) == "copyright"
}

// addPackage adds a package's files. Its scripts are not run.
func (t Tree) addPackage(ctx context.Context, deb string) (p Package, err error) {
	if p, err = readPackage(ctx, deb); err != nil {
		return p, fmt.Errorf("%s: %w", deb, err)
	}
	err = eachFile(ctx, "--fsys-tarfile", deb, func(h *tar.Header, body []byte) error {
		name := strings.TrimPrefix(path.Clean(h.Name), "/")
		skip := slices.ContainsFunc(unneeded, func(dir string) bool { return strings.HasPrefix(name+"/", dir) }) && !kept(name)
		if name == "." || skip {
			return nil
		}
		return t.add(Entry{*h, body, p.Name}, name)
	})
	if err != nil {
		return p, fmt.Errorf("%s: %w", deb, err)
	}
	status := "var/lib/dpkg/status.d/" + p.Name // where scanners look for packages of images without dpkg
	t.addFile(status, 0o644, p.Control, p.Name)
	t.addFile(status+".md5sums", 0o644, p.Sums, p.Name)
	return p, nil
}

// add adds an entry. A folder may come several times.
func (t Tree) add(e Entry, name string) error {
	if have, ok := t[name]; ok {
		if have.Header.Typeflag == tar.TypeDir && e.Header.Typeflag == tar.TypeDir ||
			have.Header.Typeflag == tar.TypeSymlink && e.Header.Typeflag == tar.TypeDir {
			return nil
		}
		return fmt.Errorf("%s is in %s and in %s", name, have.Package, e.Package)
	}
	e.Header = tar.Header{Typeflag: e.Header.Typeflag, Name: name, Linkname: e.Header.Linkname, Mode: e.Header.Mode & 0o7777,
		Uid: e.Header.Uid, Gid: e.Header.Gid, Size: int64(len(e.Body))}
	if e.Header.Typeflag == tar.TypeLink {
		e.Header.Linkname = strings.TrimPrefix(path.Clean(e.Header.Linkname), "/")
	}
	t[name] = e
	return nil
}

// addFile adds or replaces a file of root.
func (t Tree) addFile(name string, mode int64, body []byte, from string) {
	t[name] = Entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(body))}, body, from}
}

// addLink adds a symbolic link unless something is there.
func (t Tree) addLink(name, target, from string) {
	if _, ok := t[name]; !ok {
		t[name] = Entry{tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}, nil, from}
	}
}

// replaceFolder replaces an empty folder by a symbolic link.
func (t Tree) replaceFolder(name, target string) error {
	for file, e := range t {
		if strings.HasPrefix(file, name+"/") {
			return fmt.Errorf("%s of package %s is in /%s, which is a link to %s", file, e.Package, name, target)
		}
	}
	t[name] = Entry{tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}, nil, t[name].Package}
	return nil
}

// resolve follows links to the entry of a path.
func (t Tree) resolve(name string) (Entry, bool) {
	for range 40 {
		e, ok := t[name]
		switch {
		case !ok:
			dir, base := path.Split(name)
			if dir == "" {
				return e, false
			}
			parent, ok := t[path.Clean(dir)]
			if !ok || parent.Header.Typeflag != tar.TypeSymlink {
				return e, false
			}
			name = path.Join(target(path.Clean(dir), parent.Header.Linkname), base)
		case e.Header.Typeflag == tar.TypeSymlink:
			name = target(name, e.Header.Linkname)
		case e.Header.Typeflag == tar.TypeLink:
			name = e.Header.Linkname
		default:
			return e, true
		}
	}
	return Entry{}, false
}

func target(link, to string) string {
	if path.IsAbs(to) {
		return strings.TrimPrefix(path.Clean(to), "/")
	}
	return strings.TrimPrefix(path.Join("/", path.Dir(link), to), "/")
}

// write writes an archive of the entries, folders before their contents and files before hard links to them, all with one time.
func (t Tree) write(out io.Writer, at time.Time) error {
	archive := tar.NewWriter(out)
	for _, name := range t.names() {
		e := t[name]
		header := e.Header
		header.ModTime, header.Format = at, tar.FormatPAX
		if header.Typeflag == tar.TypeDir {
			header.Name += "/"
		}
		if err := archive.WriteHeader(&header); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if _, err := archive.Write(e.Body); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return archive.Close()
}

// names returns the paths, sorted, hard links last.
func (t Tree) names() []string {
	names := slices.Sorted(maps.Keys(t))
	slices.SortStableFunc(names, func(a, b string) int { return rank(t[a]) - rank(t[b]) })
	return names
}

func rank(e Entry) int {
	if e.Header.Typeflag == tar.TypeLink {
		return 1
	}
	return 0
}

// readPackage reads a package's description.
func readPackage(ctx context.Context, deb string) (p Package, err error) {
	err = eachFile(ctx, "--ctrl-tarfile", deb, func(h *tar.Header, body []byte) error {
		switch path.Base(h.Name) {
		case "control":
			p.Control = body
		case "md5sums":
			p.Sums = body
		}
		return nil
	})
	field := func(name string) string {
		for line := range strings.Lines(string(p.Control)) {
			if value, ok := strings.CutPrefix(line, name+": "); ok {
				return strings.TrimSpace(value)
			}
		}
		return ""
	}
	p.Name, p.Version, p.Architecture, p.Source = field("Package"), field("Version"), field("Architecture"), field("Source")
	if p.Source == "" {
		p.Source = p.Name
	}
	if err == nil && (p.Name == "" || p.Version == "") {
		err = errors.New("the package does not name itself")
	}
	return p, err
}

// eachFile calls do with the entries of one of a package's archives.
func eachFile(ctx context.Context, part, deb string, do func(*tar.Header, []byte) error) error {
	text, err := exec.CommandContext(ctx, "dpkg-deb", part, deb).Output()
	if err != nil {
		return fmt.Errorf("dpkg-deb %s: %w", part, err)
	}
	for archive := tar.NewReader(bytes.NewReader(text)); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		body, err := io.ReadAll(archive)
		if err != nil {
			return err
		}
		if err := do(header, body); err != nil {
			return err
		}
	}
}
