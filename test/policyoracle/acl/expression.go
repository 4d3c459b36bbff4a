package acl

import "slices"

// expression is a match. A negation is pushed down to the comparisons, as in OVN: !(tcp.dst == 80) matches a TCP
// packet to another port.
type expression interface {
	matches(p *Packet) bool
	negated() expression
}

type all []expression

func (a all) matches(p *Packet) bool {
	return !slices.ContainsFunc(a, func(e expression) bool { return !e.matches(p) })
}

func (a all) negated() expression { return some(negatedEach(a)) }

type some []expression

func (s some) matches(p *Packet) bool {
	return slices.ContainsFunc(s, func(e expression) bool { return e.matches(p) })
}

func (s some) negated() expression { return all(negatedEach(s)) }

func negatedEach(list []expression) (negated []expression) {
	for _, e := range list {
		negated = append(negated, e.negated())
	}
	return negated
}

type constant bool

func (c constant) matches(*Packet) bool { return bool(c) }

func (c constant) negated() expression { return !c }

// predicate is a word that is true or false: ip4, tcp, arp. Unlike a comparison it has no prerequisite that survives
// a negation.
type predicate struct {
	holds func(p *Packet) bool
	not   bool
}

func (q predicate) matches(p *Packet) bool { return q.holds(p) != q.not }

func (q predicate) negated() expression { return predicate{q.holds, !q.not} }

// comparison compares a field with a value or a set of values. It never matches a packet without the field.
type comparison struct {
	field  field
	op     string
	values []value
}

func (c comparison) matches(p *Packet) bool {
	if !c.field.has(p) {
		return false
	}
	if c.op == "!=" { // with a set: equal to none of them
		return !slices.ContainsFunc(c.values, func(v value) bool { return c.field.compare(p, "==", v) })
	}
	return slices.ContainsFunc(c.values, func(v value) bool { return c.field.compare(p, c.op, v) })
}

var opposite = map[string]string{"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}

func (c comparison) negated() expression { return comparison{c.field, opposite[c.op], c.values} }
