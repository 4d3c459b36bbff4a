package invariant

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weft-network/weft/pkg/unit"
)

// Invariant is a statement that is always true at rest.
type Invariant struct {
	// Name is stable: metrics, events and documentation use it.
	Name string
	// Doc is the statement in one sentence.
	Doc   string
	check func(*view) []Violation
}

// on returns the violations of the invariant.
func (i Invariant) on(v *view) []Violation {
	found := i.check(v)
	for n := range found {
		found[n].Invariant = i.Name
	}
	return found
}

// Row names a row.
type Row struct {
	Table string `json:"table"`
	UUID  string `json:"uuid"`
	// Name is empty if the table has no names.
	Name string `json:"name,omitempty"`
}

// String returns "Logical_Switch_Port default_web-0", or the UUID for a row without a name.
func (r Row) String() string {
	if r.Name == "" {
		return r.Table + " " + r.UUID
	}
	return r.Table + " " + r.Name
}

// Violation is one violation of an invariant.
type Violation struct {
	Invariant string `json:"invariant"`
	// Message is a sentence that names the objects concerned. It does not change while the violation lasts.
	Message string `json:"message"`
	// Rows, Owners and Objects are concerned by the violation. Each of them may be empty.
	Rows   []Row      `json:"rows,omitempty"`
	Owners []unit.Key `json:"owners,omitempty"`
	// Objects are Kubernetes objects: "Pod default/web-0", "NodeNetwork worker-1".
	Objects []string `json:"objects,omitempty"`
}

// String returns the name of the invariant and the message.
func (v Violation) String() string { return v.Invariant + ": " + v.Message }

// Subject names the first object, owner or row concerned.
func (v Violation) Subject() string {
	switch {
	case len(v.Objects) > 0:
		return v.Objects[0]
	case len(v.Owners) > 0:
		return string(v.Owners[0])
	case len(v.Rows) > 0:
		return v.Rows[0].String()
	}
	return ""
}

// All lists the invariants.
func All() []Invariant {
	return slices.Concat(rowInvariants(), keyInvariants(), addressInvariants(), podInvariants(), nodeInvariants(),
		serviceInvariants(), policyInvariants(), networkPolicyInvariants(), egressInvariants(), routeInvariants(),
		loadBalancerInvariants(), floatingInvariants(), networkInvariants(), clusterInvariants())
}

// Check returns the violations in a world, in the order of All and then of the messages.
func Check(w World) []Violation {
	v := newView(w)
	var found []Violation
	for _, i := range All() {
		violations := i.on(v)
		slices.SortFunc(violations, func(a, b Violation) int { return strings.Compare(a.Message, b.Message) })
		found = append(found, violations...)
	}
	return found
}

// Persistent returns the violations of now that are also in before.
func Persistent(before, now []Violation) []Violation {
	known := make(map[string]bool, len(before))
	for _, v := range before {
		known[v.String()] = true
	}
	var stayed []Violation
	for _, v := range now {
		if known[v.String()] {
			stayed = append(stayed, v)
		}
	}
	return stayed
}

// about returns a violation with rows and their owners.
func (v *view) about(rows []any, format string, args ...any) Violation {
	found := Violation{Message: fmt.Sprintf(format, args...)}
	for _, row := range rows {
		found.Rows = append(found.Rows, v.rowOf(row))
		if owner := ownerOf(row); owner != "" && !slices.Contains(found.Owners, owner) {
			found.Owners = append(found.Owners, owner)
		}
	}
	return found
}

// of adds objects to a violation.
func (v Violation) of(objects ...string) Violation {
	v.Objects = append(v.Objects, objects...)
	return v
}
