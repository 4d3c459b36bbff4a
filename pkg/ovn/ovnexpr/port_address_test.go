package ovnexpr

import "testing"

func TestPortAddressSurvivesText(t *testing.T) {
	for _, text := range []string{"0a:58:0a:f4:01:05 10.244.1.5 fd00::5", "0a:58:0a:f4:01:05"} {
		p, err := ParsePortAddress(text)
		if err != nil || p.String() != text {
			t.Errorf("%q became %q, %v", text, p, err)
		}
	}
	for _, text := range []string{"", "router", "unknown", "0a:58:0a:f4:01:05 nonsense"} {
		if p, err := ParsePortAddress(text); err == nil {
			t.Errorf("%q was read as %v", text, p)
		}
	}
}
