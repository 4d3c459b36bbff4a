package migrate

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// calicoSelector is a selector of Calico as label selectors.
type calicoSelector struct {
	pods, namespaces metav1.LabelSelector
	// ofNamespaces is whether the selector itself named namespaces.
	ofNamespaces bool
	// global is the selector global(), which selects no pods.
	global bool
}

var (
	termHas     = regexp.MustCompile(`^(!?)\s*has\(\s*([^\s()]+)\s*\)$`)
	termCompare = regexp.MustCompile(`^([^\s!=]+)\s*(==|!=)\s*(?:"([^"]*)"|'([^']*)')$`)
	termIn      = regexp.MustCompile(`^(\S+)\s+(not\s+in|in)\s*\{(.*)\}$`)
	quoted      = regexp.MustCompile(`^(?:"([^"]*)"|'([^']*)')$`)
)

// parseCalico parses a selector of pods. Selectors with "or", and terms that look into values, are errors.
func parseCalico(text string) (s calicoSelector, err error) {
	for _, term := range conjunction(text) {
		if err := s.add(term); err != nil {
			return s, err
		}
	}
	return s, nil
}

// parseCalicoNamespaces parses a selector of namespaces.
func parseCalicoNamespaces(text string) (s metav1.LabelSelector, global bool, err error) {
	parsed, err := parseCalico(text)
	for n := range parsed.pods.MatchExpressions {
		if parsed.pods.MatchExpressions[n].Key == "projectcalico.org/name" {
			parsed.pods.MatchExpressions[n].Key = corev1.LabelMetadataName
		}
	}
	if name, ok := parsed.pods.MatchLabels["projectcalico.org/name"]; ok {
		delete(parsed.pods.MatchLabels, "projectcalico.org/name")
		parsed.pods.MatchLabels[corev1.LabelMetadataName] = name
	}
	return parsed.pods, parsed.global, err
}

// conjunction splits a selector at && outside of parentheses and quotes.
func conjunction(text string) (terms []string) {
	text = bare(text)
	depth, start := 0, 0
	quote := byte(0)
	for n := 0; n < len(text); n++ {
		switch c := text[n]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '(' || c == '{':
			depth++
		case c == ')' || c == '}':
			depth--
		case depth == 0 && strings.HasPrefix(text[n:], "&&"):
			terms = append(terms, conjunction(text[start:n])...)
			start = n + 2
		}
	}
	if start == 0 {
		return []string{text}
	}
	return append(terms, conjunction(text[start:])...)
}

// bare removes space and parentheses around all of a selector.
func bare(text string) string {
	for {
		text = strings.TrimSpace(text)
		if !strings.HasPrefix(text, "(") {
			return text
		}
		depth := 0
		for n, c := range text {
			switch c {
			case '(':
				depth++
			case ')':
				depth--
			}
			if depth == 0 && n < len(text)-1 {
				return text
			}
		}
		text = text[1 : len(text)-1]
	}
}

// add adds a term of a conjunction.
func (s *calicoSelector) add(term string) error {
	switch term {
	case "", "all()":
		return nil
	case "global()":
		s.global = true
		return nil
	}
	if found := termHas.FindStringSubmatch(term); found != nil {
		operator := metav1.LabelSelectorOpExists
		if found[1] == "!" {
			operator = metav1.LabelSelectorOpDoesNotExist
		}
		return s.require(found[2], operator)
	}
	if found := termCompare.FindStringSubmatch(term); found != nil {
		if found[2] == "==" {
			return s.require(found[1], "", found[3]+found[4])
		}
		return s.require(found[1], metav1.LabelSelectorOpNotIn, found[3]+found[4])
	}
	if found := termIn.FindStringSubmatch(term); found != nil {
		operator := metav1.LabelSelectorOpIn
		if found[2] != "in" {
			operator = metav1.LabelSelectorOpNotIn
		}
		var values []string
		for _, value := range strings.Split(found[3], ",") {
			one := quoted.FindStringSubmatch(strings.TrimSpace(value))
			if one == nil {
				return fmt.Errorf("selector %q cannot be read", term)
			}
			values = append(values, one[1]+one[2])
		}
		return s.require(found[1], operator, values...)
	}
	return fmt.Errorf("selector %q has no form as a label selector", term)
}

// require adds a requirement. An empty operator is equality. Labels that Calico adds itself select namespaces.
func (s *calicoSelector) require(key string, operator metav1.LabelSelectorOperator, values ...string) error {
	into := &s.pods
	switch {
	case key == "projectcalico.org/namespace":
		key, into, s.ofNamespaces = corev1.LabelMetadataName, &s.namespaces, true
	case strings.HasPrefix(key, "pcns."):
		key, into, s.ofNamespaces = strings.TrimPrefix(key, "pcns."), &s.namespaces, true
	case key == "projectcalico.org/orchestrator":
		return nil // all pods have it
	case key == "projectcalico.org/serviceaccount" || strings.HasPrefix(key, "pcsa."):
		return fmt.Errorf("label %s is of service accounts, which policies of Kubernetes do not select", key)
	}
	if operator != "" {
		into.MatchExpressions = append(into.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: values})
		return nil
	}
	if have, ok := into.MatchLabels[key]; ok && have != values[0] {
		return fmt.Errorf("label %s cannot be both %s and %s", key, have, values[0])
	}
	metav1.AddLabelToSelector(into, key, values[0])
	return nil
}
