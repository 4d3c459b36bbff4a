package egressfirewall

import (
	"net/netip"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// answered is a resolver that has an answer for every name.
type answered struct{}

func (answered) Known(string) ([]netip.Addr, bool, error) {
	return []netip.Addr{netip.MustParseAddr("192.0.2.1")}, true, nil
}

// An object that an earlier definition accepted reports which of its names are invalid, whatever name servers answer.
func TestConditionNamesWhatIsNoDNSName(t *testing.T) {
	for name, want := range map[string]string{
		"www.example.com": "", "WWW.Example.com.": "",
		"1.2.3.4": "cidrSelector 1.2.3.4/32", "2001:db8::1": "cidrSelector 2001:db8::1/128", "10.1": "its last label is a number",
	} {
		firewall := firewallTo("demo", networkv1alpha1.EgressFirewallDestination{DNSName: name})
		conditionsOf{firewall}.resolved(answered{}, true)
		c := meta.FindStatusCondition(firewall.Status.Conditions, networkv1alpha1.ConditionResolved)
		if want == "" && c.Status != metav1.ConditionTrue {
			t.Errorf("%s: %+v", name, c)
		}
		if want != "" && (c.Status != metav1.ConditionFalse || c.Reason != networkv1alpha1.ReasonInvalidSpec ||
			!strings.Contains(c.Message, want) || !strings.HasPrefix(c.Message, "spec.egress[0].to.dnsName: ")) {
			t.Errorf("%s: %+v", name, c)
		}
	}
}
