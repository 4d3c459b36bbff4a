package kind

import (
	"slices"
	"testing"

	"github.com/weft-network/weft/pkg/unit"
)

func TestSetUsers(t *testing.T) {
	var u SetUsers
	expect := func(what string, have []unit.Key, want ...unit.Key) {
		t.Helper()
		if !slices.Equal(have, want) {
			t.Errorf("%s: %v, want %v", what, have, want)
		}
	}
	expect("users of nothing", u.Of("dns/a"))
	expect("dropped by nobody", u.Keep("p/1", nil))
	expect("added", u.Add("p/1", []unit.Key{"dns/a", "dns/b"}), "dns/a", "dns/b")
	expect("added again", u.Add("p/1", []unit.Key{"dns/b", "dns/c"}), "dns/c")
	expect("added by another", u.Add("p/0", []unit.Key{"dns/b"}), "dns/b")
	expect("users", u.Of("dns/b"), "p/0", "p/1")
	expect("dropped", u.Keep("p/1", []unit.Key{"dns/b"}), "dns/a", "dns/c")
	expect("users of a dropped set", u.Of("dns/a"))
	expect("users", u.Of("dns/b"), "p/0", "p/1")
	expect("the last dropped", u.Keep("p/1", nil), "dns/b")
	expect("users", u.Of("dns/b"), "p/0")
}
