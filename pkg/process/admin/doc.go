// Package admin is the operator's interface for its administrator. It uses HTTP on a unix socket that only the
// operator's own user may use.
//
//	kubectl weft plan ──exec──▶ weft admin plan ──socket──▶ Server ──▶ Operator
//
// Permission to execute in the operator's pod is permission to use it. Nothing listens on the network.
//
//	GET  /drift              Changes: where the database differs from what all units want
//	POST /plan[?delete=true] Changes: what the objects in the body would change if they were applied, or deleted
//	POST /operations         Operations: the same, as a transaction of OVSDB, for a copy of the database
//	GET  /check              Violations: the invariants that do not hold
//	GET  /history?object=    History: the latest changes of the rows of an object, or of all; limit bounds their number
//
// Every error has a status of 400 or more and a Failure.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/weft-network/weft/pkg/invariant"
	"github.com/weft-network/weft/pkg/manifest"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/history"
	"github.com/weft-network/weft/pkg/unit"
)

// Bounds of a request.
const (
	// MaxManifests is the maximum size of a body, 16 MiB.
	MaxManifests = 16 << 20
)

// Paths.
const (
	pathPlan       = "/plan"
	pathDrift      = "/drift"
	pathCheck      = "/check"
	pathHistory    = "/history"
	pathOperations = "/operations"
)

// Operator handles the requests. Its errors wrap ErrUnavailable or ErrInvalid if they are not internal errors.
type Operator interface {
	// Plan computes what the objects would change in the database, without writing. The objects must be as the API
	// server would store them.
	Plan(ctx context.Context, request PlanRequest) (Changes, error)
	// Operations computes the transaction that would make the changes of Plan.
	Operations(ctx context.Context, request PlanRequest) (Operations, error)
	// Drift compares the database with all units.
	Drift(ctx context.Context) (Changes, error)
	// Check returns the current violations of invariants.
	Check(ctx context.Context) (Violations, error)
	// History returns the latest recorded changes.
	History(ctx context.Context, request HistoryRequest) (History, error)
}

// Errors that are not internal errors of the operator.
var (
	// ErrUnavailable means that this process cannot respond now: it does not lead, or the database is away.
	ErrUnavailable = errors.New("not available")
	// ErrInvalid means that the request is invalid, for example because of a malformed object.
	ErrInvalid = errors.New("invalid")
)

// PlanRequest is the input of Plan.
type PlanRequest struct {
	Objects []manifest.Document
	// Delete plans the objects' deletion instead.
	Delete bool
}

// Operations are a planned transaction of the northbound database, for a copy of it.
type Operations struct {
	// Operations are in OVSDB's wire format (RFC 7047 §5.2).
	Operations []json.RawMessage `json:"operations"`
	// Notes are the notes of the plan.
	Notes []string `json:"notes,omitempty"`
}

// Changes are differences between the database and its planned or desired content.
type Changes struct {
	// Changes are sorted by owner, table and name.
	Changes []ovndb.Change `json:"changes"`
	// Notes explain in words what the changes do not show, such as objects that wait for an agent or would be
	// refused.
	Notes []string `json:"notes,omitempty"`
}

// MarshalJSON writes an empty list instead of null, so that programs can iterate without a check.
func (c Changes) MarshalJSON() ([]byte, error) {
	type plain Changes
	if c.Changes == nil {
		c.Changes = []ovndb.Change{}
	}
	return json.Marshal(plain(c))
}

// HistoryRequest is the input of History.
type HistoryRequest struct {
	// Object is the key of an object, such as "pod/demo/web-0". If it is empty, all changes are meant.
	Object unit.Key
	// Limit is the maximum number of entries.
	Limit int
}

// DefaultLimit and MaxLimit bound the entries of a History.
const (
	DefaultLimit = 20
	MaxLimit     = 1000
)

// History is what the operator recorded since it began to lead, within bounds.
type History struct {
	// Since is the time from which on all changes are recorded. It is the zero time before the operator has been connected to
	// the database.
	Since time.Time `json:"since"`
	// Writer is the operator and its version, as in the comments of its transactions.
	Writer string `json:"writer"`
	// Entries are sorted by time, the oldest first.
	Entries []history.Entry `json:"entries"`
}

// MarshalJSON writes empty lists instead of null.
func (h History) MarshalJSON() ([]byte, error) {
	type plain History
	if h.Entries == nil {
		h.Entries = []history.Entry{}
	}
	for i := range h.Entries {
		if h.Entries[i].Changes == nil {
			h.Entries[i].Changes = []history.Change{}
		}
	}
	return json.Marshal(plain(h))
}

// Violations are the violations of invariants.
type Violations struct {
	// Checked names the checked invariants.
	Checked    []string              `json:"checked"`
	Violations []invariant.Violation `json:"violations"`
}

// MarshalJSON writes empty lists instead of null.
func (v Violations) MarshalJSON() ([]byte, error) {
	type plain Violations
	if v.Checked == nil {
		v.Checked = []string{}
	}
	if v.Violations == nil {
		v.Violations = []invariant.Violation{}
	}
	return json.Marshal(plain(v))
}

// Failure is the response to a request that failed.
type Failure struct {
	Error string `json:"error"`
}
