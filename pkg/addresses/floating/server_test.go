package floating_test

import (
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating"
)

// server stores FloatingIPs as the API server does: it refuses a write of a version that is not the latest, and has a
// log of all changes that processes read at their own pace.
type server struct {
	objects map[string]*networkv1alpha1.FloatingIP
	version int
	log     []change
}

// change is a new version of a FloatingIP, or its deletion.
type change struct {
	object  *networkv1alpha1.FloatingIP
	deleted bool
}

// write creates or updates a FloatingIP; ok is false after a conflict.
func (s *server) write(f *networkv1alpha1.FloatingIP) (ok bool) {
	stored := s.objects[f.Name]
	switch {
	case f.ResourceVersion == "" && stored != nil:
		return false // it exists already
	case f.ResourceVersion != "" && (stored == nil || stored.ResourceVersion != f.ResourceVersion):
		return false // not found, or a conflict
	}
	s.version++
	f.ResourceVersion = strconv.Itoa(s.version)
	if stored == nil {
		f.UID = types.UID("object-" + f.ResourceVersion)
	}
	s.objects[f.Name] = f
	s.log = append(s.log, change{object: f})
	return true
}

// remove deletes a FloatingIP of a version; ok is false after a conflict.
func (s *server) remove(f *networkv1alpha1.FloatingIP) (ok bool) {
	stored := s.objects[f.Name]
	if stored == nil || stored.ResourceVersion != f.ResourceVersion {
		return false
	}
	s.version++
	delete(s.objects, f.Name)
	last := f.DeepCopy()
	last.ResourceVersion = strconv.Itoa(s.version) // a deletion has a version of its own
	s.log = append(s.log, change{last, true})
	return true
}

// process is an operator or a scheduler extender: a book that is behind the server.
type process struct {
	*floating.Book
	*server
	read int // how much of the server's log the book has
}

// restart starts again with the objects of the server.
func (p *process) restart() {
	p.Book, p.read = floating.NewBook(), len(p.log)
	for _, f := range p.objects {
		p.Observe(f)
	}
}

// deliver reads n changes of the log.
func (p *process) deliver(n int) {
	for ; n > 0 && p.read < len(p.log); n, p.read = n-1, p.read+1 {
		if c := p.log[p.read]; c.deleted {
			p.Forget(c.object)
		} else {
			p.Observe(c.object)
		}
	}
}

// put writes a FloatingIP, and observes it. After a conflict it reads what the server has.
func (p *process) put(f *networkv1alpha1.FloatingIP) (ok bool) {
	if ok = p.server.write(f); ok {
		p.Observe(f)
	} else if stored := p.objects[f.Name]; stored != nil {
		p.Observe(stored)
	} else {
		p.Forget(f)
	}
	return ok
}
