package addressapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/servers/addressapi"
)

func TestPoolsFromCreationToDeletion(t *testing.T) {
	w := newWorld(t, "life")
	body := map[string]any{"name": "life", "spec": map[string]any{"location": "NAT", "namespaces": map[string]any{},
		"ranges": []any{map[string]any{"addresses": "192.0.2.16/29"}, map[string]any{"addresses": "2001:db8::10-2001:db8::1f",
			"nodeSelector": map[string]any{"matchExpressions": []any{map[string]any{"key": "rack", "operator": "In", "values": []any{"r1"}}}}}}}}
	created := w.call(w.all, "POST", "/v1/pools", body)
	w.wants(created, http.StatusCreated)
	if at := created.header.Get("Location"); at != "/v1/pools/life" {
		t.Error("Location:", at)
	}
	w.refused(w.call(w.all, "POST", "/v1/pools", body), http.StatusConflict, "")

	var pool addressapi.Pool
	read := func() {
		t.Helper()
		w.eventually(func() error { // until the operator has checked the pool, and the cache has it
			r := w.call(w.all, "GET", "/v1/pools/life", nil)
			if r.status == http.StatusNotFound {
				return fmt.Errorf("%s", r.text)
			}
			pool = addressapi.Pool{}
			w.wants(r, http.StatusOK).into(w, &pool)
			if pool.Status.Ready != "True" || pool.Status.Total != 24 {
				return fmt.Errorf("status %+v", pool.Status)
			}
			return nil
		})
	}
	read()
	if len(pool.Spec.Ranges) != 2 || pool.Spec.Ranges[1].NodeSelector.MatchExpressions[0].Values[0] != "r1" {
		t.Errorf("the pool became %+v", pool)
	}

	// Preallocated addresses exist without a pod.
	w.wants(w.call(w.all, "PUT", "/v1/pools/life/size", map[string]any{"size": 3}), http.StatusOK, `"size":3`)
	page := w.listed("pool=life&state=free", 6)
	if page.Items[0].Address != "192.0.2.16" || page.Items[5].Address != "2001:db8::12" {
		t.Errorf("preallocated: %+v", page.Items)
	}

	// A change names the version that it changes.
	read()
	stale := pool.ResourceVersion
	change := map[string]any{"resourceVersion": stale, "spec": map[string]any{"location": "NAT", "namespaces": map[string]any{}, "size": 3,
		"ranges": []any{map[string]any{"addresses": "192.0.2.16/28"}, map[string]any{"addresses": "2001:db8::10-2001:db8::17"}}}}
	var changed addressapi.Pool
	for { // the operator may count in between
		r := w.call(w.all, "PUT", "/v1/pools/life", change)
		if r.status == http.StatusConflict {
			read()
			change["resourceVersion"] = pool.ResourceVersion
			continue
		}
		w.wants(r, http.StatusOK).into(w, &changed)
		break
	}
	if changed.Status.Ready != "Unknown" || changed.Spec.Ranges[0].Addresses != "192.0.2.16/28" {
		t.Errorf("the changed pool is %+v", changed)
	}
	change["resourceVersion"] = stale
	w.wants(w.call(w.all, "PUT", "/v1/pools/life", change), http.StatusConflict, "life", stale)
	w.wants(w.call(w.all, "DELETE", "/v1/pools/life?resourceVersion="+stale, nil), http.StatusConflict, "life", stale)

	// A pool with addresses in use stays.
	var f networkv1alpha1.FloatingIP
	w.do(operator.Get(t.Context(), client.ObjectKey{Name: "192.0.2.17"}, &f))
	f.Spec.Holder = w.kept("db", "db-0")
	w.do(operator.Update(t.Context(), &f))
	w.listed("pool=life&state=kept", 1)
	w.wants(w.call(w.all, "DELETE", "/v1/pools/life", nil), http.StatusConflict, "192.0.2.17")
	w.wants(w.call(w.all, "POST", "/v1/addresses/192.0.2.17/release", nil), http.StatusOK)
	w.eventually(func() error {
		if r := w.call(w.all, "DELETE", "/v1/pools/life", nil); r.status != http.StatusNoContent {
			return fmt.Errorf("delete: %s", r.text)
		}
		return nil
	})
	w.eventually(func() error {
		if r := w.call(w.all, "GET", "/v1/pools/life", nil); r.status != http.StatusNotFound {
			return fmt.Errorf("get: status %d", r.status)
		}
		return nil
	})
	w.refused(w.call(w.all, "DELETE", "/v1/pools/life", nil), http.StatusNotFound, "")
	w.refused(w.call(w.all, "PUT", "/v1/pools/life", change), http.StatusNotFound, "")
	w.refused(w.call(w.all, "PUT", "/v1/pools/life/size", map[string]any{"size": 1}), http.StatusNotFound, "")
}

// A body that the document does not permit is 400. A pool that Weft or the API server refuses is 422. Both name the field.
func TestWrongPoolsNameTheField(t *testing.T) {
	w := newWorld(t, "wrong")
	const ok = `{"addresses":"198.51.100.1"}`
	for _, c := range []struct {
		body   string
		status int
		where  string
	}{
		{`{`, 400, "#"},
		{``, 400, ""},
		{`[]`, 400, "#"},
		{`{"spec":{"location":"NAT","ranges":[` + ok + `]}}`, 400, "#/name"},
		{`{"name":"Upper","spec":{"location":"NAT","ranges":[` + ok + `]}}`, 400, "#/name"},
		{`{"name":"w","spec":{"ranges":[` + ok + `]}}`, 400, "#/spec/location"},
		{`{"name":"w","spec":{"location":"Moon","ranges":[` + ok + `]}}`, 400, "#/spec/location"},
		{`{"name":"w","spec":{"location":"NAT","ranges":[]}}`, 400, "#/spec/ranges"},
		{`{"name":"w","spec":{"location":"NAT","ranges":[` + ok + `,{"addresses":7}]}}`, 400, "#/spec/ranges/1/addresses"},
		{`{"name":"w","spec":{"location":"NAT","ranges":[` + ok + `],"size":4097}}`, 400, "#/spec/size"},
		{`{"name":"w","spec":{"location":"NAT","ranges":[` + ok + `],"gateway":"x"}}`, 400, "#/spec/gateway"},
		{`{"name":"w","spec":{"location":"NAT","ranges":[` + ok + `],"Size":1}}`, 400, "#/spec/Size"},
		{`{"name":"w","spec":{"location":"NAT","ranges":[` + ok + `],"namespaces":{"matchLabels":{"a.b/c":7}}}}`, 400,
			"#/spec/namespaces/matchLabels/a.b~1c"},
		{`{"name":"w","spec":{"location":"NAT","namespaces":{"matchLabels":{"a.b/c":"d"}},"ranges":[` + ok + `],"size":-1}}`, 400,
			"#/spec/size"},
		{`{"name":"w","spec":{"location":"NAT","ranges":[{"addresses":"banana"}]}}`, 422, "#/spec/ranges/0/addresses"},
		{`{"name":"w","spec":{"location":"NAT","ranges":[` + ok + `,` + ok + `]}}`, 422, "#/spec/ranges/1/addresses"},
		{`{"name":"w","spec":{"location":"NAT","ranges":[` + ok + `],"namespaces":{"matchLabels":{"a b":"c"}}}}`, 422, "#/spec/namespaces"},
		{`{"name":"w","spec":{"location":"Underlay","ranges":[` + ok + `]}}`, 422, "#/spec/network"},
		{`{"name":"w..w","spec":{"location":"NAT","ranges":[` + ok + `]}}`, 422, "#/metadata/name"},
	} {
		v := *w
		t.Run(c.body, func(t *testing.T) {
			v.T = t
			v.refused(w.call(w.all, "POST", "/v1/pools", c.body), c.status, c.where)
		})
	}
	w.refused(w.call(w.all, "POST", "/v1/pools", `{"name":"`+strings.Repeat("a", 300<<10)+`"}`), http.StatusRequestEntityTooLarge, "")
	header := http.Header{"Authorization": {"Bearer " + w.all}, "Content-Type": {"text/yaml"}}
	r, err := w.send("POST", "/v1/pools", header, strings.NewReader("a: b"))
	w.do(err)
	w.refused(r, http.StatusUnsupportedMediaType, "#")

	// What the API server says of a change arrives.
	w.pool("immutable", "198.51.100.16")
	r = w.call(w.all, "PUT", "/v1/pools/immutable/size", map[string]any{"size": 0})
	var pool addressapi.Pool
	w.wants(r, http.StatusOK).into(w, &pool)
	w.eventually(func() error {
		r = w.call(w.all, "PUT", "/v1/pools/immutable", map[string]any{"resourceVersion": pool.ResourceVersion,
			"spec": map[string]any{"location": "Overlay", "ranges": []any{map[string]any{"addresses": "198.51.100.16"}}}})
		if r.status == http.StatusConflict { // the operator wrote its status
			var now networkv1alpha1.IPPool
			w.do(api.Get(t.Context(), client.ObjectKey{Name: "immutable"}, &now))
			pool.ResourceVersion = now.ResourceVersion
			return fmt.Errorf("%s", r.text)
		}
		return nil
	})
	w.refused(r, http.StatusUnprocessableEntity, "#/spec/location")
	w.wants(r, http.StatusUnprocessableEntity, "location is immutable")
}

func TestPoolsAreListed(t *testing.T) {
	w := newWorld(t, "pools")
	for i, name := range []string{"list-c", "list-a", "list-b"} {
		w.pool(name, fmt.Sprintf("203.0.113.%d/%d", 64*i, 28-i))
	}
	names := func(query string) string {
		t.Helper()
		var page addressapi.PoolPage
		w.wants(w.call(w.all, "GET", "/v1/pools?text=list-&"+query, nil), http.StatusOK).into(w, &page)
		var names []string
		for _, pool := range page.Items {
			names = append(names, strings.TrimPrefix(pool.Name, "list-"))
		}
		return fmt.Sprintf("%s of %d, more %t", strings.Join(names, ""), page.Total, page.Next != "")
	}
	w.eventually(func() error {
		if got := names("sort=total"); got != "cab of 3, more false" {
			return fmt.Errorf("by size: %s", got)
		}
		return nil
	})
	for query, want := range map[string]string{"": "abc of 3, more false", "sort=-name": "cba of 3, more false",
		"sort=-total": "bac of 3, more false", "limit=2": "ab of 3, more true"} {
		if got := names(query); got != want {
			t.Errorf("%s: %s, not %s", query, got, want)
		}
	}
	for query, where := range map[string]string{"sort=size": "sort", "limit=0": "limit", "limit=501": "limit", "limit=x": "limit",
		"cursor=x": "cursor", "page=2": "page"} {
		w.refused(w.call(w.all, "GET", "/v1/pools?"+query, nil), http.StatusBadRequest, where)
	}
}

// The confirmation of an IPPool's deletion is the administrator's alone: the API cannot give it.
func TestThePolicyGuardsPools(t *testing.T) {
	w := newWorld(t, "guarded")
	made := 0
	var name string
	again := func() { // the operator corrected the counts first, so that the pool is gone
		made++
		name = fmt.Sprintf("guarded-%d", made)
		w.pool(name, fmt.Sprintf("203.0.113.%d", 128+made))
	}
	again()
	w.eventually(func() error { // the operator's counts as they would be if the cache were behind
		var pool networkv1alpha1.IPPool
		w.do(api.Get(context.Background(), client.ObjectKey{Name: name}, &pool))
		before := pool.DeepCopy()
		pool.Status.Used = 1
		pool.Status.Conditions = append(pool.Status.Conditions, metav1.Condition{Type: "Test", Status: metav1.ConditionTrue, Reason: "Test",
			LastTransitionTime: metav1.Now()})
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := operator.Status().Patch(context.Background(), &pool, patch); err != nil {
			return err
		}
		r := w.call(w.all, "DELETE", "/v1/pools/"+name, nil)
		if r.status < http.StatusBadRequest {
			again()
		}
		if r.status != http.StatusConflict || !strings.Contains(string(r.text), "has 1 addresses that pods have") {
			return fmt.Errorf("status %d: %s", r.status, r.text)
		}
		return nil
	})
}
