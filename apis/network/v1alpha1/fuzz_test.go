package v1alpha1_test

import (
	"strings"
	"testing"

	"github.com/weft-network/weft/apis/network/v1alpha1"
)

// For any annotation, ParsePodNetworks returns either an error that names its subject, or a record that can be
// written again.
func FuzzParsePodNetworks(f *testing.F) {
	f.Add(`{"version":"v1","networks":[{"name":"default","default":true,"interface":"eth0","interfaceID":"demo_web-0","podUID":"u",` +
		`"macAddress":"0a:58:0a:f4:01:05","addresses":["10.244.1.5/24","fd00::5/64"],"gateways":["10.244.1.1"],` +
		`"routes":[{"destination":"10.0.0.0/8","gateway":"10.244.1.1"}],"mtu":1442}]}`)
	f.Add(`{"version":"v2"}`)
	f.Add(`{"version":"v1","networks":null}`)
	f.Add(`{"version":"v1","networks":[{"addresses":[""]}]}`)
	f.Add(`[]`)
	f.Add(``)
	f.Fuzz(func(t *testing.T, text string) {
		networks, err := v1alpha1.ParsePodNetworks(text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "VIF record: ") {
				t.Errorf("the error does not name its subject: %v", err)
			}
			return
		}
		written, err := v1alpha1.MarshalPodNetworks(networks)
		if err != nil {
			t.Fatalf("%q can be read but not written: %v", text, err)
		}
		again, err := v1alpha1.ParsePodNetworks(written)
		if err != nil {
			t.Fatalf("%q was written as %q, which cannot be read: %v", text, written, err)
		}
		if twice, err := v1alpha1.MarshalPodNetworks(again); err != nil || twice != written {
			t.Errorf("%q was written as %q and then as %q (%v)", text, written, twice, err)
		}
	})
}
