package v1alpha1

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// ACLLoggingAnnotation has what a policy decides logged and counted: `{"deny": "warning", "allow": "info", "rate": 20}`. On a namespace it is about
// its NetworkPolicies and its EgressFirewall; on one of these, or on a policy of the cluster, about that alone, instead of what the namespace says.
const ACLLoggingAnnotation = GroupName + "/acl-logging"

// ACLLogging is the value of ACLLoggingAnnotation. The zero value logs nothing.
type ACLLogging struct {
	// Allow and Deny are the severities with which what a rule allows, or drops, is logged: alert, warning, notice, info or debug; empty: it is not.
	Allow string `json:"allow,omitempty"`
	Deny  string `json:"deny,omitempty"`
	// Rate is how many packets of one rule each node logs in a second at most, 1 to 10,000; 0 is 20. All are counted.
	Rate int `json:"rate,omitempty"`
}

const (
	defaultACLRate = 20
	maxACLRate     = 10_000
)

// ACLSeverities are those that OVN knows.
var ACLSeverities = []string{"alert", "warning", "notice", "info", "debug"}

// ParseACLLogging reads the value of ACLLoggingAnnotation.
func ParseACLLogging(text string) (ACLLogging, error) {
	var logging ACLLogging
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&logging); err != nil {
		return ACLLogging{}, fmt.Errorf("annotation %s: %w", ACLLoggingAnnotation, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return ACLLogging{}, fmt.Errorf("annotation %s: more than one value", ACLLoggingAnnotation)
	}
	for field, severity := range map[string]string{"allow": logging.Allow, "deny": logging.Deny} {
		if severity != "" && !slices.Contains(ACLSeverities, severity) {
			return ACLLogging{}, fmt.Errorf("annotation %s: %s: %q is none of %s", ACLLoggingAnnotation, field, severity, strings.Join(ACLSeverities, ", "))
		}
	}
	switch {
	case logging.Rate == 0:
		logging.Rate = defaultACLRate
	case logging.Rate < 0 || logging.Rate > maxACLRate:
		return ACLLogging{}, fmt.Errorf("annotation %s: rate: %d is not in 1..%d", ACLLoggingAnnotation, logging.Rate, maxACLRate)
	}
	return logging, nil
}
