package egressfirewall

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovndb"
)

// namedProblems bounds the problems that a message lists.
const namedProblems = 10

// conditionsOf are the conditions of a firewall while they are computed.
type conditionsOf struct {
	*networkv1alpha1.EgressFirewall
}

func (c conditionsOf) set(kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason,
		Message: message, ObservedGeneration: c.Generation})
}

// ready sets the condition that reports whether the rules are in force.
func (c conditionsOf) ready(invalid, applied error) {
	var refused *ovndb.RejectedError
	switch {
	case errors.As(applied, &refused):
		c.set(networkv1alpha1.ConditionReady, metav1.ConditionFalse, networkv1alpha1.ReasonDatabaseRefused, refused.Err.Error())
	case applied != nil: // this process ends; the next one sets the condition
	case invalid != nil:
		c.set(networkv1alpha1.ConditionReady, metav1.ConditionFalse, networkv1alpha1.ReasonInvalidSpec,
			fmt.Sprintf("everything outside the cluster is denied: %s", list(strings.Split(invalid.Error(), "\n"))))
	default:
		c.set(networkv1alpha1.ConditionReady, metav1.ConditionTrue, networkv1alpha1.ReasonAsExpected,
			fmt.Sprintf("rules in force: %d", len(c.Spec.Egress)))
	}
}

// resolved sets the condition that names invalid DNS names and names without an address. Until all names were
// resolved once, the condition stays. Rules that are not in force have no names.
func (c conditionsOf) resolved(names Names, inForce bool) {
	var problems, invalid, unused []string
	named, waiting := 0, 0
	for i, rule := range c.Spec.Egress {
		if rule.To.DNSName == "" || !inForce {
			continue
		}
		named++
		if err := facts.CheckDNSName(rule.To.DNSName); err != nil {
			invalid = append(invalid, fmt.Sprintf("spec.egress[%d].to.dnsName: %v", i, err))
			continue
		}
		name := facts.CanonicalName(rule.To.DNSName)
		addresses, queried, err := names.Known(name)
		switch {
		case !queried:
			waiting++
		case err != nil:
			problems = append(problems, fmt.Sprintf("spec.egress[%d].to.dnsName: %s: %v", i, rule.To.DNSName, err))
		case len(addresses) == 0 && facts.IsWildcard(name) && !slices.Contains(unused, name):
			unused = append(unused, name)
		}
	}
	switch {
	case named == 0:
		meta.RemoveStatusCondition(&c.Status.Conditions, networkv1alpha1.ConditionResolved)
	case len(invalid) > 0:
		c.set(networkv1alpha1.ConditionResolved, metav1.ConditionFalse, networkv1alpha1.ReasonInvalidSpec,
			list(append(invalid, problems...)))
	case waiting > 0:
	case len(problems) > 0:
		c.set(networkv1alpha1.ConditionResolved, metav1.ConditionFalse, networkv1alpha1.ReasonUnresolvedNames, list(problems))
	case len(unused) > 0:
		c.set(networkv1alpha1.ConditionResolved, metav1.ConditionTrue, networkv1alpha1.ReasonAsExpected,
			"no pod has resolved a name of "+list(unused)+" in the last hour; every other DNS name has an address")
	default:
		c.set(networkv1alpha1.ConditionResolved, metav1.ConditionTrue, networkv1alpha1.ReasonAsExpected, "every DNS name has an address")
	}
}

func list(problems []string) string {
	more := ""
	if n := len(problems) - namedProblems; n > 0 {
		problems, more = problems[:namedProblems], fmt.Sprintf("; and %d more", n)
	}
	return strings.Join(problems, "; ") + more
}

func (c conditionsOf) differ(before *networkv1alpha1.EgressFirewall) bool {
	return !equality.Semantic.DeepEqual(before.Status.Conditions, c.Status.Conditions)
}

// worse returns the conditions that are false and have changed.
func (c conditionsOf) worse(before *networkv1alpha1.EgressFirewall) (found []metav1.Condition) {
	for _, now := range c.Status.Conditions {
		had := meta.FindStatusCondition(before.Status.Conditions, now.Type)
		if now.Status == metav1.ConditionFalse && (had == nil || had.Status != now.Status || had.Message != now.Message) {
			found = append(found, now)
		}
	}
	return found
}
