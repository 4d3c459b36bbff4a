package names

import "strings"

// RuleMeter is the name of the meter that counts the decisions of a rule of a unit and limits its log:
// "networkpolicy/demo/web drop ingress isolation".
func RuleMeter(owner, verdict, rule string) string { return owner + " " + verdict + " " + rule }

// ParseRuleMeter parses the name of such a meter. ok is false for other names.
func ParseRuleMeter(name string) (owner, verdict, rule string, ok bool) {
	owner, rest, _ := strings.Cut(name, " ")
	verdict, rule, ok = strings.Cut(rest, " ")
	return owner, verdict, rule, ok && strings.Contains(owner, "/") && rule != ""
}
