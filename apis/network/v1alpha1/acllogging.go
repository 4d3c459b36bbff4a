package v1alpha1

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// ACLLoggingAnnotation enables the logging and counting of policy decisions: `{"deny": "warning", "allow": "info",
// "rate": 20}`. On a namespace it applies to the namespace's NetworkPolicies and EgressFirewall. On one of these
// objects, or on a cluster-wide policy, it applies to that object only and replaces the namespace's value.
const ACLLoggingAnnotation = GroupName + "/acl-logging"

// ACLLogging is the value of ACLLoggingAnnotation. The zero value logs nothing.
type ACLLogging struct {
	// Allow and Deny are the severities of the log messages for allowed and denied packets: alert, warning, notice,
	// info or debug. Empty disables logging.
	Allow string `json:"allow,omitempty"`
	Deny  string `json:"deny,omitempty"`
	// Rate is the maximum number of packets that each node logs per rule and second, 1 to 10,000; 0 means 20. All
	// packets are counted.
	Rate int `json:"rate,omitempty"`
}

const (
	defaultACLRate = 20
	maxACLRate     = 10_000
)

// ACLSeverities are OVN's severities.
var ACLSeverities = []string{"alert", "warning", "notice", "info", "debug"}

// ParseACLLogging parses the value of ACLLoggingAnnotation. Its errors name the annotation.
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
			return ACLLogging{}, fmt.Errorf("annotation %s: %s: %q is not one of %s",
				ACLLoggingAnnotation, field, severity, strings.Join(ACLSeverities, ", "))
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
