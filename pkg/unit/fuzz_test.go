package unit_test

import (
	"strings"
	"testing"

	"github.com/weft-network/weft/pkg/unit"
)

// A key has the kind and name that it was made of, whatever a database contains.
func FuzzKey(f *testing.F) {
	for _, seed := range []string{"pod/demo/web-0", "node/worker-1", "network/default", "", "/", "pod", "pod/",
		"pod//", "a/b/c/d", "\x00/\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		key := unit.Key(text)
		if strings.Contains(text, "/") && unit.NewKey(key.Kind(), key.Name()) != key {
			t.Errorf("%q becomes %q", key, unit.NewKey(key.Kind(), key.Name()))
		}
		if strings.Contains(key.Kind(), "/") || !strings.HasPrefix(text, key.Kind()) || !strings.HasSuffix(text, key.Name()) {
			t.Errorf("%q has the kind %q and the name %q", key, key.Kind(), key.Name())
		}
	})
}
