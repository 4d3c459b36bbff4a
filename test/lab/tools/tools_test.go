package tools

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

func TestOnceBuildsAgainOnlyWhenTheStampDiffers(t *testing.T) {
	c := Cache{t.TempDir()}
	made := 0
	build := func() error { made++; return nil }
	file := c.stampPath("tool") // the stamp itself is a file that exists after the build
	for _, stamp := range []string{"v1", "v1", "v2", "v2"} {
		if _, err := c.once("tool", stamp, file, build); err != nil {
			t.Fatal(err)
		}
	}
	if made != 2 {
		t.Errorf("built %d times, want 2", made)
	}
}
