package trace

import (
	"fmt"
	"regexp"
	"strings"
)

// Trace is the parsed output of ovn-trace.
type Trace struct {
	// Steps are the flows that the packet matched, in order. Packets that OVN makes itself, such as ARP requests, are
	// left out.
	Steps []Step
	// Outputs are the ports at which the packet leaves OVN.
	Outputs []Output
	// Refusal is what OVN answers instead of delivering the packet: "tcp_reset", "icmp4". It is empty for other
	// packets.
	Refusal string
	// Unresolved means that the MAC of a next hop is not known, so OVN resolves it first.
	Unresolved bool
}

// Step is a logical flow that the packet matched.
type Step struct {
	// Datapath is the name of the switch or router. Inport and Outport are empty where OVN does not know them yet.
	Datapath, Inport, Outport string
	// Stage is northd's name of the table: "ls_out_acl_eval".
	Stage    string
	Priority string
	Match    string
	// Flow is the start of the flow's UUID.
	Flow    string
	Actions []string
	// Translated is the address that the flow's translation gave: "172.18.0.11". Source means that it is the packet's source.
	Translated string
	Source     bool
}

// Output is a port at which a packet leaves OVN. Type is that of the port binding, empty for an interface.
type Output struct{ Port, Type string }

var (
	section     = regexp.MustCompile(`^(ingress|egress|multicast)\((.*)\)$`)
	attribute   = regexp.MustCompile(`(\w+)="([^"]*)"`)
	flowLine    = regexp.MustCompile(`^\d+\. (\w+)(?: \([^)]*\))?: (.*), priority (\d+)(?:, uuid ([0-9a-f]{8}))?$`)
	outputLine  = regexp.MustCompile(`^/\* output to "([^"]*)", type "([^"]*)" \*/$`)
	translation = regexp.MustCompile(`^ct_([sd]nat)\w*\(ip[46]\.(?:src|dst)=([^)]+)\)`)
)

// asides are blocks about packets that OVN makes besides the traced packet.
var asides = map[string]bool{"arp": true, "nd_ns": true, "nd_na": true, "nd_na_router": true, "clone": true}

// refusals are blocks about the packet with which OVN refuses the traced packet.
var refusals = map[string]bool{"tcp_reset": true, "sctp_abort": true, "icmp4": true, "icmp6": true,
	"icmp4_error": true, "icmp6_error": true}

// passing are the types of ports that lead to another datapath.
var passing = map[string]bool{"patch": true, "l3gateway": true, "chassisredirect": true}

// parser keeps where in the output it is.
type parser struct {
	trace Trace
	at    Step // datapath and ports of the section
	aside int  // indentation of the block that is skipped, or -1
}

// Parse reads the detailed output of ovn-trace. Text without any flow is an error.
func Parse(text string) (Trace, error) {
	p := parser{aside: -1}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		words := strings.TrimSpace(line)
		if words == "" || isRule(words) || strings.HasPrefix(words, "#") {
			continue
		}
		indent := len(line) - len(strings.TrimLeft(line, " "))
		if p.aside >= 0 && indent > p.aside {
			continue
		}
		p.aside = -1
		if i+1 < len(lines) && isRule(strings.TrimSpace(lines[i+1])) {
			if p.block(words, indent); p.trace.Refusal != "" {
				break // the rest is about the refusal
			}
			continue
		}
		p.line(words)
	}
	if len(p.trace.Steps) == 0 {
		return p.trace, fmt.Errorf("ovn-trace printed no flow: %.200q", text)
	}
	return p.trace, nil
}

func isRule(words string) bool { return len(words) > 2 && strings.Trim(words, "-") == "" }

// block reads the header of a section or of an action with a block of its own.
func (p *parser) block(header string, indent int) {
	if found := section.FindStringSubmatch(header); found != nil {
		p.at = Step{}
		for _, a := range attribute.FindAllStringSubmatch(found[2], -1) {
			switch a[1] {
			case "dp":
				p.at.Datapath = a[2]
			case "inport":
				p.at.Inport = a[2]
			case "outport":
				p.at.Outport = a[2]
			}
		}
		return
	}
	name, _, _ := strings.Cut(header, " ")
	if found := translation.FindStringSubmatch(header); found != nil && len(p.trace.Steps) > 0 {
		last := &p.trace.Steps[len(p.trace.Steps)-1]
		last.Source, last.Translated = found[1] == "snat", found[2]
	}
	switch {
	case asides[name]:
		p.aside = indent
	case refusals[name]:
		p.trace.Refusal = name
	}
}

// line reads a flow, an action or a comment.
func (p *parser) line(words string) {
	if found := flowLine.FindStringSubmatch(words); found != nil {
		step := p.at
		step.Stage, step.Match, step.Priority, step.Flow = found[1], found[2], found[3], found[4]
		p.trace.Steps = append(p.trace.Steps, step)
		return
	}
	if found := outputLine.FindStringSubmatch(words); found != nil {
		if !passing[found[2]] {
			p.trace.Outputs = append(p.trace.Outputs, Output{found[1], found[2]})
		}
		return
	}
	if words == "/* No MAC binding. */" {
		p.trace.Unresolved = true
		return
	}
	if len(p.trace.Steps) > 0 {
		last := &p.trace.Steps[len(p.trace.Steps)-1]
		last.Actions = append(last.Actions, words)
	}
}

// has reports whether a step has an action.
func (s Step) has(action string) bool {
	for _, a := range s.Actions {
		if a == action {
			return true
		}
	}
	return false
}

// Seen returns the source and the destination that the last translations gave. They are empty without translation.
func (t Trace) Seen() (source, destination string) {
	for _, s := range t.Steps {
		switch {
		case s.Translated == "":
		case s.Source:
			source = s.Translated
		default:
			destination = s.Translated
		}
	}
	return source, destination
}

// Reaches reports whether the packet leaves OVN at one of the ports.
func (t Trace) Reaches(ports ...string) bool {
	for _, o := range t.Outputs {
		for _, port := range ports {
			if o.Port == port {
				return true
			}
		}
	}
	return false
}
