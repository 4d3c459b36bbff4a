package v1alpha1

import (
	"strings"
	"testing"
)

func TestParseACLLogging(t *testing.T) {
	for text, want := range map[string]ACLLogging{
		`{}`:                 {Rate: 20},
		`{"deny":"warning"}`: {Deny: "warning", Rate: 20},
		`{"allow":"info", "deny":"alert", "rate":10000}`: {Allow: "info", Deny: "alert", Rate: 10_000},
	} {
		if got, err := ParseACLLogging(text); err != nil || got != want {
			t.Errorf("%s: %+v (%v), want %+v", text, got, err, want)
		}
	}
	for text, message := range map[string]string{
		``:                  "EOF",
		`debug`:             "invalid character",
		`{"drop":"info"}`:   `unknown field "drop"`,
		`{"deny":"loud"}`:   `deny: "loud" is not one of alert, warning`,
		`{"rate":-1}`:       "rate: -1 is not in 1..10000",
		`{"rate":10001}`:    "rate: 10001",
		`{"rate":"20"}`:     "cannot unmarshal",
		`{"deny":"info"} 7`: "more than one value",
	} {
		got, err := ParseACLLogging(text)
		if err == nil || got != (ACLLogging{}) || !strings.Contains(err.Error(), message) ||
			!strings.Contains(err.Error(), ACLLoggingAnnotation) {
			t.Errorf("%s: %+v (%v), want %q", text, got, err, message)
		}
	}
}

func FuzzParseACLLogging(f *testing.F) {
	for _, seed := range []string{`{}`, `{"allow":"info","deny":"alert","rate":7}`, `[]`, `{"rate":1e9}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := ParseACLLogging(text); err == nil && (got.Rate < 1 || got.Rate > 10_000) {
			t.Errorf("%q was parsed as %+v", text, got)
		}
	})
}
