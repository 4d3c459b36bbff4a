package serviceoracle

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// packet is the first packet of a connection.
type packet struct {
	iif, proto string // proto is "tcp", "udp" or "sctp"
	src, dst   netip.Addr
	original   netip.Addr // dst before all translations
	port       uint16
	translated bool
	affinity   int // seconds for which the client keeps its backend; 0: not at all
}

// The verdicts of rules. next is what a packet has that no rule decided.
const (
	next   = ""
	accept = "accept"
	drop   = "drop"
	reject = "reject"
)

// outcome is one of the things that may happen to a packet.
type outcome struct {
	packet
	verdict string
}

// ruleset evaluates a table of nftables, as nft lists it in JSON. It supports the expressions that kube-proxy and Weft use, and
// panics at others. A random choice has an outcome for each possibility.
type ruleset struct {
	chains map[string]*chain
	hooks  map[string][]*chain // by priority
	sets   map[string]*elements
	local  func(netip.Addr) bool // reports whether an address is the host's
}

type chain struct {
	Name, Hook string
	Prio       int
	exprs      [][]any
	rules      [][]statement // compiled from exprs at the first use
}

// statement is a part of a rule: a condition if matches is set, or else something that decides or changes the packet.
type statement struct {
	matches func(*packet) bool
	// perhaps means that chance decides whether it matches.
	perhaps bool
	does    func(packet) (on []packet, done []outcome)
}

// listRules reads a table of the kernel.
func listRules(local func(netip.Addr) bool, family, table string) (*ruleset, error) {
	text, err := exec.Command("nft", "-j", "list", "table", family, table).Output()
	if err != nil {
		return nil, fmt.Errorf("list table %s %s: %w", family, table, err)
	}
	var listed struct {
		Nftables []struct {
			Chain *chain
			Rule  *struct {
				Chain string
				Expr  []any
			}
			Set, Map *struct {
				Name    string
				Elem    []any
				Timeout int
			}
		}
	}
	if err := json.Unmarshal(text, &listed); err != nil {
		return nil, fmt.Errorf("table %s %s: %w", family, table, err)
	}
	r := &ruleset{chains: map[string]*chain{}, hooks: map[string][]*chain{}, sets: map[string]*elements{}, local: local}
	for _, object := range listed.Nftables {
		if c := object.Chain; c != nil {
			r.chains[c.Name] = c
			r.hooks[c.Hook] = append(r.hooks[c.Hook], c)
		}
		if rule := object.Rule; rule != nil {
			r.chains[rule.Chain].exprs = append(r.chains[rule.Chain].exprs, rule.Expr)
		}
		for _, set := range []*struct {
			Name    string
			Elem    []any
			Timeout int
		}{object.Set, object.Map} {
			if set != nil {
				r.sets[set.Name] = newElements(set.Elem)
				r.sets[set.Name].timeout = set.Timeout
			}
		}
	}
	for _, chains := range r.hooks {
		slices.SortStableFunc(chains, func(a, b *chain) int { return cmp.Compare(a.Prio, b.Prio) })
	}
	return r, nil
}

// at returns what the chains of a hook make of packets that were not dropped before. skip is the priority of chains that are left out.
func (r *ruleset) at(hook string, skip int, before []outcome) []outcome {
	for _, c := range r.hooks[hook] {
		if c.Prio == skip {
			continue
		}
		var after []outcome
		for _, o := range before {
			if o.verdict == drop || o.verdict == reject {
				after = append(after, o)
			} else {
				after = append(after, r.run(c, o.packet)...)
			}
		}
		before = after
	}
	return before
}

func (r *ruleset) run(c *chain, p packet) (done []outcome) {
	if c.rules == nil {
		for _, exprs := range c.exprs {
			c.rules = append(c.rules, r.compile(exprs))
		}
	}
	live := []packet{p}
	for _, rule := range c.rules {
		if len(live) == 1 && len(rule) > 0 && rule[0].matches != nil && !rule[0].matches(&live[0]) {
			continue
		}
		var on []packet
		for _, p := range live {
			stay, decided := apply(rule, p)
			on, done = append(on, stay...), append(done, decided...)
		}
		if live = on; len(live) == 0 {
			break
		}
	}
	for _, p := range live {
		done = append(done, outcome{p, next})
	}
	return done
}

// apply returns the packets that the next rule gets, and the decided ones.
func apply(rule []statement, p packet) (on []packet, done []outcome) {
	live := []packet{p}
	for _, s := range rule {
		var still []packet
		for _, p := range live {
			if s.perhaps {
				still, on = append(still, p), append(on, p)
				continue
			}
			if s.matches != nil {
				if s.matches(&p) {
					still = append(still, p)
				} else {
					on = append(on, p)
				}
				continue
			}
			stay, decided := s.does(p)
			if stay == nil && decided == nil { // a map without the key
				on = append(on, p)
			}
			still, done = append(still, stay...), append(done, decided...)
		}
		live = still
	}
	return append(on, live...), done
}

func (r *ruleset) compile(exprs []any) (rule []statement) {
	for _, e := range exprs {
		for kind, body := range e.(map[string]any) {
			switch kind {
			case "match":
				if left, ok := body.(map[string]any)["left"].(map[string]any); ok && left["numgen"] != nil {
					rule = append(rule, statement{perhaps: true})
					continue
				}
				rule = append(rule, statement{matches: r.match(body.(map[string]any))})
			case "vmap":
				rule = append(rule, statement{does: r.verdictMap(body.(map[string]any))})
			case "dnat":
				rule = append(rule, statement{does: r.dnat(body.(map[string]any))})
			case "set": // remembers the client's backend
				seconds := r.sets[strings.TrimPrefix(body.(map[string]any)["set"].(string), "@")].timeout
				rule = append(rule, statement{does: func(p packet) ([]packet, []outcome) {
					p.affinity = seconds
					return []packet{p}, nil
				}})
			case "counter", "mangle", "comment":
			default:
				verdict := map[string]any{kind: body}
				rule = append(rule, statement{does: func(p packet) ([]packet, []outcome) { return r.decide(verdict, p) }})
			}
		}
	}
	return rule
}

// decide applies a verdict.
func (r *ruleset) decide(verdict map[string]any, p packet) (on []packet, done []outcome) {
	for kind, body := range verdict {
		switch kind {
		case accept, drop, reject:
			return nil, []outcome{{p, kind}}
		case "return":
			return nil, []outcome{{p, next}}
		case "goto":
			return nil, r.run(r.chains[body.(map[string]any)["target"].(string)], p)
		case "jump":
			for _, o := range r.run(r.chains[body.(map[string]any)["target"].(string)], p) {
				if o.verdict == next {
					on = append(on, o.packet)
				} else {
					done = append(done, o)
				}
			}
			return on, done
		}
		panic(fmt.Sprintf("nftables: %s %v is unknown", kind, body))
	}
	return nil, nil
}

func (r *ruleset) match(body map[string]any) func(*packet) bool {
	left, op := r.value(body["left"]), body["op"].(string)
	var right *elements
	if text, ok := body["right"].(string); ok && strings.HasPrefix(text, "@") {
		right = r.sets[text[1:]]
	} else if set, ok := body["right"].(map[string]any); ok && set["set"] != nil {
		right = newElements(set["set"].([]any))
	} else if list, ok := body["right"].([]any); ok {
		right = newElements(list)
	} else {
		right = newElements([]any{body["right"]})
	}
	if right == nil {
		panic(fmt.Sprintf("nftables: %v is unknown", body["right"]))
	}
	return func(p *packet) bool {
		values := left(p)
		if values == nil {
			return false
		}
		_, in := right.find(values[0])
		return in == (op != "!=")
	}
}

func (r *ruleset) verdictMap(body map[string]any) func(packet) ([]packet, []outcome) {
	key, data := r.value(body["key"]), r.elements(body["data"])
	return func(p packet) (on []packet, done []outcome) {
		for _, k := range key(&p) {
			if verdict, ok := data.find(k); ok {
				stay, decided := r.decide(verdict.(map[string]any), p)
				on, done = append(on, stay...), append(done, decided...)
			}
		}
		return on, done
	}
}

func (r *ruleset) elements(data any) *elements {
	if name, ok := data.(string); ok {
		return r.sets[strings.TrimPrefix(name, "@")]
	}
	return newElements(data.(map[string]any)["set"].([]any))
}

func (r *ruleset) dnat(body map[string]any) func(packet) ([]packet, []outcome) {
	target := r.value(body["addr"])
	port := ""
	if body["port"] != nil {
		port = " . " + scalar(body["port"])
	}
	family, _ := body["family"].(string)
	return func(p packet) (on []packet, done []outcome) {
		if family != "" && (family == "ip6") != p.dst.Is6() {
			return nil, nil
		}
		for _, text := range target(&p) {
			to := p
			address, number, _ := strings.Cut(text+port, " . ")
			to.dst, to.translated = netip.MustParseAddr(address), true
			if n, err := strconv.ParseUint(number, 10, 16); err == nil {
				to.port = uint16(n)
			}
			done = append(done, outcome{to, accept})
		}
		return nil, done
	}
}

// value compiles an expression to a function that returns its possible values, or nil if the packet does not have it.
func (r *ruleset) value(e any) func(*packet) []string {
	body, ok := e.(map[string]any)
	if !ok {
		text := scalar(e)
		return func(*packet) []string { return []string{text} }
	}
	for kind, inner := range body {
		switch kind {
		case "payload":
			return payload(inner.(map[string]any))
		case "meta":
			return meta(inner.(map[string]any)["key"].(string))
		case "ct":
			key := inner.(map[string]any)["key"].(string)
			if protocol, ok := strings.CutSuffix(key, " daddr"); ok { // of the direction "original"
				return func(p *packet) []string { return ofFamily(p.original, protocol == "ip") }
			}
			return tracked(key)
		case "fib":
			return r.fib(inner.(map[string]any))
		case "numgen": // of kube-proxy's maps
			var numbers []string
			for i := range int(inner.(map[string]any)["mod"].(float64)) {
				numbers = append(numbers, strconv.Itoa(i))
			}
			return func(*packet) []string { return numbers }
		case "concat":
			return r.concat(inner.([]any))
		case "map":
			key, data := r.value(inner.(map[string]any)["key"]), r.elements(inner.(map[string]any)["data"])
			return func(p *packet) (values []string) {
				for _, k := range key(p) {
					if v, ok := data.find(k); ok {
						values = append(values, scalar(v))
					}
				}
				return values
			}
		}
	}
	panic(fmt.Sprintf("nftables: %v is unknown", e))
}

func payload(body map[string]any) func(*packet) []string {
	is4 := body["protocol"] == "ip"
	switch body["field"] {
	case "saddr":
		return func(p *packet) []string { return ofFamily(p.src, is4) }
	case "daddr":
		return func(p *packet) []string { return ofFamily(p.dst, is4) }
	case "dport":
		protocol := body["protocol"].(string)
		return func(p *packet) []string {
			if protocol != "th" && protocol != p.proto {
				return nil
			}
			return []string{strconv.Itoa(int(p.port))}
		}
	case "type": // of ICMP
		return func(*packet) []string { return nil }
	}
	panic(fmt.Sprintf("nftables: %v is unknown", body))
}

// ofFamily returns the text of an address of a family.
func ofFamily(a netip.Addr, is4 bool) []string {
	if a.Is4() == is4 {
		return []string{a.String()}
	}
	return nil
}

func meta(key string) func(*packet) []string {
	switch key {
	case "l4proto":
		return func(p *packet) []string { return []string{p.proto} }
	case "iifname":
		return func(p *packet) []string { return []string{p.iif} }
	case "oifname":
		return func(p *packet) []string {
			if intoOVN(p.dst) {
				return []string{"ovn-k8s-mp0"}
			}
			return []string{"eth0"}
		}
	case "nfproto":
		return func(p *packet) []string {
			if p.dst.Is4() {
				return []string{"ipv4"}
			}
			return []string{"ipv6"}
		}
	}
	panic("nftables: meta " + key + " is unknown")
}

func tracked(key string) func(*packet) []string {
	switch key {
	case "state":
		return func(*packet) []string { return []string{"new"} }
	case "status":
		return func(p *packet) []string {
			if p.translated {
				return []string{"dnat"}
			}
			return []string{""}
		}
	}
	panic("nftables: ct " + key + " is unknown")
}

func (r *ruleset) fib(body map[string]any) func(*packet) []string {
	isSource := slices.Contains(body["flags"].([]any), any("saddr"))
	return func(p *packet) []string {
		address := p.dst
		if isSource {
			address = p.src
		}
		if r.local(address) {
			return []string{"local"}
		}
		return []string{"unicast"}
	}
}

func (r *ruleset) concat(parts []any) func(*packet) []string {
	var values []func(*packet) []string
	for _, part := range parts {
		values = append(values, r.value(part))
	}
	return func(p *packet) []string {
		texts := make([]string, 0, len(values))
		for _, value := range values {
			found := value(p)
			if found == nil {
				return nil
			}
			texts = append(texts, found[0])
		}
		return []string{strings.Join(texts, " . ")}
	}
}

// elements are the elements of a set or map.
type elements struct {
	exact   map[string]any
	ranges  []rangeElement
	timeout int // seconds
}

// rangeElement is an element with an interval in one of its parts.
type rangeElement struct {
	parts []any
	value any
}

func newElements(list []any) *elements {
	e := &elements{exact: map[string]any{}}
	for _, one := range list {
		var value any
		if pair, ok := one.([]any); ok {
			one, value = pair[0], pair[1]
		}
		if body, ok := one.(map[string]any); ok && body["elem"] != nil {
			one = body["elem"].(map[string]any)["val"]
		}
		parts := []any{one}
		if body, ok := one.(map[string]any); ok && body["concat"] != nil {
			parts = body["concat"].([]any)
		}
		if slices.ContainsFunc(parts, func(p any) bool { _, ok := p.(map[string]any); return ok }) {
			e.ranges = append(e.ranges, rangeElement{parts, value})
		} else {
			e.exact[scalar(one)] = value
		}
	}
	return e
}

func (e *elements) find(key string) (value any, ok bool) {
	if value, ok = e.exact[key]; ok || len(e.ranges) == 0 {
		return value, ok
	}
	texts := strings.Split(key, " . ")
	for _, element := range e.ranges {
		matches := len(texts) == len(element.parts)
		for i := 0; matches && i < len(texts); i++ {
			matches = inPart(element.parts[i], texts[i])
		}
		if matches {
			return element.value, true
		}
	}
	return nil, false
}

// inPart reports whether a value is in a part of an element: a prefix, a range or a scalar.
func inPart(part any, text string) bool {
	body, ok := part.(map[string]any)
	if !ok {
		return scalar(part) == text
	}
	address, err := netip.ParseAddr(text)
	if prefix, ok := body["prefix"].(map[string]any); ok && err == nil {
		network := netip.PrefixFrom(netip.MustParseAddr(prefix["addr"].(string)), int(prefix["len"].(float64)))
		return network.Contains(address)
	}
	if ends, ok := body["range"].([]any); ok && err == nil {
		first, last := netip.MustParseAddr(ends[0].(string)), netip.MustParseAddr(ends[1].(string))
		return first.Compare(address) <= 0 && address.Compare(last) <= 0
	}
	panic(fmt.Sprintf("nftables: %v is unknown", part))
}

// scalar is a value's text: "192.0.2.1 . tcp . 80".
func scalar(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		return strconv.Itoa(int(v))
	case map[string]any:
		if parts, ok := v["concat"].([]any); ok {
			texts := make([]string, 0, len(parts))
			for _, part := range parts {
				texts = append(texts, scalar(part))
			}
			return strings.Join(texts, " . ")
		}
	}
	panic(fmt.Sprintf("nftables: %v is unknown", v))
}
