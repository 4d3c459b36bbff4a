package ui

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// longestLog limits the log, which has the latest changes.
const longestLog = 500

// logEntry is a change of an object. Changes from before the command began are dated by the objects:
// their creation, the last transition of each condition, and Weft's Events.
type logEntry struct {
	At time.Time `json:"at"`
	// Table and ID are the row. ID is the kind and the object: "Pod/demo/web".
	Table string `json:"table,omitempty"`
	ID    string `json:"id"`
	What  string `json:"what"`
	// Warning is true for Events of this type, and for a condition Ready that is False.
	Warning bool       `json:"warning,omitempty"`
	Fields  []logField `json:"fields,omitempty"`
	// Event names an Event. A later entry of the same Event replaces the earlier one.
	Event string `json:"event,omitempty"`
}

// logField is a field of a row that has changed.
type logField struct {
	Name string `json:"name"`
	From string `json:"from"`
	To   string `json:"to"`
}

// changeOf describes the change of a row. A row that does not exist is nil.
func changeOf(at time.Time, table, id string, had, row any) logEntry {
	e := logEntry{At: at, Table: table, ID: id, What: "changed"}
	switch {
	case had == nil:
		e.What = "added"
	case row == nil:
		e.What = "removed"
	default:
		e.Fields = differentFields(had, row)
	}
	return e
}

// differentFields compares rows of a table.
func differentFields(had, row any) (all []logField) {
	from, to := fieldsOf(had), fieldsOf(row)
	both := maps.Clone(from)
	maps.Copy(both, to)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		if !reflect.DeepEqual(from[name], to[name]) {
			all = append(all, logField{name, valueText(from[name]), valueText(to[name])})
		}
	}
	return all
}

func fieldsOf(row any) (fields map[string]any) {
	text, err := json.Marshal(row)
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		return nil // rows are structures of texts and numbers
	}
	return fields
}

// valueText describes a value by its values, with a space between.
func valueText(value any) string {
	var texts []string
	switch v := value.(type) {
	case nil:
	case []any:
		for _, each := range v {
			texts = append(texts, valueText(each))
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			texts = append(texts, valueText(v[name]))
		}
	default:
		texts = append(texts, fmt.Sprint(v))
	}
	return strings.Join(texts, " ")
}

// remember adds an entry to the log in the order of time, unless its time is unknown. The caller holds the lock.
func (h *hub) remember(e logEntry) {
	if e.At.IsZero() || len(h.log) >= longestLog && !e.At.After(h.log[0].At) {
		return
	}
	same := func(have logEntry) bool { return e.Event != "" && have.Event == e.Event }
	log := slices.DeleteFunc(slices.Clone(h.log), same)
	at, _ := slices.BinarySearchFunc(log, e, func(have, e logEntry) int {
		if have.At.After(e.At) {
			return 1
		}
		return -1 // after the entries of the same time
	})
	log = slices.Insert(log, at, e)
	h.log = log[max(0, len(log)-longestLog):]
	for s := range h.subs {
		s.logged = append(slices.DeleteFunc(s.logged, same), e)
		s.logged = s.logged[max(0, len(s.logged)-longestLog):]
		s.kick()
	}
}

// rememberHistory adds what an object of a feed says about its own past: an Event always, another object when the
// feed first lists it. The caller holds the lock.
func (h *hub) rememberHistory(f *feed, o client.Object) {
	if e, ok := o.(*corev1.Event); ok {
		h.remember(h.eventEntry(e))
		return
	}
	if _, reading := h.tables[f.table].reading[f]; !reading || f.row == nil {
		return
	}
	id := f.kind + "/" + keyOf(o)
	h.remember(logEntry{At: o.GetCreationTimestamp().Time, Table: f.table, ID: id, What: "created"})
	for _, c := range conditionsOf(o) {
		what := fmt.Sprintf("%s is %s", c.Type, c.Status)
		if c.Message != "" {
			what += ": " + c.Message
		}
		h.remember(logEntry{At: c.LastTransitionTime.Time, Table: f.table, ID: id, What: what,
			Warning: c.Type == networkv1alpha1.ConditionReady && c.Status == metav1.ConditionFalse})
	}
}

// conditionsOf returns the conditions of an object that Weft writes.
func conditionsOf(o client.Object) (all []metav1.Condition) {
	if p, ok := o.(*corev1.Pod); ok {
		for _, c := range p.Status.Conditions {
			if slices.Contains(podConditions, c.Type) {
				all = append(all, metav1.Condition{Type: string(c.Type), Status: metav1.ConditionStatus(c.Status), Message: c.Message,
					LastTransitionTime: c.LastTransitionTime})
			}
		}
		return all
	}
	status := reflect.ValueOf(o).Elem().FieldByName("Status")
	if status.Kind() != reflect.Struct {
		return nil
	}
	if list := status.FieldByName("Conditions"); list.IsValid() {
		all, _ = list.Interface().([]metav1.Condition) // others have no history
	}
	return all
}

// eventEntry describes an Event at the last time that it occurred.
func (h *hub) eventEntry(e *corev1.Event) logEntry {
	at := e.EventTime.Time
	if e.Series != nil {
		at = e.Series.LastObservedTime.Time
	}
	if e.LastTimestamp.After(at) {
		at = e.LastTimestamp.Time
	}
	if at.IsZero() {
		at = e.CreationTimestamp.Time
	}
	on := e.InvolvedObject
	key := on.Name
	if on.Namespace != "" {
		key = on.Namespace + "/" + on.Name
	}
	return logEntry{At: at, ID: on.Kind + "/" + key, What: e.Reason + ": " + e.Message, Warning: e.Type == corev1.EventTypeWarning,
		Event: keyOf(e)}
}
