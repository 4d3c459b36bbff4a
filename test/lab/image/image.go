// Package image writes container images as docker archives, which containerd imports, without a container engine.
package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// File is one entry of an image: a file copied from this machine, or a symbolic link.
type File struct {
	Path   string // absolute, in the image
	Source string // a file of this machine
	Link   string // the link's target; Source is empty
}

// Image is a file tree with a command.
type Image struct {
	Ref        string   // complete, as docker.io/library/weft:dev
	Aliases    []string // more references
	Files      []File
	Entrypoint []string
	Cmd        []string
	Env        []string
}

// Write writes the archive. Equal trees give equal bytes: all times are zero and all owners are root.
func (i Image) Write(out io.Writer) error {
	layer, err := os.CreateTemp("", "layer-*.tar")
	if err != nil {
		return err
	}
	defer os.Remove(layer.Name())
	defer layer.Close()
	digest := sha256.New()
	if err := i.writeLayer(io.MultiWriter(layer, digest)); err != nil {
		return fmt.Errorf("image %s: %w", i.Ref, err)
	}
	if _, err := layer.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return i.writeArchive(out, layer, hex.EncodeToString(digest.Sum(nil)))
}

func (i Image) writeLayer(out io.Writer) error {
	archive := tar.NewWriter(out)
	for _, dir := range directories(i.Files) {
		mode := int64(0o755)
		if dir == "tmp" {
			mode = 0o1777
		}
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: mode}); err != nil {
			return err
		}
	}
	for _, f := range i.Files {
		if err := f.write(archive); err != nil {
			return err
		}
	}
	return archive.Close()
}

// directories returns all parents of the files and the folders that a container expects, parents first.
func directories(files []File) []string {
	dirs := []string{"tmp", "etc", "proc", "sys", "dev", "run"}
	for _, f := range files {
		for dir := path.Dir(inArchive(f.Path)); dir != "."; dir = path.Dir(dir) {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// Tree lists everything below a folder of this machine except documentation.
func Tree(root string) (files []File, err error) {
	skipped := []string{"usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info"}
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		switch {
		case slices.Contains(skipped, inside):
			return fs.SkipDir
		case entry.Type().IsRegular():
			files = append(files, File{Path: "/" + inside, Source: name})
		case entry.Type() == fs.ModeSymlink:
			target, err := os.Readlink(name)
			if err != nil {
				return err
			}
			files = append(files, File{Path: "/" + inside, Link: target})
		}
		return nil
	})
	return files, err
}

func inArchive(name string) string { return strings.TrimPrefix(path.Clean(name), "/") }

func (f File) write(archive *tar.Writer) error {
	if f.Link != "" {
		return archive.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: inArchive(f.Path), Linkname: f.Link, Mode: 0o777})
	}
	source, err := os.Open(f.Source)
	if err != nil {
		return err
	}
	defer source.Close()
	info, err := source.Stat()
	if err != nil {
		return err
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: inArchive(f.Path), Size: info.Size(), Mode: int64(info.Mode().Perm())}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(archive, source)
	return err
}

// writeArchive follows the Docker image specification v1.2: manifest.json names a config and the layers.
func (i Image) writeArchive(out io.Writer, layer *os.File, digest string) error {
	config, err := json.Marshal(i.config(digest))
	if err != nil {
		return err
	}
	configName, layerName := hashName(config)+".json", digest+"/layer.tar"
	manifest, err := json.Marshal([]map[string]any{{
		"Config": configName, "RepoTags": append([]string{i.Ref}, i.Aliases...), "Layers": []string{layerName},
	}})
	if err != nil {
		return err
	}
	size, err := layer.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if _, err := layer.Seek(0, io.SeekStart); err != nil {
		return err
	}
	archive := tar.NewWriter(out)
	for _, entry := range []struct {
		name string
		size int64
		from io.Reader
	}{
		{configName, int64(len(config)), bytes.NewReader(config)},
		{layerName, size, layer},
		{"manifest.json", int64(len(manifest)), bytes.NewReader(manifest)},
	} {
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: entry.name, Size: entry.size, Mode: 0o644}); err != nil {
			return err
		}
		if _, err := io.Copy(archive, entry.from); err != nil {
			return err
		}
	}
	return archive.Close()
}

func (i Image) config(layerDigest string) map[string]any {
	env := append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, i.Env...)
	return map[string]any{
		"architecture": "amd64", "os": "linux", "created": "1970-01-01T00:00:00Z",
		"config": map[string]any{"Env": env, "WorkingDir": "/", "Entrypoint": i.Entrypoint, "Cmd": i.Cmd},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + layerDigest}},
	}
}

func hashName(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
