package apt

import "testing"

func TestMirrorIn(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		deb822 bool
		want   string
	}{
		"one line":          {"# x\ndeb [arch=amd64 signed-by=/k] http://mirror/debian bookworm main\n", false, "http://mirror/debian"},
		"another product":   {"deb https://vendor/apt tool-bookworm main\n", false, ""},
		"deb822":            {"Types: deb\nURIs: http://mirror/debian\nSuites: bookworm bookworm-updates\n", true, "http://mirror/debian"},
		"deb822, security":  {"URIs: http://mirror/security\nSuites: bookworm-security\n", true, ""},
		"deb822, no suites": {"URIs: http://mirror/debian\n", true, ""},
	} {
		if got := mirrorIn(c.text, c.deb822); got != c.want {
			t.Errorf("%s: mirrorIn = %q, want %q", name, got, c.want)
		}
	}
}
