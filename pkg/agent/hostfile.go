package agent

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// putFile gives a file its content and mode by writing another, bringing that to the disk and renaming it: whoever looks finds the former or
// the new one whole, also after a loss of power. One that is so already is not touched: runtimes read a configuration again at each event.
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
	defer func() { _ = part.Cleanup() }() // does nothing once it has its name
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

// dropFile removes a file and what a crash left of its making; that there is none is no error.
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

// removeParts removes files that were to become this one; renameio gives them its name between a dot and a number.
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

// syncDir brings the names in a directory to the disk.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
