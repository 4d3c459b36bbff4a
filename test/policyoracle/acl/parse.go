package acl

import (
	"fmt"
	"slices"
)

// parse parses a match, and lists the port groups that it names.
func parse(text string, db *Database) (e expression, groups []string, err error) {
	list, err := tokens(text)
	if err != nil {
		return nil, nil, err
	}
	for _, t := range list {
		if t.kind == group {
			groups = append(groups, t.text)
		}
	}
	p := &parser{rest: list, db: db}
	e, err = p.expression()
	if err == nil && p.peek().kind != end {
		err = fmt.Errorf("unexpected %v after the match", p.peek())
	}
	return e, groups, err
}

type parser struct {
	rest []token
	db   *Database
}

func (p *parser) peek() token {
	if len(p.rest) == 0 {
		return token{}
	}
	return p.rest[0]
}

func (p *parser) take() token {
	t := p.peek()
	p.rest = p.rest[min(1, len(p.rest)):]
	return t
}

// is consumes the next token if it is this operator.
func (p *parser) is(text string) bool {
	found := p.peek() == token{operator, text}
	if found {
		p.take()
	}
	return found
}

// expression parses terms joined by && or ||. OVN refuses to mix both without parentheses.
func (p *parser) expression() (expression, error) {
	first, err := p.term()
	if err != nil {
		return nil, err
	}
	list, between := []expression{first}, p.peek().text
	if between != "&&" && between != "||" || p.peek().kind != operator {
		return first, nil
	}
	for p.is(between) {
		e, err := p.term()
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	if t := p.peek(); t.kind == operator && (t.text == "&&" || t.text == "||") {
		return nil, fmt.Errorf("&& and || without parentheses")
	}
	if between == "&&" {
		return all(list), nil
	}
	return some(list), nil
}

func (p *parser) term() (expression, error) {
	switch {
	case p.is("("):
		e, err := p.expression()
		if err == nil && !p.is(")") {
			err = fmt.Errorf("%v, want )", p.peek())
		}
		return e, err
	case p.is("!"):
		e, err := p.term()
		if err != nil {
			return nil, err
		}
		return e.negated(), nil
	}
	return p.comparison()
}

var swapped = map[string]string{"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

// comparison parses `field`, `field op values`, `value op field` and `value op field op value`.
func (p *parser) comparison() (expression, error) {
	t := p.take()
	if t.kind == word {
		if f, ok := fieldOf(t.text); ok {
			return p.compared(f)
		}
		if holds, ok := predicates[t.text]; ok {
			return predicate{holds: holds}, nil
		}
	}
	op := p.peek()
	if (t.text == "0" || t.text == "1") && swapped[op.text] == "" {
		return constant(t.text == "1"), nil
	}
	if op.kind != operator || swapped[op.text] == "" {
		return nil, fmt.Errorf("%v is an unknown field", t)
	}
	p.take()
	name := p.take()
	f, ok := fieldOf(name.text)
	if !ok || name.kind != word {
		return nil, fmt.Errorf("%v is an unknown field", name)
	}
	v, err := f.valueOf(t, p.db)
	if err != nil {
		return nil, err
	}
	lower, err := ordered(comparison{f, swapped[op.text], []value{v}})
	if err != nil || p.peek().kind != operator || swapped[p.peek().text] == "" {
		return lower, err
	}
	if p.peek().text[0] != op.text[0] {
		return nil, fmt.Errorf("%v and %v do not make a range", op, p.peek())
	}
	upper, err := p.compared(f)
	return all{lower, upper}, err
}

// compared parses the part after a field.
func (p *parser) compared(f field) (expression, error) {
	op := p.take()
	if op.kind != operator || opposite[op.text] == "" {
		return nil, fmt.Errorf("%v, want a comparison", op)
	}
	c := comparison{field: f, op: op.text}
	if !p.is("{") {
		v, err := f.valueOf(p.take(), p.db)
		if err != nil {
			return nil, err
		}
		c.values = []value{v}
		return ordered(c)
	}
	for !p.is("}") {
		v, err := f.valueOf(p.take(), p.db)
		if err != nil {
			return nil, err
		}
		c.values = append(c.values, v)
		p.is(",")
	}
	return ordered(c)
}

// ordered refuses an order comparison of values without an order.
func ordered(c comparison) (expression, error) {
	if !slices.Contains([]string{"==", "!="}, c.op) && (c.field.class != number || len(c.values) != 1) {
		return nil, fmt.Errorf("%s is for numbers", c.op)
	}
	return c, nil
}
