package release

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// makeDeb builds a package with files, and returns its path.
func makeDeb(t *testing.T, name string, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	root := filepath.Join(dir, name)
	files["DEBIAN/control"] = "Package: " + name + "\nVersion: 1.0-1+b1\nArchitecture: amd64\nSource: src-" + name +
		"\nMaintainer: Nobody <nobody@example.org>\nDescription: a test\n"
	for path, body := range files {
		path = filepath.Join(root, path)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if target, ok := strings.CutPrefix(body, "-> "); ok {
			must(t, os.Symlink(target, path))
			continue
		}
		must(t, os.WriteFile(path, []byte(body), 0o644))
	}
	deb := filepath.Join(dir, name+"_1.0.deb")
	if text, err := exec.Command("dpkg-deb", "--root-owner-group", "-b", root, deb).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return deb
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func testRelease(t *testing.T) *Release {
	return &Release{Out: t.TempDir(), Version: "v1.2.3", Image: "registry.example/weft", Revision: "abc", Time: time.Unix(1_700_000_000, 0),
		Architectures: []string{"amd64"}}
}

// A tree has the packages' files except documentation, keeps their licences, and says where scanners look which packages there are.
func TestPackagesOfATree(t *testing.T) {
	tree := Tree{}
	for name, files := range map[string]map[string]string{
		"one": {"usr/bin/a": "a", "bin": "-> usr/bin", "usr/share/doc/one/copyright": "GPL", "usr/share/doc/one/README": "x",
			"usr/share/man/a.1": "x"},
		"two": {"usr/bin/b": "b", "usr/lib/c": "-> ../bin/b"},
	} {
		p, err := tree.addPackage(t.Context(), makeDeb(t, name, files))
		must(t, err)
		if p.Name != name || p.Version != "1.0-1+b1" || p.Source != "src-"+name {
			t.Errorf("%s is %+v", name, p)
		}
	}
	var files []string
	for path, e := range tree {
		if e.Header.Typeflag != tar.TypeDir {
			files = append(files, path)
		}
	}
	slices.Sort(files)
	want := []string{"bin", "usr/bin/a", "usr/bin/b", "usr/lib/c", "usr/share/doc/one/copyright", "var/lib/dpkg/status.d/one",
		"var/lib/dpkg/status.d/one.md5sums", "var/lib/dpkg/status.d/two", "var/lib/dpkg/status.d/two.md5sums"}
	if !slices.Equal(files, want) {
		t.Errorf("the tree has %v,\nwant %v", files, want)
	}
	for _, path := range []string{"usr/lib/c", "bin/b"} {
		if e, ok := tree.resolve(path); !ok || string(e.Body) != "b" || e.Package != "two" {
			t.Errorf("%s leads to %+v", path, e)
		}
	}
	if _, err := tree.addPackage(t.Context(), makeDeb(t, "three", map[string]string{"usr/bin/a": "another"})); err == nil ||
		!strings.Contains(err.Error(), "usr/bin/a is in one and in three") {
		t.Errorf("a file of two packages: %v", err)
	}
}

// A folder that a package brings, and its script replaces, is a link. A file there would be lost.
func TestAFolderBecomesALink(t *testing.T) {
	tree := Tree{}
	must(t, tree.add(Entry{Header: tar.Header{Typeflag: tar.TypeDir, Mode: 0o755}, Package: "base-files"}, "var/run"))
	must(t, tree.replaceFolder("var/run", "/run"))
	if h := tree["var/run"].Header; h.Typeflag != tar.TypeSymlink || h.Linkname != "/run" {
		t.Errorf("var/run is %+v", h)
	}
	tree.addFile("run/x", 0o644, []byte("x"), "p")
	if e, ok := tree.resolve("var/run/x"); !ok || e.Package != "p" {
		t.Errorf("var/run/x leads to %+v", e)
	}
	tree.addFile("var/lock/x", 0o644, nil, "p")
	if err := tree.replaceFolder("var/lock", "/run/lock"); err == nil || !strings.Contains(err.Error(), "var/lock/x of package p") {
		t.Errorf("a file in the folder: %v", err)
	}
}

// Equal trees give equal archives, and a hard link comes after its file.
func TestArchivesAreReproducible(t *testing.T) {
	write := func() []byte {
		tree := Tree{}
		for i := range 50 {
			tree.addFile(fmt.Sprint("usr/bin/", i), 0o755, []byte(fmt.Sprint(i)), "p")
		}
		tree["a-link"] = Entry{Header: tar.Header{Typeflag: tar.TypeLink, Name: "a-link", Linkname: "usr/bin/7"}}
		tree.addFolders(Tree{})
		var out bytes.Buffer
		must(t, tree.write(&out, time.Unix(7, 0)))
		return out.Bytes()
	}
	first := write()
	if !bytes.Equal(first, write()) {
		t.Error("two archives differ")
	}
	var names []string
	for archive := tar.NewReader(bytes.NewReader(first)); ; {
		h, err := archive.Next()
		if err == io.EOF {
			break
		}
		must(t, err)
		if h.ModTime.Unix() != 7 {
			t.Errorf("%s has the time %v", h.Name, h.ModTime)
		}
		names = append(names, h.Name)
	}
	if names[0] != "usr/" || names[len(names)-1] != "a-link" {
		t.Errorf("the archive begins with %s and ends with %s", names[0], names[len(names)-1])
	}
}

// A program whose library is not in the tree, or that is for another machine, is named.
func TestLibrariesAreChecked(t *testing.T) {
	sh, err := filepath.EvalSymlinks("/bin/sh")
	must(t, err)
	body, err := os.ReadFile(sh)
	must(t, err)
	tree := Tree{}
	tree.addFile("usr/bin/sh", 0o755, body, "dash")
	if err := tree.check("amd64"); err == nil || !strings.Contains(err.Error(), "usr/bin/sh of dash lacks libc.so.6") {
		t.Errorf("without its C library: %v", err)
	}
	if err := tree.check("arm64"); err == nil || !strings.Contains(err.Error(), "EM_X86_64") {
		t.Errorf("for another machine: %v", err)
	}
	tree.addFile("usr/lib/x86_64-linux-gnu/libc.so.6", 0o755, nil, "libc6")
	tree.addFile("usr/lib64/ld-linux-x86-64.so.2", 0o755, nil, "libc6")
	tree.addLink("lib64", "usr/lib64", "base-files")
	must(t, tree.check("amd64"))
}

// The bill names the package of each file, and the modules of a Go program.
func TestTheBillNamesThePackageOfEachFile(t *testing.T) {
	r, debian, weft := testRelease(t), Tree{}, Tree{}
	p, err := debian.addPackage(t.Context(), makeDeb(t, "one", map[string]string{"usr/bin/a": "a", "usr/bin/b": "b"}))
	must(t, err)
	built := filepath.Join(t.TempDir(), "weft-release")
	if text, err := exec.Command("go", "build", "-o", built, "./cmd/weft-release").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	body, err := os.ReadFile(built)
	must(t, err)
	weft.addFile("usr/bin/weft", 0o755, body, "")
	b, err := r.bill("amd64", debian, weft, []Package{p})
	must(t, err)
	names := map[string]string{}
	for _, p := range b.Packages {
		names[p.ID] = p.Name
	}
	contains, modules := map[string]string{}, map[string]bool{}
	for _, relation := range b.Relationships {
		switch relation.Type {
		case "CONTAINS":
			contains[relation.To] = names[relation.From]
		case "DEPENDS_ON":
			modules[names[relation.To]] = true
		}
	}
	got := map[string]string{}
	for _, f := range b.Files {
		got[f.Name] = contains[f.ID]
	}
	want := map[string]string{"./usr/bin/a": "one", "./usr/bin/b": "one", "./usr/bin/weft": module,
		"./var/lib/dpkg/status.d/one": "one", "./var/lib/dpkg/status.d/one.md5sums": "one"}
	if !maps.Equal(got, want) {
		t.Errorf("files are of %v, want %v", got, want)
	}
	if !modules["github.com/google/go-containerregistry"] {
		t.Errorf("the modules of the program are %v", modules)
	}
}

// What was pushed to a registry has the digest that the manifests name.
func TestAnImageIsPushedByItsDigest(t *testing.T) {
	r := testRelease(t)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	r.Image, r.Source = host+"/team/weft", sourceOf(t, "image: weft:dev\n")
	lower, upper := Tree{}, Tree{}
	lower.addFile("usr/lib/l", 0o644, []byte("lower"), "p")
	upper.addFile("usr/bin/weft", 0o755, []byte("upper"), "")
	work := t.TempDir()
	one, err := layer(lower, r.Time, work)
	must(t, err)
	two, err := layer(upper, r.Time, work)
	must(t, err)
	image, err := r.makeImage("amd64", one, two)
	must(t, err)
	digest, err := r.writeIndex(map[string]v1.Image{"amd64": image}, filepath.Join(r.Out, "image"))
	must(t, err)
	must(t, r.writeManifests(digest))
	pushed, err := Push(t.Context(), r.Out, "")
	must(t, err)
	manifest, err := os.ReadFile(filepath.Join(r.Out, "install.yaml"))
	must(t, err)
	if want := host + "/team/weft:v1.2.3@" + digest.String(); pushed != want || string(manifest) != "image: "+want+"\n" {
		t.Errorf("pushed %s, the manifest has %s, want %s", pushed, manifest, want)
	}
	ref, err := name.ParseReference(host + "/team/weft@" + digest.String())
	must(t, err)
	pulled, err := remote.Image(ref, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: "amd64"}))
	must(t, err)
	config, err := pulled.ConfigFile()
	must(t, err)
	version := config.Config.Labels["org.opencontainers.image.version"]
	if config.Architecture != "amd64" || version != "v1.2.3" || len(config.RootFS.DiffIDs) != 2 {
		t.Errorf("the image's configuration is %+v", config)
	}
	if moved, err := Push(t.Context(), r.Out, host+"/mirror/weft"); err != nil || moved != host+"/mirror/weft:v1.2.3@"+digest.String() {
		t.Errorf("pushed to another repository: %s, %v", moved, err)
	}
}

// sourceOf returns a source with one manifest.
func sourceOf(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "dist"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "dist", "install.yaml"), []byte(text), 0o644))
	return dir
}

// The signature is that of the checksums, as openssl verifies it.
func TestChecksumsAreSigned(t *testing.T) {
	r := testRelease(t)
	must(t, os.WriteFile(filepath.Join(r.Out, "install.yaml"), []byte("x"), 0o644))
	must(t, r.writeSums())
	check := exec.Command("sha256sum", "-c", "--strict", sumsFile)
	check.Dir = r.Out
	if text, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	file := filepath.Join(t.TempDir(), "key.pem")
	must(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
	must(t, Sign(r.Out, file))
	encoded, err := os.ReadFile(filepath.Join(r.Out, sumsFile+".sig"))
	must(t, err)
	signature, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(encoded)))
	must(t, err)
	sums, err := os.ReadFile(filepath.Join(r.Out, sumsFile))
	must(t, err)
	digest := sha256.Sum256(sums)
	if !ecdsa.VerifyASN1(&key.PublicKey, digest[:], signature) {
		t.Error("the signature is not of the checksums")
	}
	must(t, os.WriteFile(file, []byte("no key"), 0o600))
	if err := Sign(r.Out, file); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("without a key: %v", err)
	}
}

// The notes are the version's section, or what is unreleased, with links to the release's source.
func TestTheNotesAreTheVersionsSection(t *testing.T) {
	r := testRelease(t)
	r.Source = t.TempDir()
	changelog := filepath.Join(r.Source, "CHANGELOG.md")
	write := func(text string) { must(t, os.WriteFile(changelog, []byte(text), 0o644)) }
	const first = "- One ([a page](docs/user/release.md#signatures), [another](SECURITY.md), [outside](https://example.org/x)).\n"
	for name, test := range map[string]struct{ text, want string }{
		"its own":    {"# Changes\n\n## Unreleased\n\n- Two\n\n## v1.2.3\n\n" + first + "\n## v1.2.2\n\n- Old\n", "One"},
		"unreleased": {"# Changes\n\n## Unreleased\n\n### Added\n" + first, "One"},
		"none":       {"# Changes\n\n## Unreleased\n\n## v1.2.2\n\n- Old\n", ""},
	} {
		write(test.text)
		err := r.writeNotes()
		if test.want == "" {
			if err == nil || !strings.Contains(err.Error(), "no section v1.2.3") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		must(t, err)
		notes, err := os.ReadFile(filepath.Join(r.Out, "notes.md"))
		must(t, err)
		source := "https://github.com/weft-network/weft/blob/v1.2.3/"
		for _, want := range []string{"# Weft v1.2.3\n", "[a page](" + source + "docs/user/release.md#signatures)",
			"[another](" + source + "SECURITY.md)", "[outside](https://example.org/x)"} {
			if !strings.Contains(string(notes), want) {
				t.Errorf("%s: the notes lack %q:\n%s", name, want, notes)
			}
		}
		if strings.Contains(string(notes), "Two") || strings.Contains(string(notes), "Old") {
			t.Errorf("%s: the notes have other sections:\n%s", name, notes)
		}
	}
}

// A wrong setting is refused before anything is made.
func TestWrongSettingsAreRefused(t *testing.T) {
	for want, change := range map[string]func(*Release){
		`version "1.2.3"`:           func(r *Release) { r.Version = "1.2.3" },
		`version "v1.2"`:            func(r *Release) { r.Version = "v1.2" },
		`image "weft"`:              func(r *Release) { r.Image = "weft" },
		`image "r.example/w:v1"`:    func(r *Release) { r.Image = "r.example/w:v1" },
		`architecture "riscv64"`:    func(r *Release) { r.Architectures = []string{"riscv64"} },
		"not empty, and no release": func(r *Release) { must(t, os.WriteFile(filepath.Join(r.Out, "x"), nil, 0o644)) },
	} {
		r := testRelease(t)
		former := filepath.Join(r.Out, imageFile)
		if !strings.Contains(want, "empty") {
			must(t, os.WriteFile(former, nil, 0o644))
		}
		change(r)
		if err := r.Make(context.Background()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %s, have %v", want, err)
		}
		if _, err := os.Stat(former); err != nil && !strings.Contains(want, "empty") {
			t.Errorf("%s: the former release is gone: %v", want, err)
		}
	}
}
