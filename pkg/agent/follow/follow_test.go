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
)

// writer appends lines to a file that it can open anew.
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
		fmt.Fprintf(w.file, "last of %d\n", w.opened) // what a writer still has when it is asked
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

// followed starts to follow, and returns what tells the next line.
func followed(t *testing.T, w *writer, most int64) (next func() string) {
	t.Helper()
	lines := make(chan string, 10_000)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	file := &follow.File{Path: w.path, Line: func(line string) { lines <- line }, Max: most, Reopen: w.reopen}
	go func() { done <- file.Run(ctx) }()
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
		case <-time.After(20 * time.Second):
			t.Fatal("no line came")
			return ""
		}
	}
}

// No line is lost or told twice, whenever the file is begun anew.
func TestLinesOfAFileThatIsBegunAnew(t *testing.T) {
	w := &writer{t: t, path: filepath.Join(t.TempDir(), "log")}
	next := followed(t, w, 100)
	time.Sleep(50 * time.Millisecond) // the file comes later, most likely
	w.open()
	const lines = 500
	go func() {
		for i := range lines {
			w.write(fmt.Sprintf("line %d\n", i))
			if i%50 == 0 {
				time.Sleep(5 * time.Millisecond) // for the reader to come in between
			}
		}
	}()
	renewed := 0
	for i := 0; i < lines; {
		switch line := next(); line {
		case fmt.Sprintf("line %d", i):
			i++
		case fmt.Sprintf("last of %d", renewed+1):
			renewed++
		default:
			t.Fatalf("line %q came and not line %d", line, i)
		}
	}
	if renewed == 0 {
		t.Error("the file was never begun anew")
	}
	w.write("half ")
	w.write("a line\n")
	if line := next(); line != "half a line" && line != fmt.Sprintf("last of %d", renewed+1) {
		t.Errorf("half a line was told: %q", line)
	}
}

// What was there before is somebody else's, and a writer that cannot open the file anew goes on in the old one.
func TestAWriterThatRefuses(t *testing.T) {
	w := &writer{t: t, path: filepath.Join(t.TempDir(), "log"), refuse: true}
	w.open()
	w.write("before\n")
	next := followed(t, w, 10)
	for i := range 51 { // until it is followed
		w.write(fmt.Sprintf("line %d\n", i))
		time.Sleep(10 * time.Millisecond)
	}
	last := next()
	if last == "before" {
		t.Fatal("what was there before is told")
	}
	for last != "line 50" {
		last = next()
	}
	w.write("after\n")
	if line := next(); line != "after" {
		t.Errorf("%q came", line)
	}
	for { // it is back, at the latest when the last attempt is over
		if _, err := os.Stat(w.path); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
}
