package wire_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/weft-network/weft/pkg/ovn/wire"
)

// A column with a set has one value without brackets, or a list.
func TestValuesOfARow(t *testing.T) {
	var r wire.Row
	if err := wire.Decode([]byte(`{"_uuid":["uuid","u1"],"one":["uuid","u2"],"none":["set",[]],"text":"a","big":9007199254740993,
		"several":["set",[["uuid","u3"],["uuid","u4"]]],"texts":["set",["b","c"]],"up":true,"down":["set",[false]],
		"pairs":["map",[["k","v"],["n",1]]]}`), &r); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ got, want []string }{
		"UUID":                   {[]string{r.UUID()}, []string{"u1"}},
		"a reference":            {[]string{r.Reference("one")}, []string{"u2"}},
		"no reference":           {[]string{r.Reference("none"), r.Reference("absent"), r.Reference("text")}, []string{"", "", ""}},
		"references":             {r.References("several"), []string{"u3", "u4"}},
		"references of one":      {r.References("one"), []string{"u2"}},
		"a text":                 {[]string{r.Text("text"), r.Text("texts"), r.Text("none")}, []string{"a", "b", ""}},
		"texts":                  {r.Texts("texts"), []string{"b", "c"}},
		"texts of one":           {r.Texts("text"), []string{"a"}},
		"a reference is no text": {r.Texts("one"), nil},
	} {
		if !slices.Equal(test.got, test.want) {
			t.Errorf("%s: %q, want %q", name, test.got, test.want)
		}
	}
	if got := r.Number("big"); got != 9007199254740993 {
		t.Errorf("the integer is %d", got)
	}
	if !r.True("up") || r.True("down") || r.True("none") {
		t.Errorf("up is %v, down is %v, none is %v", r.True("up"), r.True("down"), r.True("none"))
	}
	if got := r.Pairs("pairs"); !maps.Equal(got, map[string]string{"k": "v", "n": "1"}) || len(r.Pairs("text")) > 0 {
		t.Errorf("the pairs are %v", got)
	}
}

func TestParseOperations(t *testing.T) {
	all, err := wire.ParseOperations([]json.RawMessage{[]byte(`{"op":"insert","row":{"n":9007199254740993}}`)})
	if err != nil || all[0]["row"].(map[string]any)["n"] != json.Number("9007199254740993") {
		t.Errorf("%v, %v", all, err)
	}
	_, err = wire.ParseOperations([]json.RawMessage{[]byte(`{}`), []byte(`[]`)})
	if err == nil || !strings.Contains(err.Error(), "operation 2") {
		t.Errorf("a list: %v", err)
	}
}
