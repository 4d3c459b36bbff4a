package acl

import (
	"fmt"

	"github.com/weft-network/weft/pkg/nbdb"
)

// Way is where a connection goes. A port that is empty is what lies behind the other's router.
type Way struct {
	From, To string // logical ports
	Packet
}

// Verdict is what becomes of a connection.
type Verdict struct {
	Allowed bool
	// Why is the rule that denied it, or the last one that allowed it; empty: no rule was about it.
	Why string
}

// Decide follows the first packet of a connection through the switches on its way.
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

// stages are in the order of a switch's pipelines. A packet's output port is known in the last one only.
var stages = []stage{{nbdb.ACLDirectionFromLport, false}, {nbdb.ACLDirectionFromLport, true}, {nbdb.ACLDirectionToLport, false}}

func (s stage) has(acl *nbdb.ACL) bool {
	return acl.Direction == s.direction && (s.direction == nbdb.ACLDirectionToLport || (acl.Options["apply-after-lb"] == "true") == s.afterLB)
}

// decide finds the rule that has the last word in a stage; nil: none has.
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
		if err := s.contradicts(in, i, p); err != nil {
			return nil, err
		}
		if tier, passed = r.row.Tier, r.row.Action == nbdb.ACLActionPass; !passed {
			return r, nil
		}
	}
	return nil, nil
}

// contradicts looks for a rule of the same rank that matches too, and says otherwise: OVN would take either.
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
