package image

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWrite(t *testing.T) {
	source := filepath.Join(t.TempDir(), "tool")
	if err := os.WriteFile(source, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	i := Image{Ref: "docker.io/library/x:dev", Files: []File{{Path: "/usr/bin/tool", Source: source}, {Path: "/bin", Link: "usr/bin"}}}
	first, second := archive(t, i), archive(t, i)
	if !bytes.Equal(first, second) {
		t.Error("equal trees gave different archives")
	}
	layer := ""
	for name, content := range entries(t, first) {
		if filepath.Base(name) == "layer.tar" {
			layer = content
		}
	}
	var names []string
	tr := tar.NewReader(bytes.NewReader([]byte(layer)))
	for h, err := tr.Next(); err == nil; h, err = tr.Next() {
		names = append(names, h.Name)
	}
	want := []string{"dev/", "etc/", "proc/", "run/", "sys/", "tmp/", "usr/", "usr/bin/", "usr/bin/tool", "bin"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
}

func archive(t *testing.T, i Image) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := i.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func entries(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	found := map[string]string{}
	tr := tar.NewReader(bytes.NewReader(archive))
	for h, err := tr.Next(); err == nil; h, err = tr.Next() {
		content, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		found[h.Name] = string(content)
	}
	return found
}
