package cniconfig

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// putFile gives a file its content and mode. It writes a new file, syncs it and renames it, so that a reader finds
// either the old or the new file complete, even after a power failure. It does not touch a correct file, because
// runtimes read their configuration again at each event.
func putFile(path string, content []byte, mode fs.FileMode) error {
	if is, err := isFile(path, content, mode); is || err != nil {
		return err
	}
	if err := removeParts(path); err != nil {
		return err
	}
	part, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)), renameio.WithStaticPermissions(mode))
	if err != nil {
		return err
	}
	defer func() { _ = part.Cleanup() }() // does nothing after the rename
	if _, err := part.Write(content); err != nil {
		return err
	}
	if err := part.CloseAtomicallyReplace(); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func isFile(path string, content []byte, mode fs.FileMode) (bool, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || info.Mode() != mode || info.Size() != int64(len(content)) {
		return false, err
	}
	present, err := os.ReadFile(path)
	return bytes.Equal(present, content), err
}

// dropFile removes a file and the leftovers of an interrupted write. A missing file is not an error.
func dropFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := removeParts(path); err != nil {
		return err
	}
	err := syncDir(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// removeParts removes the leftovers of interrupted writes. renameio names them with a dot before and a number after the
// file's name.
func removeParts(path string) error {
	parts, err := filepath.Glob(filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"[0-9]*"))
	if err != nil {
		return err
	}
	for _, part := range parts {
		if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// syncDir flushes a directory's entries to the disk.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
