// Package repairs counts the repairs of a node's state: changes that the agent had to write again because another
// program had changed or deleted what Weft wrote.
//
//	watcher    ─▶ Changed ─▶ a reconciliation: at once, or later if the object is contested
//	reconciler ─▶ Note    ─▶ a repair, if something was written although the wanted state is the former one
//	condition  ◀─ Contested: the objects that another program keeps changing
package repairs

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// The kinds of state, for the metric.
const (
	Nftables = "nftables" // tables inet weft and inet weft-tunnels
	Firewall = "firewall" // rules of Weft in the chains of other firewalls
	Routes   = "routes"
	Rules    = "rules" // policy routing
	Sysctls  = "sysctls"
	Flows    = "flows"
	IPsec    = "ipsec" // policies and keys of tunnels
)

// Kinds lists the kinds of state.
func Kinds() []string { return []string{Nftables, Firewall, Routes, Rules, Sysctls, Flows, IPsec} }

// Object is a part of the node's state that Weft writes and that other programs can change.
type Object struct {
	Kind string // one of Kinds
	Name string // for logs and conditions, such as "table inet weft of nftables"
}

const (
	// window is the time in which an object may be repaired limit times before it counts as contested.
	window = time.Minute
	limit  = 5
	// pause spaces the repairs of a contested object.
	pause = 5 * time.Second
)

// Ledger records what was wanted of each object, and its repairs. Any goroutine may call its methods.
type Ledger struct {
	log     logr.Logger
	observe func(kind string)
	changed func()
	after   func(time.Duration)
	now     func() time.Time

	mu      sync.Mutex
	objects map[Object]*record
}

type record struct {
	wanted  any // state of the last success; nil: unknown
	repairs []time.Time
	by      string // the process that changed it last; empty: unknown
}

// New returns an empty ledger. observe receives the kind of each repaired object. changed and after enqueue the node's
// reconciliation, at once and later.
func New(log logr.Logger, observe func(kind string), changed func(), after func(time.Duration)) *Ledger {
	return &Ledger{log: log, observe: observe, changed: changed, after: after, now: time.Now, objects: map[Object]*record{}}
}

// Changed enqueues a reconciliation, because another program may have changed the object. If the object is contested,
// the reconciliation comes later. process is the name of that program, if known.
func (l *Ledger) Changed(o Object, process string) {
	l.mu.Lock()
	r := l.of(o)
	if process != "" {
		r.by = process
	}
	contested := l.isContested(r)
	l.mu.Unlock()
	if contested {
		l.after(pause)
		return
	}
	l.changed()
}

// ChangedOf enqueues a reconciliation, because another program may have changed an unknown object of these kinds. If one of them is
// contested, the reconciliation comes later.
func (l *Ledger) ChangedOf(kinds ...string) {
	l.mu.Lock()
	contested := false
	for o, r := range l.objects {
		contested = contested || slices.Contains(kinds, o.Kind) && l.isContested(r)
	}
	l.mu.Unlock()
	if contested {
		l.after(pause)
		return
	}
	l.changed()
}

// Note records that the object was compared with the wanted state. changed reports whether something had to be written. That
// is a repair if the last success had the same wanted state, by reflect.DeepEqual. wanted must not be modified later.
func (l *Ledger) Note(o Object, wanted any, changed bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.of(o)
	same := r.wanted != nil && reflect.DeepEqual(r.wanted, wanted)
	switch {
	case err != nil && !same:
		r.wanted = nil // the object may have a part of either state
	case err == nil:
		r.wanted = wanted
	}
	if err != nil || !same || !changed {
		return
	}
	r.repairs = append(r.repairs, l.now())
	r.repairs = r.repairs[max(0, len(r.repairs)-limit-1):]
	l.observe(o.Kind)
	l.log.Info("repaired what another program had changed", "object", o.Name, "changedBy", r.by)
}

// Contested returns an error that names the objects that were repaired more than limit times within the last minute, or
// nil. It enqueues a reconciliation for the time when the first of them no longer is contested.
func (l *Ledger) Contested() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var contested []string
	wait := window
	for o, r := range l.objects {
		if !l.isContested(r) {
			continue
		}
		wait = min(wait, window-l.now().Sub(r.repairs[0]))
		by := "another program"
		if r.by != "" {
			by = fmt.Sprintf("a process named %q", r.by)
		}
		contested = append(contested, fmt.Sprintf("%s keeps changing %s: the agent repaired it more than %d times within a minute, "+
			"and now waits %s before each repair", by, o.Name, limit, pause))
	}
	if contested == nil {
		return nil
	}
	l.after(wait)
	slices.Sort(contested)
	return errors.New(strings.Join(contested, "; "))
}

// of returns the record of an object. l.mu must be held.
func (l *Ledger) of(o Object) *record {
	if l.objects[o] == nil {
		l.objects[o] = &record{}
	}
	return l.objects[o]
}

func (l *Ledger) isContested(r *record) bool {
	return len(r.repairs) > limit && l.now().Sub(r.repairs[0]) < window
}
