package invariant

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weft-network/weft/pkg/unit"
)

// Invariant is one thing that is always true at rest.
type Invariant struct {
	// Name is stable: metrics, events and documentation use it.
	Name string
	// Doc says in one sentence what is true.
	Doc   string
	check func(*view) []Violation
}

// Check returns where the invariant does not hold.
func (i Invariant) Check(w World) []Violation { return i.on(newView(w)) }

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
	// Name is empty where the table has none.
	Name string `json:"name,omitempty"`
}

// String writes "Logical_Switch_Port default_web-0", with the UUID of a row that has no name.
func (r Row) String() string {
	if r.Name == "" {
		return r.Table + " " + r.UUID
	}
	return r.Table + " " + r.Name
}

// Violation is one place where an invariant does not hold.
type Violation struct {
	Invariant string `json:"invariant"`
	// Message is a sentence that names what is concerned. It is the same as long as the violation is.
	Message string `json:"message"`
	// Rows, Owners and Objects are what is concerned; any of them may be empty.
	Rows   []Row      `json:"rows,omitempty"`
	Owners []unit.Key `json:"owners,omitempty"`
	// Objects are Kubernetes objects: "Pod default/web-0", "NodeNetwork worker-1".
	Objects []string `json:"objects,omitempty"`
}

// String writes the name of the invariant and the message.
func (v Violation) String() string { return v.Invariant + ": " + v.Message }

// Subject names the first of what is concerned: an object, an owner or a row.
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
	return slices.Concat(rowInvariants(), keyInvariants(), addressInvariants(), podInvariants(), nodeInvariants(), serviceInvariants(), policyInvariants(), networkPolicyInvariants(), egressInvariants(), clusterInvariants())
}

// Check returns what does not hold in a world, in the order of All and then of the messages.
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

// Persistent returns the violations of now that were there before too.
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

// about makes a violation of rows, with their owners.
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
