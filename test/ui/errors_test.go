package ui

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
)

// wrongs are the exceptions of scripts, and the violations of the content security policy.
type wrongs struct {
	mu  sync.Mutex
	all []string
}

func (w *wrongs) listen(event any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		w.all = append(w.all, fmt.Sprintf("exception: %+v", e.ExceptionDetails))
	case *log.EventEntryAdded:
		w.all = append(w.all, e.Entry.Text+" "+e.Entry.URL)
	}
}

// report fails the test for each. The console also has answers that are refused, which are no mistake of the page.
func (w *wrongs) report(t *testing.T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	expected := func(text string) bool {
		return slices.ContainsFunc([]string{"the server responded with a status of", "net::ERR_", "blocked by CORS policy"},
			func(part string) bool { return strings.Contains(text, part) })
	}
	for _, text := range slices.Compact(w.all) {
		if !expected(text) {
			t.Error(text)
		}
	}
}
