package apiserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/google/uuid"
)

// object is a Kubernetes object decoded from JSON. A stored object is never modified.
type object map[string]any

// kind is one resource that the server serves.
type kind struct {
	Resource   string // "pods"
	APIVersion string // "v1"
	Kind       string // "Pod"
	// generation makes metadata.generation count the changes of the spec.
	generation bool
	// whole is set for a kind without a status subresource.
	whole bool
}

// revision is one change of one object.
type revision struct {
	number   int64
	resource string
	name     string // "<namespace>/<name>", or "<name>"
	event    string // ADDED, MODIFIED or DELETED
	object   object
}

// store holds all objects and all revisions.
type store struct {
	mu      sync.Mutex
	objects map[string]map[string]object // resource -> name -> object
	log     []revision                   // revision n is log[n-1]
	more    chan struct{}                // closed at the next revision
	space   uuid.UUID                    // namespace of the objects' UIDs
	// observers are called at each revision: resource -> functions.
	observers map[string][]func(event string, object []byte)
	notify    func()
}

func newStore(seed uint64, notify func()) *store {
	return &store{objects: map[string]map[string]object{}, more: make(chan struct{}), notify: notify,
		observers: map[string][]func(string, []byte){},
		space:     uuid.NewSHA1(uuid.NameSpaceOID, []byte(strconv.FormatUint(seed, 10)))}
}

func (s *store) get(resource, name string) (object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[resource][name]
	return o, ok
}

// create stores a new object; ok is false if the name is taken.
func (s *store) create(k kind, name string, o object) (stored object, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, exists := s.objects[k.Resource][name]; exists {
		return nil, false
	}
	o["apiVersion"], o["kind"] = k.APIVersion, k.Kind
	meta := o.meta()
	number := len(s.log) + 1
	meta["uid"] = uuid.NewSHA1(s.space, []byte(strconv.Itoa(number))).String()
	meta["creationTimestamp"] = "2026-01-01T00:00:00Z"
	if k.generation {
		meta["generation"] = int64(1)
	}
	return s.append(k.Resource, name, "ADDED", o), true
}

// update replaces an object by the result of change on a copy. An unchanged object gets no revision.
func (s *store) update(k kind, name string, change func(object) (object, error)) (object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	have, ok := s.objects[k.Resource][name]
	if !ok {
		return nil, errNotFound
	}
	o, err := change(have.copy())
	if err != nil {
		return nil, err
	}
	if o.equal(have) {
		return have, nil
	}
	if k.generation && !equalJSON(o["spec"], have["spec"]) {
		o.meta()["generation"] = number(o.meta()["generation"]) + 1
	}
	return s.append(k.Resource, name, "MODIFIED", o), nil
}

// remove deletes an object that meets the preconditions; empty preconditions always hold.
func (s *store) remove(resource, name, uid, version string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	have, ok := s.objects[resource][name]
	if !ok {
		return errNotFound
	}
	if uid != "" && uid != have.meta()["uid"] || version != "" && version != have.meta()["resourceVersion"] {
		return fmt.Errorf("%w: preconditions of the deletion of %s %s", errConflict, resource, name)
	}
	s.append(resource, name, "DELETED", have.copy())
	return nil
}

// append stores a revision and wakes the watches. The caller holds s.mu.
func (s *store) append(resource, name, event string, o object) object {
	n := int64(len(s.log) + 1)
	o.meta()["resourceVersion"] = strconv.FormatInt(n, 10)
	o = o.copy() // numbers become json.Number
	s.log = append(s.log, revision{n, resource, name, event, o})
	if s.objects[resource] == nil {
		s.objects[resource] = map[string]object{}
	}
	if s.objects[resource][name] = o; event == "DELETED" {
		delete(s.objects[resource], name)
	}
	for _, seen := range s.observers[resource] {
		seen(event, o.text())
	}
	close(s.more)
	s.more = make(chan struct{})
	s.notify()
	return o
}

// list returns a resource's objects as of the given number of revisions ago, sorted by name, and the revision.
func (s *store) list(resource string, ago int64) (objects []object, at int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at = max(0, int64(len(s.log))-ago)
	present := map[string]object{}
	for _, r := range s.log[:at] {
		if r.resource != resource {
			continue
		}
		if present[r.name] = r.object; r.event == "DELETED" {
			delete(present, r.name)
		}
	}
	names := make([]string, 0, len(present))
	for name := range present {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		objects = append(objects, present[name])
	}
	return objects, at
}

// since returns a resource's revisions after the given one, the newest revision of all, and a channel that is closed
// at the next revision.
func (s *store) since(resource string, after int64) (found []revision, last int64, more <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.log[min(after, int64(len(s.log))):] {
		if r.resource == resource {
			found = append(found, r)
		}
	}
	return found, int64(len(s.log)), s.more
}

func (o object) meta() map[string]any {
	meta, ok := o["metadata"].(map[string]any)
	if !ok {
		meta = map[string]any{}
		o["metadata"] = meta
	}
	return meta
}

func (o object) text() []byte {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // the value was decoded from JSON
	}
	return text
}

func (o object) copy() object {
	copied, err := decode(o.text())
	if err != nil {
		panic(err)
	}
	return copied
}

// decode decodes an object and keeps its numbers exactly, because a float has too few digits for some.
func decode(text []byte) (o object, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	err = decoder.Decode(&o)
	return o, err
}

func (o object) equal(other object) bool { return equalJSON(o, other) }

func equalJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

func number(v any) int64 {
	text, _ := v.(json.Number)
	n, _ := text.Int64() // 0 if absent
	return n
}
