package release

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// machines are the architectures, as Go and Debian name them, with their ELF machines and the folder of their libraries.
var machines = map[string]struct {
	elf       elf.Machine
	libraries string
}{
	"amd64": {elf.EM_X86_64, "usr/lib/x86_64-linux-gnu"},
	"arm64": {elf.EM_AARCH64, "usr/lib/aarch64-linux-gnu"},
}

// check returns an error that names each program and library whose architecture is another, or that lacks a library or its loader in the
// tree: what the image would notice only when it runs.
func (t Tree) check(architecture string) (missing error) {
	machine := machines[architecture]
	for name, e := range t {
		if e.Header.Typeflag != tar.TypeReg || !bytes.HasPrefix(e.Body, []byte(elf.ELFMAG)) {
			continue
		}
		file, err := elf.NewFile(bytes.NewReader(e.Body))
		if err != nil {
			missing = errors.Join(missing, fmt.Errorf("%s: %w", name, err))
			continue
		}
		if file.Type == elf.ET_REL { // nothing loads it, as BPF's
			continue
		}
		if file.Machine != machine.elf {
			missing = errors.Join(missing, fmt.Errorf("%s of %s is for %s, not %s", name, e.Package, file.Machine, machine.elf))
			continue
		}
		for _, library := range t.lacks(name, file, machine.libraries) {
			missing = errors.Join(missing, fmt.Errorf("%s of %s lacks %s", name, e.Package, library))
		}
	}
	return missing
}

// lacks returns what a program or library needs and the tree does not have.
func (t Tree) lacks(name string, file *elf.File, libraries string) (absent []string) {
	folders := []string{libraries, "usr/lib", path.Dir(name)}
	for _, tag := range []elf.DynTag{elf.DT_RUNPATH, elf.DT_RPATH} {
		paths, _ := file.DynString(tag)
		for _, list := range paths {
			for folder := range strings.SplitSeq(list, ":") {
				folder = strings.ReplaceAll(folder, "$ORIGIN", "/"+path.Dir(name))
				folders = append(folders, strings.TrimPrefix(path.Clean(folder), "/"))
			}
		}
	}
	needed, _ := file.ImportedLibraries()
	for _, library := range needed {
		if !slices.ContainsFunc(folders, func(folder string) bool { _, ok := t.resolve(path.Join(folder, library)); return ok }) {
			absent = append(absent, library)
		}
	}
	for _, p := range file.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		text := make([]byte, p.Filesz)
		if _, err := p.ReadAt(text, 0); err != nil {
			continue
		}
		if loader := strings.Trim(string(text), "/\x00"); !t.has(loader) {
			absent = append(absent, loader)
		}
	}
	return absent
}

func (t Tree) has(name string) bool {
	_, ok := t.resolve(name)
	return ok
}
