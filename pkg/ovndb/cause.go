package ovndb

import (
	"context"
	"fmt"
	"strings"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weft-network/weft/pkg/unit"
)

// Cause is why a unit is applied: the object that is reconciled, and the name of the reconciler.
type Cause struct {
	Object     unit.Key // KIND/NAMESPACE/NAME, or KIND/NAME
	Reconciler string
}

type causeKey struct{}

// WithCause returns a context with which units are applied because of a cause.
func WithCause(ctx context.Context, cause Cause) context.Context {
	return context.WithValue(ctx, causeKey{}, cause)
}

// causeOf returns the cause of a context; the zero value if it has none.
func causeOf(ctx context.Context) Cause {
	cause, _ := ctx.Value(causeKey{}).(Cause)
	return cause
}

const (
	// namedCauses is how many units the comment of a transaction names.
	namedCauses = 3
	// maxName bounds a name in a comment, and in a writer's.
	maxName = 100
)

// withComment appends a comment to the operations. The comment is in the server's log ("ovsdb-tool show-log"); a
// transaction that changes nothing is not logged, with or without a comment.
func withComment(ops []ovsdb.Operation, writer, text string) []ovsdb.Operation {
	if writer == "" {
		return ops
	}
	comment := short(writer) + ": " + text
	return append(ops, ovsdb.Operation{Op: ovsdb.OperationComment, Comment: &comment})
}

// causesText names the first units of a transaction with their causes, and how many more there are.
func causesText(group []plannedUnit) string {
	var text strings.Builder
	named, more := 0, 0
	for i := range group {
		switch p := &group[i]; {
		case !p.planned:
		case named == namedCauses:
			more++
		default:
			if named > 0 {
				text.WriteString("; ")
			}
			p.describe(&text)
			named++
		}
	}
	if more > 0 {
		fmt.Fprintf(&text, "; %d more", more)
	}
	return text.String()
}

// describe writes a unit and its cause, such as "podgroup/5f (reconciler networkpolicy, object networkpolicy/demo/web)".
func (p *plannedUnit) describe(text *strings.Builder) {
	text.WriteString(short(string(p.key)))
	separator := " ("
	write := func(name, value string) {
		text.WriteString(separator)
		text.WriteString(name)
		text.WriteString(short(value))
		separator = ", "
	}
	if p.cause.Reconciler != "" {
		write("reconciler ", p.cause.Reconciler)
	}
	if p.cause.Object != "" && p.cause.Object != p.key {
		write("object ", string(p.cause.Object))
	}
	if p.repairs() {
		write("repair", "")
	}
	if separator != " (" {
		text.WriteString(")")
	}
}

// repairs reports whether the plan reverts foreign changes of the unit.
func (p *plannedUnit) repairs() bool {
	for _, d := range p.drifts {
		if d.State == DriftRepaired {
			return true
		}
	}
	return false
}

// short bounds a name.
func short(name string) string {
	if len(name) <= maxName {
		return name
	}
	return strings.ToValidUTF8(name[:maxName], "") + "..."
}
