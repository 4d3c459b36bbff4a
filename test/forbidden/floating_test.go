package forbidden

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	pools    = "/apis/network.weft.dev/v1alpha1/ippools"
	floating = "/apis/network.weft.dev/v1alpha1/floatingips"

	poolBody = `{"apiVersion":"network.weft.dev/v1alpha1","kind":"IPPool","metadata":{"name":"web"},
"spec":{"location":"NAT","ranges":[{"addresses":"192.0.2.0/28"}]}}`
	holder = `{"apiVersion":"apps/v1","kind":"Deployment","namespace":"team-a","name":"web","pod":"plain","podUID":"u",` +
		`"releasePolicy":"Immutable","since":"2026-01-02T03:04:05Z"}`
)

// floatingIP returns a FloatingIP of pool web; an empty holder means nobody.
func floatingIP(address, holder string) string {
	if holder != "" {
		holder = `,"holder":` + holder
	}
	return `{"apiVersion":"network.weft.dev/v1alpha1","kind":"FloatingIP","metadata":{"name":"` + address + `"},
"spec":{"address":"` + address + `","pool":"web"` + holder + `}}`
}

// withPool creates IPPool web, which has a FloatingIP with a holder and one without, and a person who may write both kinds.
func withPool(t *testing.T) (w *world, user *identity) {
	t.Helper()
	w = newWorld(t)
	user = person(t, "network-team", "", rule("network.weft.dev", "ippools ippools/status floatingips", "*"))
	must(t, user, request{"POST", pools, poolBody})
	must(t, w.operator, request{"POST", floating, floatingIP("192.0.2.1", holder)})
	must(t, w.operator, request{"POST", floating, floatingIP("192.0.2.2", "")})
	must(t, w.operator, request{"PATCH", pools + "/web/status", status(`"total":16,"used":1`)})
	t.Cleanup(func() {
		ctx := context.Background()
		for _, r := range []request{
			{"PATCH", floating + "/192.0.2.1", `{"spec":{"holder":null}}`}, {"DELETE", floating, ""},
			{"PATCH", pools + "/web", annotation("network.weft.dev/remove", "web")}, {"DELETE", pools, ""},
		} {
			_ = identityOf(t, restConfig).do(ctx, r) // the test may have deleted it
		}
	})
	return w, user
}

func TestPeopleNameNoHolder(t *testing.T) {
	_, user := withPool(t)
	onlyOperator := func(address string) []string {
		return []string{"FloatingIP " + address, "only the Weft operator names a holder", "remove spec.holder to release the address"}
	}
	refused(t, user, []attempt{
		{"a FloatingIP with a holder", request{"POST", floating, floatingIP("192.0.2.3", holder)}, onlyOperator("192.0.2.3")},
		{"a holder of a free address", request{"PATCH", floating + "/192.0.2.2", `{"spec":{"holder":` + holder + `}}`},
			onlyOperator("192.0.2.2")},
		{"another pod", request{"PATCH", floating + "/192.0.2.1", `{"spec":{"holder":{"pod":"recorded"}}}`}, onlyOperator("192.0.2.1")},
		{"another policy, applied", request{"APPLY", floating + "/192.0.2.1", floatingIP("192.0.2.1",
			strings.Replace(holder, "Immutable", "Never", 1))}, onlyOperator("192.0.2.1")},
		{"deletion of an address in use", request{"DELETE", floating + "/192.0.2.1", ""},
			[]string{"FloatingIP 192.0.2.1 is in use", "kubectl weft ip release 192.0.2.1"}},
		{"a pool's status", request{"PATCH", pools + "/web/status", status(`"used":0`)},
			[]string{"IPPool web", "only the Weft operator writes status"}},
		{"deletion of a pool in use", request{"DELETE", pools + "/web", ""},
			[]string{"IPPool web has ", "kept addresses", "kubectl annotate ippool web network.weft.dev/remove=web"}},
		{"deletion of all pools", request{"DELETE", pools, ""}, []string{"kept addresses"}},
	})
}

func TestPeopleReleaseAndReserve(t *testing.T) {
	_, user := withPool(t)
	allowed(t, user, []attempt{
		{"a label of an address in use", request{"PATCH", floating + "/192.0.2.1",
			`{"metadata":{"labels":{"network.weft.dev/reserved":"true"}}}`}, nil},
		{"release", request{"PATCH", floating + "/192.0.2.1", `{"spec":{"holder":null}}`}, nil},
		{"deletion after the release", request{"DELETE", floating + "/192.0.2.1", ""}, nil},
		{"a reserved address", request{"POST", floating, floatingIP("192.0.2.3", "")}, nil},
		{"other ranges", request{"PATCH", pools + "/web", `{"spec":{"ranges":[{"addresses":"192.0.2.0/27"}],"size":3}}`}, nil},
		{"the confirmation", request{"PATCH", pools + "/web", annotation("network.weft.dev/remove", "web")}, nil},
		{"deletion of a pool in use, confirmed", request{"DELETE", pools + "/web", ""}, nil},
	})
}

// version returns an object's resource version.
func version(t *testing.T, path string) string {
	t.Helper()
	raw, err := admin.RESTClient().Get().RequestURI(path).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var object metav1.PartialObjectMetadata
	if err := json.Unmarshal(raw, &object); err != nil {
		t.Fatal(err)
	}
	return object.ResourceVersion
}

func TestTheOperatorWritesHoldersAndCounts(t *testing.T) {
	w, _ := withPool(t)
	refused(t, w.operator, []attempt{
		{"a pool", request{"POST", pools, poolBody}, []string{"ippools"}},
		{"a pool's ranges", request{"PATCH", pools + "/web", `{"spec":{"size":1}}`}, []string{`"web"`}},
		{"deletion of a pool", request{"DELETE", pools + "/web", ""}, []string{`"web"`}},
	})
	held := strings.Replace(floatingIP("192.0.2.2", holder), `"metadata":{`, `"metadata":{"resourceVersion":"`+
		version(t, floating+"/192.0.2.2")+`",`, 1)
	allowed(t, w.operator, []attempt{
		{"counts", request{"PATCH", pools + "/web/status", status(`"used":2,"kept":1`)}, nil},
		{"a holder", request{"PUT", floating + "/192.0.2.2", held}, nil},
		{"another holder", request{"POST", floating, floatingIP("192.0.2.4", holder)}, nil},
		{"deletion of an address of a pool that is gone", request{"DELETE", floating + "/192.0.2.1", ""}, nil},
	})
	refused(t, w.agent["n1"], []attempt{
		{"a FloatingIP", request{"POST", floating, floatingIP("192.0.2.5", holder)}, []string{"floatingips"}},
		{"a release", request{"PATCH", floating + "/192.0.2.2", `{"spec":{"holder":null}}`}, []string{`"192.0.2.2"`}},
	})
}
