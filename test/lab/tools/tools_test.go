package tools

import "testing"

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
