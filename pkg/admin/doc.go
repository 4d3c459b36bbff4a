// Package admin is how the operator answers its administrator: HTTP on a unix socket that only the operator's own user may use.
//
//	kubectl weft plan ──exec──▶ weft admin plan ──socket──▶ Server ──▶ Operator
//
// Who may execute in the operator's pod may ask; nothing listens on the network.
//
//	GET  /drift              Changes: where the database differs from what all units want
//	POST /plan[?delete=true] Changes: what the objects in the body would change if they were applied, or deleted
//	GET  /check              Violations: the invariants that do not hold
//
// Whatever goes wrong is answered by a status of 400 or more and a Failure.
package admin

import (
	"context"
	"errors"

	"github.com/weft-network/weft/pkg/invariant"
	"github.com/weft-network/weft/pkg/manifest"
	"github.com/weft-network/weft/pkg/ovndb"
)

// Bounds of a question.
const (
	// MaxManifests is the size of a body, 16 MiB.
	MaxManifests = 16 << 20
)

// Paths.
const (
	pathPlan  = "/plan"
	pathDrift = "/drift"
	pathCheck = "/check"
)

// Operator is who answers. Its errors wrap ErrUnavailable or ErrInvalid where they should not look like a fault of its own.
type Operator interface {
	// Plan computes what the objects would change in the database, without writing. They are as the API server would store them.
	Plan(ctx context.Context, request PlanRequest) (Changes, error)
	// Drift compares the database with what all units want, now.
	Drift(ctx context.Context) (Changes, error)
	// Check looks for invariants that do not hold, now.
	Check(ctx context.Context) (Violations, error)
}

// The kinds of errors that are not the operator's fault.
var (
	// ErrUnavailable says that this process cannot answer now: it does not lead, or the database is away.
	ErrUnavailable = errors.New("not available")
	// ErrInvalid says that the question cannot be answered: an object is none.
	ErrInvalid = errors.New("invalid")
)

// PlanRequest is what to plan.
type PlanRequest struct {
	Objects []manifest.Document
	// Delete plans the objects' deletion instead.
	Delete bool
}

// Changes are differences between what is in the database and what will be, or should be.
type Changes struct {
	// Changes are sorted by owner, table and name.
	Changes []ovndb.Change `json:"changes"`
	// Notes say in words what the changes do not show: what waits for an agent, what would be refused.
	Notes []string `json:"notes,omitempty"`
}

// Violations are the invariants that do not hold.
type Violations struct {
	// Checked names the invariants that were looked at.
	Checked    []string              `json:"checked"`
	Violations []invariant.Violation `json:"violations"`
}

// Failure is the answer when something went wrong.
type Failure struct {
	Error string `json:"error"`
}
