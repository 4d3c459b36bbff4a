package ovnexpr_test

import (
	"net/netip"
	"reflect"
	"testing"

	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
)

// A port's external_ids keep what the node must know of its attachment, with and without a VLAN.
func TestAttachmentOnASegment(t *testing.T) {
	for _, vlan := range []int{0, 100} {
		want := ovnexpr.Attachment{Network: "segment", Request: "r",
			Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.5/24"), netip.MustParsePrefix("2001:db8::5/64")},
			Floating: []netip.Addr{netip.MustParseAddr("192.0.2.5"), netip.MustParseAddr("2001:db8::5")}, PhysicalNetwork: "dc", VLAN: vlan}
		ids := map[string]string{}
		want.AddTo(ids)
		got, ok, err := ovnexpr.ParseAttachment(ids)
		if err != nil || !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("%v: %+v, %t, %v, want %+v", ids, got, ok, err, want)
		}
	}
	for key, value := range map[string]string{ovnexpr.FloatingKey: "192.0.2", "weft.dev/segment": "dc none"} {
		if _, _, err := ovnexpr.ParseAttachment(map[string]string{ovnexpr.NetworkKey: "segment", key: value}); err == nil {
			t.Errorf("%s %q: no error", key, value)
		}
	}
}
