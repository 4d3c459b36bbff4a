// Package admin is the operator's interface for its administrator. It uses HTTP on a unix socket that only the
// operator's own user may use.
//
//	kubectl weft plan ──exec──▶ weft admin plan ──socket──▶ Server ──▶ Operator
//
// Permission to execute in the operator's pod is permission to use it. Nothing listens on the network.
//
//	GET  /drift              Changes: where the database differs from what all units want
//	POST /plan[?delete=true] Changes: what the objects in the body would change if they were applied, or deleted
//	GET  /check              Violations: the invariants that do not hold
//
// Every error has a status of 400 or more and a Failure.
package admin

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/weft-network/weft/pkg/invariant"
	"github.com/weft-network/weft/pkg/manifest"
	"github.com/weft-network/weft/pkg/ovndb"
)

// Bounds of a request.
const (
	// MaxManifests is the maximum size of a body, 16 MiB.
	MaxManifests = 16 << 20
)

// Paths.
const (
	pathPlan  = "/plan"
	pathDrift = "/drift"
	pathCheck = "/check"
)

// Operator handles the requests. Its errors wrap ErrUnavailable or ErrInvalid if they are not internal errors.
type Operator interface {
	// Plan computes what the objects would change in the database, without writing. The objects must be as the API
	// server would store them.
	Plan(ctx context.Context, request PlanRequest) (Changes, error)
	// Drift compares the database with all units.
	Drift(ctx context.Context) (Changes, error)
	// Check returns the current violations of invariants.
	Check(ctx context.Context) (Violations, error)
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
