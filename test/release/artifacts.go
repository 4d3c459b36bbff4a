package release

import (
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// version matches the versions of releases.
var version = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

// time0 is the time of files that are not part of the release.
var time0 = time.Unix(0, 0)

// imageFile has the image's name, tag and digest.
const imageFile = "image.txt"

// sourceImage is the image in the manifests of the source.
const sourceImage = "weft:dev"

// validRepository returns an error unless a text is an image's repository, without a tag or digest.
func validRepository(text string) error {
	if _, err := name.NewRepository(text, name.StrictValidation); err != nil {
		return fmt.Errorf("image %q: want a registry and a repository, such as registry.example/weft: %w", text, err)
	}
	return nil
}

// writeManifests writes the manifests of dist with the image, by tag and digest.
func (r *Release) writeManifests(digest v1.Hash) error {
	files, err := filepath.Glob(filepath.Join(r.Source, "dist", "*.yaml"))
	if err != nil {
		return err
	}
	image := r.Image + ":" + r.Version + "@" + digest.String()
	named := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		named += bytes.Count(text, []byte(sourceImage))
		text = bytes.ReplaceAll(text, []byte("image: "+sourceImage), []byte("image: "+image))
		if bytes.Contains(text, []byte(sourceImage)) {
			return fmt.Errorf("%s names %s outside a field \"image\"", file, sourceImage)
		}
		if err := os.WriteFile(filepath.Join(r.Out, filepath.Base(file)), text, 0o644); err != nil {
			return err
		}
	}
	if named == 0 {
		return fmt.Errorf("no manifest of %s/dist names %s", r.Source, sourceImage)
	}
	return os.WriteFile(filepath.Join(r.Out, imageFile), []byte(image+"\n"), 0o644)
}

// writeNotes writes the notes of the release: the section of CHANGELOG.md with its version, or else what is unreleased. Links lead to the
// source of the release.
func (r *Release) writeNotes() error {
	text, err := os.ReadFile(filepath.Join(r.Source, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	sections := map[string]string{}
	for _, section := range strings.Split("\n"+string(text), "\n## ")[1:] {
		title, body, _ := strings.Cut(section, "\n")
		sections[title] = strings.TrimSpace(body)
	}
	notes := cmp.Or(sections[r.Version], sections["Unreleased"])
	if notes == "" {
		return fmt.Errorf("CHANGELOG.md has no section %s, and nothing is unreleased", r.Version)
	}
	notes = relativeLink.ReplaceAllString(notes, "](https://github.com/weft-network/weft/blob/"+r.Version+"/$1")
	return os.WriteFile(filepath.Join(r.Out, "notes.md"), []byte("# Weft "+r.Version+"\n\n"+notes+"\n"), 0o644)
}

// relativeLink matches the start of a link to a file of the source, in Markdown.
var relativeLink = regexp.MustCompile(`\]\(([A-Za-z][\w./-]*(?:[#)]))`)

// platforms are the systems of kubectl-weft.
var platforms = []struct{ system, architecture string }{
	{"darwin", "amd64"}, {"darwin", "arm64"}, {"linux", "amd64"}, {"linux", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"},
}

// packed is a file of this machine in an archive.
type packed struct {
	to, from string
	mode     int64
}

// writePlugins writes the archives of kubectl-weft, and the manifest for krew.
func (r *Release) writePlugins(ctx context.Context, work string) error {
	manifest, err := os.ReadFile(filepath.Join(r.Source, "config", "krew", "weft.yaml"))
	if err != nil {
		return err
	}
	text := strings.ReplaceAll(string(manifest), "VERSION", r.Version)
	for _, p := range platforms {
		archive, program := fmt.Sprintf("kubectl-weft_%s_%s.tar.gz", p.system, p.architecture), "kubectl-weft"
		if p.system == "windows" {
			archive, program = strings.Replace(archive, ".tar.gz", ".zip", 1), "kubectl-weft.exe"
		}
		built := filepath.Join(work, p.system+"_"+p.architecture, program)
		if err := r.build(ctx, module+"/cmd/kubectl-weft", built, p.system, p.architecture); err != nil {
			return err
		}
		files := []packed{{program, built, 0o755}, {"LICENSE", filepath.Join(r.Source, "LICENSE"), 0o644}}
		if p.system != "windows" { // a script
			files = append(files, packed{"kubectl_complete-weft", filepath.Join(r.Source, "config", "krew", "kubectl_complete-weft"), 0o755})
		}
		tree := Tree{}
		for _, f := range files {
			body, err := os.ReadFile(f.from)
			if err != nil {
				return err
			}
			tree.addFile(f.to, f.mode, body, "")
		}
		sum, err := r.writeArchive(tree, archive)
		if err != nil {
			return err
		}
		placeholder := "SHA256_" + p.system + "_" + p.architecture
		if !strings.Contains(text, placeholder) {
			return fmt.Errorf("config/krew/weft.yaml lacks %s", placeholder)
		}
		text = strings.ReplaceAll(text, placeholder, sum)
	}
	return os.WriteFile(filepath.Join(r.Out, "krew-weft.yaml"), []byte(text), 0o644)
}

// writeArchive writes a compressed archive and returns its SHA-256.
func (r *Release) writeArchive(t Tree, file string) (sum string, err error) {
	var out bytes.Buffer
	if strings.HasSuffix(file, ".zip") {
		err = t.zip(&out, r.Time)
	} else {
		compressor := gzip.NewWriter(&out)
		if err = t.write(compressor, r.Time); err == nil {
			err = compressor.Close()
		}
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	digest := sha256.Sum256(out.Bytes())
	return hex.EncodeToString(digest[:]), os.WriteFile(filepath.Join(r.Out, file), out.Bytes(), 0o644)
}

func (t Tree) zip(out io.Writer, at time.Time) error {
	archive := zip.NewWriter(out)
	for _, name := range t.names() {
		header := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: at.UTC()}
		header.SetMode(fs.FileMode(t[name].Header.Mode))
		file, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := file.Write(t[name].Body); err != nil {
			return err
		}
	}
	return archive.Close()
}

// writeSums writes SHA256SUMS of all files, as sha256sum(1) reads it.
func (r *Release) writeSums() error {
	var text strings.Builder
	err := filepath.WalkDir(r.Out, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		relative, err := filepath.Rel(r.Out, path)
		if err != nil {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		digest := sha256.New()
		if _, err := io.Copy(digest, file); err != nil {
			return err
		}
		fmt.Fprintf(&text, "%x  %s\n", digest.Sum(nil), relative)
		return nil
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.Out, sumsFile), []byte(text.String()), 0o644)
}

// sumsFile is the list of checksums, and what is signed.
const sumsFile = "SHA256SUMS"
