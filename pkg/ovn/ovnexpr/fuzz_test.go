package ovnexpr_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
)

func FuzzParsePortAddress(f *testing.F) {
	for _, seed := range []string{"0a:58:0a:f4:01:05 10.244.1.5 fd00::5", "0a:58:0a:f4:01:05", "router", "unknown",
		"dynamic", "", " ", "80:00:00:00 10.0.0.1",
		"0a:58:0a:f4:01:05 10.0.0.0/24", "0a58.0af4.0105 10.0.0.1", "0a:58:0a:f4:01:05 fe80::1%eth0",
		"02-00-5e-10-00-00-00-01 10.0.0.1", "0a:58:0a:f4:01:05 ::ffff:10.0.0.1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		address, err := ovnexpr.ParsePortAddress(text)
		if err != nil {
			if !strings.Contains(err.Error(), "port address") {
				t.Errorf("the error of %q does not say what it is about: %v", text, err)
			}
			return
		}
		if len(address.MAC) != 6 {
			t.Errorf("%q has the MAC %s of %d bytes", text, address.MAC, len(address.MAC))
		}
		again, err := ovnexpr.ParsePortAddress(address.String())
		if err != nil || !reflect.DeepEqual(again, address) {
			t.Errorf("%q is read as %+v and then as %+v (%v)", text, address, again, err)
		}
	})
}
