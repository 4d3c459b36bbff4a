package addressapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

var update = flag.Bool("update", false, "write config/api/openapi.yaml")

const documentFile = "../../../config/api/openapi.yaml"

// config/api/openapi.yaml is the document that the API serves. -update writes it.
func TestDocumentIsFresh(t *testing.T) {
	_, document, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(documentFile, document, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	had, err := os.ReadFile(documentFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(had, document) {
		t.Errorf("%s is stale: go test ./pkg/servers/addressapi -run Document -update", documentFile)
	}
}

// A field of IPPoolSpec that the API lacks would be lost by a change of the pool.
func TestPoolSpecHasAllFields(t *testing.T) {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"},
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: metav1.LabelSelectorOpIn, Values: []string{"v"}}}}
	had := networkv1alpha1.IPPoolSpec{Location: networkv1alpha1.LocationUnderlay, Network: "n", Namespaces: selector, Size: 3,
		Ranges: []networkv1alpha1.IPPoolRange{{Addresses: "192.0.2.1", NodeSelector: selector}}}
	var between PoolSpec
	var after networkv1alpha1.IPPoolSpec
	if err := errors.Join(convert(had, &between), convert(between, &after)); err != nil {
		t.Fatal(err)
	}
	before, err := json.Marshal(had)
	if err != nil {
		t.Fatal(err)
	}
	then, err := json.Marshal(after)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before, then) {
		t.Errorf("the spec\n%s\nbecame\n%s", before, then)
	}
}

func TestPointersNameFields(t *testing.T) {
	for location, want := range map[string]string{
		"body":                          "#",
		"body.spec.size":                "#/spec/size",
		"body.spec.ranges[0].addresses": "#/spec/ranges/0/addresses",
		"body[7].nodes":                 "#/7/nodes",
		"body.matchLabels." + codedKeys.Replace("app.kubernetes.io/na~me[0]"): "#/matchLabels/app.kubernetes.io~1na~0me[0]",
	} {
		if got := fieldOf(&huma.ErrorDetail{Location: location}); got.Pointer != want {
			t.Errorf("%s became %s, not %s", location, got.Pointer, want)
		}
	}
	missing := fieldOf(&huma.ErrorDetail{Location: "body.spec", Message: "expected required property location to be present"})
	if missing.Pointer != "#/spec/location" {
		t.Errorf("a missing property is at %s", missing.Pointer)
	}
	if p := pointer("spec.ranges[3].nodeSelector"); p != "#/spec/ranges/3/nodeSelector" {
		t.Error(p)
	}
}

// Objects that come and go between two pages neither hide nor repeat another.
func TestPagesAreStable(t *testing.T) {
	for _, order := range []string{"name", "-name"} {
		objects := map[string]string{} // id -> key
		for i := range 40 {
			objects[fmt.Sprintf("o%02d", i)] = fmt.Sprintf("k%d", i%7)
		}
		var seen []string
		cursor, pages := "", 0
		for {
			var entries []entry[string]
			for id, key := range objects {
				entries = append(entries, entry[string]{id, key, id})
			}
			page, next, err := paginate(entries, order, Paging{Limit: 7, Cursor: cursor})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range page {
				seen = append(seen, e.id)
			}
			if next == "" {
				break
			}
			// The last of the page goes, and so does one before it. New ones come at both ends.
			delete(objects, page[len(page)-1].id)
			delete(objects, page[0].id)
			objects[fmt.Sprintf("new-%d-a", pages)], objects[fmt.Sprintf("new-%d-z", pages)] = "a", "z"
			cursor, pages = next, pages+1
		}
		var old []string
		for _, id := range seen {
			if strings.HasPrefix(id, "o") {
				old = append(old, id)
			}
		}
		slices.Sort(old)
		if len(slices.Compact(slices.Clone(old))) != 40 || len(old) != 40 {
			t.Errorf("sort=%s: of 40 objects, %d were listed: %v", order, len(old), old)
		}
	}
	if _, _, err := paginate([]entry[string]{}, "name", Paging{Limit: 1, Cursor: "nonsense"}); err == nil {
		t.Error("a cursor that is none is not refused")
	}
}

func TestTimesSortAsTexts(t *testing.T) {
	early := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	if late := early.Add(time.Nanosecond); timeKey(early) >= timeKey(late) {
		t.Error(timeKey(early), timeKey(late))
	}
}
