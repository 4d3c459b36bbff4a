// Package follow reads the lines that another program appends to a file, as they come, and keeps the file small.
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

// File is followed from its end on; one that is made later, from its beginning.
type File struct {
	Path string
	// Line is told each line, without its end.
	Line func(line string)
	// Max is how many bytes the file may have before it is begun anew.
	Max int64
	// Reopen makes the writer close the file, and open the one of that name anew.
	Reopen func(context.Context) error

	file   *os.File
	read   int64
	spared int64  // bytes that it had when it could not be begun anew
	part   []byte // of a line whose end has not come
}

// Run follows the file until ctx ends.
func (f *File) Run(ctx context.Context) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("follow %s: %w", f.Path, err)
	}
	defer watcher.Close()
	if err := watcher.Add(filepath.Dir(f.Path)); err != nil { // before the file is looked at: no line is missed between
		return fmt.Errorf("follow %s: %w", f.Path, err)
	}
	defer f.close()
	if err := f.open(io.SeekEnd); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-watcher.Errors:
			if !errors.Is(err, fsnotify.ErrEventOverflow) { // what it hides is read with what comes next
				return fmt.Errorf("follow %s: %w", f.Path, err)
			}
		case event := <-watcher.Events:
			if event.Name != f.Path {
				continue
			}
			if err := f.look(ctx, event.Has(fsnotify.Create)); err != nil {
				return err
			}
		}
	}
}

// look reads what has come; made says that the file is a new one.
func (f *File) look(ctx context.Context, made bool) error {
	if err := f.drain(); err != nil {
		return err
	}
	if made && !f.isOpen() {
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
	return f.renew(ctx)
}

// isOpen reports whether the file of that name is the one that is read: one that came back is not new.
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

// renew begins the file anew: the writer opens another, and what it wrote into the old one until then is read to its end.
func (f *File) renew(ctx context.Context) error {
	old := f.Path + ".old"
	if err := os.Rename(f.Path, old); err != nil {
		return err
	}
	if err := f.Reopen(ctx); err != nil {
		f.spared = f.read // another time: the writer would go on with a file that nobody reads
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
		return nil // its coming is an event
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
		_ = f.file.Close() // it was only read
	}
	f.file, f.read, f.spared, f.part = nil, 0, 0, nil
}

// drain tells the lines that are there.
func (f *File) drain() error {
	if f.file == nil {
		return nil
	}
	if info, err := f.file.Stat(); err == nil && info.Size() < f.read { // somebody emptied it
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
