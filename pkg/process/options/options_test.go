package options

import (
	"slices"
	"strings"
	"testing"
)

func TestRemotesOfAllKindsAreTaken(t *testing.T) {
	o, err := ParseOperator(
		[]string{"--nb=ssl:192.0.2.1:6641, ssl:[2001:db8::1]:6641,tcp:192.0.2.2:6641,unix:/run/ovn/ovnnb_db.sock",
			"--ca-cert=/etc/ovn/ca.pem", "--tls-server-name=nb"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"ssl:192.0.2.1:6641", "ssl:[2001:db8::1]:6641", "tcp:192.0.2.2:6641", "unix:/run/ovn/ovnnb_db.sock"}
	if !slices.Equal(o.Northbound, want) {
		t.Errorf("remotes are %q, want %q", o.Northbound, want)
	}
	if o.TLS != (TLS{PrivateKey: "/etc/weft/tls/tls.key", Certificate: "/etc/weft/tls/tls.crt",
		CACert: "/etc/ovn/ca.pem", ServerName: "nb"}) {
		t.Errorf("TLS is %+v", o.TLS)
	}
}

func TestOtherRemotesAreRefused(t *testing.T) {
	for _, bad := range []string{"", "192.0.2.1:6641", "http:192.0.2.1", "ssl:", "ptcp:6641", "tcp:192.0.2.1:6641,pssl:6641"} {
		if _, err := ParseOperator([]string{"--nb=" + bad}); err == nil || !strings.Contains(err.Error(), "--nb") {
			t.Errorf("--nb=%s gives %v", bad, err)
		}
	}
}

// ovn-controller gets the listener that has its role, while the agent reads from another.
func TestControllersRemotesDefaultToTheAgents(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--sb=ssl:192.0.2.1:16642", "ssl:192.0.2.1:16642"},
		{"--sb=ssl:192.0.2.1:16642 --ovn-remote=ssl:192.0.2.1:6642", "ssl:192.0.2.1:6642"},
	} {
		o, err := ParseAgent(append(strings.Fields(c.args), "--node-name=n1"))
		if err != nil || len(o.Controller) != 1 || o.Controller[0] != c.want || o.Southbound[0] != "ssl:192.0.2.1:16642" {
			t.Errorf("%s: ovn-controller gets %q, %v, want %s", c.args, o.Controller, err, c.want)
		}
	}
	if _, err := ParseAgent([]string{"--node-name=n1", "--sb=tcp:192.0.2.1:6642", "--ovn-remote=bad"}); err == nil ||
		!strings.Contains(err.Error(), "--ovn-remote") {
		t.Errorf("a bad remote gives %v", err)
	}
}

func TestAudiencesOfTokensAreAList(t *testing.T) {
	o, err := ParseAPI([]string{"--token-audiences= weft, ,other"})
	if err != nil || !slices.Equal(o.Audiences, []string{"weft", "other"}) {
		t.Errorf("audiences are %q, with %v", o.Audiences, err)
	}
	if o, err = ParseAPI(nil); err != nil || len(o.Audiences) != 0 {
		t.Errorf("without the flag, audiences are %q, with %v", o.Audiences, err)
	}
	if _, err = ParseAPI([]string{"--certificate="}); err == nil {
		t.Error("an API without a certificate is not refused")
	}
}
