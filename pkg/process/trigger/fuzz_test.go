package trigger

import (
	"strings"
	"testing"

	"github.com/weft-network/weft/pkg/unit"
)

// The object of a unit is the object that the unit was named after.
func FuzzNameOf(f *testing.F) {
	f.Add("pod", "demo", "web-0")
	f.Add("node", "", "worker-1")
	f.Add("", "", "")
	f.Add("pod", "a", "b/c")
	f.Fuzz(func(t *testing.T, kind, namespace, name string) {
		key := unit.NewKey(kind, name)
		if namespace != "" {
			key = unit.NewKey(kind, namespace, name)
		}
		got := NameOf(key)
		if strings.Contains(kind+namespace+name, "/") {
			return // no object has this name; it only must not panic
		}
		if got.Namespace != namespace || got.Name != name {
			t.Errorf("%q is of %q, want %q %q", key, got, namespace, name)
		}
	})
}
