package ovndb

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// Elements can be read from any value that a server sends for a column. A set of strings yields exactly these
// strings.
func FuzzElementsOf(f *testing.F) {
	for _, seed := range []string{`"a"`, `["set",[]]`, `["set",["a","b"]]`,
		`["uuid","550e8400-e29b-41d4-a716-446655440000"]`, `["map",[["k","v"]]]`,
		`["set",[["uuid","550e8400-e29b-41d4-a716-446655440000"]]]`,
		`["map",[["k",["uuid","550e8400-e29b-41d4-a716-446655440000"]]]]`, `1`, `1.5`, `true`, `null`,
		`["set",[["set",[]]]]`, `["map",[["k"]]]`, `["named-uuid","x"]`, `[]`, `{}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		row, ok := decoded(value)
		if !ok {
			return // libovsdb rejects it earlier
		}
		elements := elementsOf(row["column"])
		if set, ok := row["column"].(ovsdb.OvsSet); ok {
			for _, member := range set.GoSet {
				if text, ok := member.(string); ok {
					if _, found := elements[text]; !found {
						t.Errorf("%s of %s is lost: %v", text, value, elements)
					}
				}
			}
		}
		if m, ok := row["column"].(ovsdb.OvsMap); ok && len(elements) > len(m.GoMap) {
			t.Errorf("%d pairs of %s become %d", len(m.GoMap), value, len(elements))
		}
	})
}

// decoded reads a column as the client does. The library panics on a malformed pair; every value that a server sends
// has been an OVSDB value at this point.
func decoded(value string) (row ovsdb.Row, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	err := json.Unmarshal([]byte(`{"column":`+value+`}`), &row)
	return row, err == nil
}

// Any text in place of the epoch is either an error that names the key or a number that has a successor.
func FuzzEpoch(f *testing.F) {
	for _, seed := range []string{"", "0", "1", "-1", "9223372036854775807", "9223372036854775806", "x", "1e3", " 1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		held, err := epochOf(map[string]string{epochKey: text})
		if err != nil {
			if !strings.Contains(err.Error(), epochKey) {
				t.Errorf("the error does not name the key: %v", err)
			}
			return
		}
		if held < 0 || held == math.MaxInt {
			t.Errorf("epoch %q is read as %d, which has no next one", text, held)
		}
		if n, err := strconv.Atoi(text); text != "" && (err != nil || n != held) {
			t.Errorf("epoch %q is read as %d", text, held)
		}
	})
}
