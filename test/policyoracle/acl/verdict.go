package acl

import (
	"fmt"

	"github.com/weft-network/weft/pkg/ovn/nbdb"
)

// Way is the path of a connection. An empty port means the far side of the other port's router.
type Way struct {
	From, To string // logical ports
	Packet
}

// Verdict is the decision about a connection.
type Verdict struct {
	Allowed bool
	// Why is the rule that denied it, or the last rule that allowed it; empty if no rule matched.
	Why string
}

// Decide follows a packet of a connection through the switches on its path.
func (db *Database) Decide(w Way) (Verdict, error) {
	verdict := Verdict{Allowed: true}
	for _, hop := range db.hops(w) {
		if hop.on == nil {
			return Verdict{}, fmt.Errorf("%s or %s is on no switch", w.From, w.To)
		}
		packet := w.Packet
		packet.inport, packet.outport = hop.in, hop.out
		for _, s := range stages {
			decided, err := hop.on.decide(s, &packet)
			if err != nil {
				return Verdict{}, err
			}
			if decided == nil {
				continue
			}
			verdict.Why = decided.String()
			if action := decided.row.Action; action == nbdb.ACLActionDrop || action == nbdb.ACLActionReject {
				verdict.Allowed = false
				return verdict, nil
			}
		}
	}
	return verdict, nil
}

type hop struct {
	on      *logicalSwitch
	in, out string
}

func (db *Database) hops(w Way) []hop {
	from, to := db.on[w.From], db.on[w.To]
	switch {
	case w.From == "":
		return []hop{db.arriving(w.To)}
	case w.To == "":
		return []hop{db.leaving(w.From)}
	case from != nil && from == to:
		return []hop{{from, w.From, w.To}}
	}
	return []hop{db.leaving(w.From), db.arriving(w.To)}
}

func (db *Database) leaving(port string) hop {
	if s := db.on[port]; s != nil {
		return hop{s, port, s.router}
	}
	return hop{}
}

func (db *Database) arriving(port string) hop {
	if s := db.on[port]; s != nil {
		return hop{s, s.router, port}
	}
	return hop{}
}

type stage struct {
	direction string
	afterLB   bool
}

// stages are in the order of a switch's pipelines. Only the last stage has the packet's output port.
var stages = []stage{{nbdb.ACLDirectionFromLport, false}, {nbdb.ACLDirectionFromLport, true}, {nbdb.ACLDirectionToLport, false}}

func (s stage) has(acl *nbdb.ACL) bool {
	return acl.Direction == s.direction && (s.direction == nbdb.ACLDirectionToLport ||
		(acl.Options["apply-after-lb"] == "true") == s.afterLB)
}

// decide returns the rule that decides in a stage; nil if none matches.
func (s *logicalSwitch) decide(in stage, p *Packet) (*rule, error) {
	if in.direction == nbdb.ACLDirectionFromLport {
		ingress := *p
		ingress.outport = ""
		p = &ingress
	}
	tier, passed := -1, false
	for i, r := range s.acls {
		if passed && r.row.Tier == tier || !in.has(r.row) || !r.match.matches(p) {
			continue
		}
		if p.Blocked && !in.afterLB && r.row.Tier > tier+1 {
			return nil, nil // no rule matched in the tier before, where OVN allows the connection again
		}
		if err := s.contradicts(in, i, p); err != nil {
			return nil, err
		}
		if tier, passed = r.row.Tier, r.row.Action == nbdb.ACLActionPass; !passed {
			return r, nil
		}
	}
	return nil, nil
}

// contradicts returns an error if another matching rule of the same rank decides differently, because OVN would
// choose either.
func (s *logicalSwitch) contradicts(in stage, i int, p *Packet) error {
	first := s.acls[i]
	for _, other := range s.acls[i+1:] {
		if other.row.Tier != first.row.Tier || other.row.Priority != first.row.Priority {
			return nil
		}
		if in.has(other.row) && verdictOf(other.row) != verdictOf(first.row) && other.match.matches(p) {
			return fmt.Errorf("two rules of one rank disagree: %v, and %v", first, other)
		}
	}
	return nil
}

func verdictOf(acl *nbdb.ACL) string {
	if acl.Action == nbdb.ACLActionAllowRelated || acl.Action == nbdb.ACLActionAllowStateless {
		return nbdb.ACLActionAllow
	}
	return acl.Action
}
