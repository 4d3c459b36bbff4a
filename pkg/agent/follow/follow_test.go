package follow_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/weft-network/weft/pkg/agent/follow"
	"github.com/weft-network/weft/test/poll"
)

// writer appends lines to a file that it can reopen.
type writer struct {
	t    *testing.T
	path string

	mu     sync.Mutex
	file   *os.File
	opened int
	refuse bool
}

func (w *writer) open() {
	w.mu.Lock()
	defer w.mu.Unlock()
	file, err := os.OpenFile(w.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		w.t.Error(err)
		return
	}
	if w.file != nil {
		fmt.Fprintf(w.file, "last of %d\n", w.opened) // buffered lines that a writer flushes before it closes the file
		_ = w.file.Close()
	}
	w.file = file
	w.opened++
}

func (w *writer) write(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.file.WriteString(text); err != nil {
		w.t.Error(err)
	}
}

func (w *writer) reopen(context.Context) error {
	if w.refuse {
		return errors.New("busy")
	}
	w.open()
	return nil
}

// followed starts to follow the file, and returns a function that waits for the next line. What is written from now on is
// read.
func followed(t *testing.T, w *writer, most int64) (next func() string) {
	t.Helper()
	lines := make(chan string, 10_000)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	file := &follow.File{Path: w.path, Line: func(line string) { lines <- line }, Max: most, Reopen: w.reopen}
	run, err := file.Begin()
	if err != nil {
		t.Fatal(err)
	}
	go func() { done <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return func() string {
		t.Helper()
		select {
		case line := <-lines:
			return line
		case <-time.After(time.Minute):
			t.Fatal("no line came")
			return ""
		}
	}
}

// No line is lost or read twice while the file is replaced repeatedly.
func TestLinesOfAReplacedFile(t *testing.T) {
	w := &writer{t: t, path: filepath.Join(t.TempDir(), "log")}
	next := followed(t, w, 100)
	w.open()
	const lines, together = 500, 50
	read := make(chan struct{}, lines/together)
	go func() {
		for i := range lines {
			w.write(fmt.Sprintf("line %d\n", i))
			if i%together == 0 {
				<-read // so that the reader keeps up
			}
		}
	}()
	replaced := 0
	for i := 0; i < lines; {
		switch line := next(); line {
		case fmt.Sprintf("line %d", i):
			if i%together == 0 {
				read <- struct{}{}
			}
			i++
		case fmt.Sprintf("last of %d", replaced+1):
			replaced++
		default:
			t.Fatalf("got line %q, want line %d", line, i)
		}
	}
	if replaced == 0 {
		t.Error("the file was never replaced")
	}
	w.write("half ")
	w.write("a line\n")
	if line := next(); line != "half a line" && line != fmt.Sprintf("last of %d", replaced+1) {
		t.Errorf("an incomplete line was read: %q", line)
	}
}

// Lines from before Run are not read. If the writer cannot reopen the file, File continues to read the old one.
func TestReopenFails(t *testing.T) {
	w := &writer{t: t, path: filepath.Join(t.TempDir(), "log"), refuse: true}
	w.open()
	w.write("before\n")
	next := followed(t, w, 10)
	for i := range 51 { // each is read before the next is written, so that File tries to replace the file many times
		want := fmt.Sprintf("line %d", i)
		w.write(want + "\n")
		if line := next(); line != want {
			t.Fatalf("got line %q, want %q", line, want)
		}
	}
	w.write("after\n")
	if line := next(); line != "after" {
		t.Errorf("got %q", line)
	}
	poll.Eventually(t, time.Minute, func() error { // the file is renamed back after the last attempt
		_, err := os.Stat(w.path)
		return err
	})
}
