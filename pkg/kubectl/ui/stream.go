package ui

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// event is a server-sent event.
type event struct {
	name string
	data any
}

// stateEvent says how far a table is read.
type stateEvent struct {
	// Ready means that every feed has read its objects, or failed to.
	Ready   bool      `json:"ready"`
	Refused []Refusal `json:"refused"`
}

// tableEvent is a whole table, or with the name "state" its state alone.
type tableEvent struct {
	Table string `json:"table"`
	stateEvent
	Rows map[string]any `json:"rows,omitempty"`
}

// changeEvent is what has changed in a table.
type changeEvent struct {
	Table string         `json:"table"`
	Put   map[string]any `json:"put"`
	Drop  []string       `json:"drop"`
}

// logEvent is the log, or the entries that are new.
type logEvent struct {
	Whole   bool       `json:"whole,omitempty"`
	Entries []logEntry `json:"entries"`
}

// healthEvent is the answer of "kubectl weft status", or why it cannot be read.
type healthEvent struct {
	Report  any      `json:"report,omitempty"`
	Refused *Refusal `json:"refused,omitempty"`
}

func (t *table) state() stateEvent {
	s := stateEvent{Ready: len(t.reading) == 0, Refused: []Refusal{}}
	for _, r := range t.refused {
		s.Refused = append(s.Refused, r)
	}
	slices.SortFunc(s.Refused, func(a, b Refusal) int { return strings.Compare(a.Message, b.Message) })
	return s
}

// write writes an event in the form of a stream of server-sent events.
func (e event) write(w io.Writer) error {
	text, err := json.Marshal(e.data) // without line breaks
	if err == nil {
		_, err = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e.name, text)
	}
	return err
}

// changes streams the tables, and then what changes in them, until the browser goes.
func (s *Server) changes(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	subscriber, events := s.hub.subscribe()
	defer s.hub.unsubscribe(subscriber)
	for {
		for _, e := range events {
			if e.write(w) != nil {
				return
			}
		}
		if out.Flush() != nil {
			return
		}
		select {
		case <-subscriber.wake:
			events = s.hub.take(subscriber)
		case <-r.Context().Done():
			return
		}
	}
}
