package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

const (
	maxText      = 1024 // bytes of a text in a status
	maxMessage   = 32 << 10
	namedObjects = 5 // in a problem of several objects
)

// severity orders states.
var severity = map[networkv1alpha1.AreaState]int{
	networkv1alpha1.StateOK: 0, networkv1alpha1.StateProgressing: 1, networkv1alpha1.StateDegraded: 2, networkv1alpha1.StateUnavailable: 3,
}

// Worse reports whether state a is worse than state b.
func Worse(a, b networkv1alpha1.AreaState) bool { return severity[a] > severity[b] }

// New returns a problem with the next step of its reason.
func New(area networkv1alpha1.AreaName, state networkv1alpha1.AreaState, reason, object, message string) networkv1alpha1.Problem {
	return networkv1alpha1.Problem{Area: area, State: state, Reason: reason, Object: Cut(object),
		Message: Cut(message), NextStep: nextStep(reason, object)}
}

// Sort sorts the problems, the worst first. Equal problems keep their order, which is the caller's rank.
func Sort(problems []networkv1alpha1.Problem) []networkv1alpha1.Problem {
	sorted := slices.Clone(problems)
	slices.SortStableFunc(sorted, func(a, b networkv1alpha1.Problem) int { return cmp.Compare(severity[b.State], severity[a.State]) })
	return sorted
}

// Together merges problems of several objects of one kind that have the same area, state and reason. The result takes the
// place of the first.
func Together(problems []networkv1alpha1.Problem) []networkv1alpha1.Problem {
	type kind struct {
		area         networkv1alpha1.AreaName
		state        networkv1alpha1.AreaState
		reason, kind string
	}
	kindOf := func(p networkv1alpha1.Problem) kind {
		of, _, _ := strings.Cut(p.Object, "/")
		return kind{p.Area, p.State, p.Reason, of}
	}
	objects := map[kind][]string{}
	var kept []networkv1alpha1.Problem
	for _, p := range problems {
		k := kindOf(p)
		if len(objects[k]) == 0 {
			kept = append(kept, p)
		}
		if !slices.Contains(objects[k], p.Object) {
			objects[k] = append(objects[k], p.Object)
		}
	}
	for i, p := range kept {
		if all := objects[kindOf(p)]; len(all) > 1 {
			kept[i].Object, kept[i].Message = Cut(NameSome(all)), Cut(fmt.Sprintf("%s, and the same of %d more", p.Message, len(all)-1))
		}
	}
	return kept
}

// Worst returns the first problem that is at least as bad as state. Without one, ok is false. The problems must
// be sorted.
func Worst(problems []networkv1alpha1.Problem, state networkv1alpha1.AreaState) (networkv1alpha1.Problem, bool) {
	for _, p := range problems {
		if severity[p.State] >= severity[state] {
			return p, true
		}
	}
	return networkv1alpha1.Problem{}, false
}

// Text returns a problem in one line. Problems that a node's agent reports do not name the node.
func Text(p networkv1alpha1.Problem) string {
	if !strings.HasPrefix(p.Object, nodeNetwork) {
		return p.Message
	}
	return Cut(p.Object + ": " + p.Message)
}

// NameSome joins names, and counts those after the first few.
func NameSome(names []string) string {
	if len(names) <= namedObjects {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:namedObjects], ", "), len(names)-namedObjects)
}

// Cut limits a text to 1024 bytes without splitting a rune. This is also the limit of an event's note
// (events.k8s.io/v1).
func Cut(text string) string { return cut(text, maxText) }

// CutMessage limits the message of a condition to 32,768 bytes, as metav1.Condition does, without splitting a rune.
func CutMessage(text string) string { return cut(text, maxMessage) }

func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := most - len("...")
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "..."
}
