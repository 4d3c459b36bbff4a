// Package follow reads the lines that another program appends to a file as soon as they are written, and keeps the file
// small.
package follow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fsnotify/fsnotify"
)

// File follows a file. If the file exists when Run starts, File reads only what is appended after that. It reads a file that
// is created later from its beginning.
type File struct {
	Path string
	// Line receives each line, without its newline character.
	Line func(line string)
	// Max is the size in bytes at which the file is replaced by a new one.
	Max int64
	// Reopen makes the writer close the file and open or create the file at Path.
	Reopen func(context.Context) error

	file   *os.File
	read   int64
	spared int64  // size of the file at the last failed attempt to replace it
	part   []byte // beginning of an incomplete line
}

// Run follows the file until ctx ends.
func (f *File) Run(ctx context.Context) error {
	watcher, err := f.begin()
	if err != nil {
		return err
	}
	return f.follow(ctx, watcher)
}

// begin watches the directory and opens the file, if it exists.
func (f *File) begin() (*fsnotify.Watcher, error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("follow %s: %w", f.Path, err)
	}
	// The watch begins before the file is opened, so that no line is missed in between.
	if err := watcher.Add(filepath.Dir(f.Path)); err != nil {
		watcher.Close()
		return nil, fmt.Errorf("follow %s: %w", f.Path, err)
	}
	if err := f.open(io.SeekEnd); err != nil {
		watcher.Close()
		return nil, err
	}
	return watcher, nil
}

// follow reads what is appended until ctx ends, and then closes the watcher and the file.
func (f *File) follow(ctx context.Context, watcher *fsnotify.Watcher) error {
	defer watcher.Close()
	defer f.close()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-watcher.Errors:
			if !errors.Is(err, fsnotify.ErrEventOverflow) { // after an overflow, the next event reads the missed lines
				return fmt.Errorf("follow %s: %w", f.Path, err)
			}
		case event := <-watcher.Events:
			if event.Name != f.Path {
				continue
			}
			if err := f.readNew(ctx, event.Has(fsnotify.Create)); err != nil {
				return err
			}
		}
	}
}

// readNew reads what was appended, and replaces the file if it has become too large. created reports whether the event is
// the creation of a file at Path.
func (f *File) readNew(ctx context.Context, created bool) error {
	if err := f.drain(); err != nil {
		return err
	}
	if created && !f.isOpen() {
		f.close()
	}
	if f.file == nil {
		if err := f.open(io.SeekStart); err != nil {
			return err
		}
	}
	if err := f.drain(); err != nil {
		return err
	}
	if f.read < f.Max+f.spared {
		return nil
	}
	return f.replace(ctx)
}

// isOpen reports whether the file at Path is the open one. After a failed replacement the same file is renamed back to
// Path.
func (f *File) isOpen() bool {
	if f.file == nil {
		return false
	}
	have, err := f.file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(f.Path)
	return err == nil && os.SameFile(have, there)
}

// replace starts a new file: the writer opens it, and File reads the rest of the old one.
func (f *File) replace(ctx context.Context) error {
	old := f.Path + ".old"
	if err := os.Rename(f.Path, old); err != nil {
		return err
	}
	if err := f.Reopen(ctx); err != nil {
		f.spared = f.read // keep the file for now, because the writer would append to a file that is not read
		return os.Rename(old, f.Path)
	}
	if err := f.drain(); err != nil {
		return err
	}
	f.close()
	if err := os.Remove(old); err != nil {
		return err
	}
	return f.open(io.SeekStart)
}

func (f *File) open(whence int) error {
	file, err := os.Open(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // its creation is an event
	}
	if err != nil {
		return err
	}
	f.file = file
	f.read, err = file.Seek(0, whence)
	return err
}

func (f *File) close() {
	if f.file != nil {
		_ = f.file.Close() // cannot lose data, because the file is open for reading only
	}
	f.file, f.read, f.spared, f.part = nil, 0, 0, nil
}

// drain passes all complete lines that are in the file to Line.
func (f *File) drain() error {
	if f.file == nil {
		return nil
	}
	if info, err := f.file.Stat(); err == nil && info.Size() < f.read { // the file was truncated
		f.read, f.spared, f.part = 0, 0, nil
		if _, err := f.file.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
	buffer := make([]byte, 32<<10)
	for {
		n, err := f.file.Read(buffer)
		f.read += int64(n)
		f.part = append(f.part, buffer[:n]...)
		for {
			line, rest, whole := bytes.Cut(f.part, []byte("\n"))
			if !whole {
				break
			}
			f.Line(string(line))
			f.part = rest
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("follow %s: %w", f.Path, err)
		}
	}
}
