package addressapi

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/pkg/servers/addressapi"
)

func TestAddressesAreListed(t *testing.T) {
	w := newWorld(t, "lists")
	w.pool("lists", "192.0.2.32/28", "2001:db8:1::/112")
	w.hold("lists", "192.0.2.40", w.kept("web", "web-2"))
	w.hold("lists", "192.0.2.33", w.kept("db", "db-0"))
	held, _ := w.used("db", "db-1")
	w.hold("lists", "2001:db8:1::a", held)
	w.hold("lists", "2001:db8:1::9", nil)
	w.listed("pool=lists", 4)
	for query, want := range map[string]string{
		"":                           "192.0.2.33 192.0.2.40 2001:db8:1::9 2001:db8:1::a",
		"sort=-address":              "2001:db8:1::a 2001:db8:1::9 192.0.2.40 192.0.2.33",
		"sort=pod":                   "2001:db8:1::9 192.0.2.33 2001:db8:1::a 192.0.2.40",
		"sort=-workload&state=kept":  "192.0.2.40 192.0.2.33",
		"sort=node":                  "192.0.2.33 192.0.2.40 2001:db8:1::9 2001:db8:1::a",
		"state=used":                 "2001:db8:1::a",
		"state=free":                 "2001:db8:1::9",
		"namespace=lists":            "192.0.2.33 192.0.2.40 2001:db8:1::a",
		"namespace=list":             "",
		"kind=StatefulSet&pod=db-0":  "192.0.2.33",
		"workload=db":                "192.0.2.33 2001:db8:1::a",
		"kind=Deployment":            "",
		"text=WEB":                   "192.0.2.40",
		"text=::":                    "2001:db8:1::9 2001:db8:1::a",
		"text=lists&workload=web":    "192.0.2.40",
		"text=no%20such%20text":      "",
		"sort=since&namespace=lists": "192.0.2.33 192.0.2.40 2001:db8:1::a",
	} {
		page := addressapi.AddressPage{}
		w.wants(w.call(w.all, "GET", "/v1/addresses?pool=lists&"+query, nil), http.StatusOK).into(w, &page)
		var got []string
		for _, a := range page.Items {
			got = append(got, a.Address)
		}
		if query == "sort=since&namespace=lists" { // the three are of the same second, or nearly
			slices.Sort(got)
		}
		if strings.Join(got, " ") != want || page.Total != len(got) {
			t.Errorf("%s: %v of %d, not %s", query, got, page.Total, want)
		}
	}
	var one addressapi.AddressDetail
	w.wants(w.call(w.all, "GET", "/v1/addresses/2001:db8:1:0::a", nil), http.StatusOK).into(w, &one)
	if h := one.Holder; one.State != "used" || h.Pod != "db-1" || h.Node != "n1" || h.Namespace != "lists" || h.ReleasePolicy != "Never" {
		t.Errorf("the address is %+v of %+v", one, h)
	}
	w.refused(w.call(w.all, "GET", "/v1/addresses/192.0.2.45", nil), http.StatusNotFound, "")
	w.refused(w.call(w.all, "GET", "/v1/addresses/banana", nil), http.StatusBadRequest, "address")
}

// Each address is on one page, although addresses come and go while a client reads the pages.
func TestPagesOfAddresses(t *testing.T) {
	w := newWorld(t, "pages")
	w.pool("pages", "198.51.100.128/25")
	for i := range 25 {
		w.hold("pages", fmt.Sprintf("198.51.100.%d", 150+i), w.kept("w", fmt.Sprintf("w-%d", i%4)))
	}
	w.listed("pool=pages", 25)
	for _, order := range []string{"address", "-pod"} {
		var seen []string
		query, pages := "pool=pages&sort="+order+"&limit=10", 0
		for next := query; next != ""; pages++ {
			page := addressapi.AddressPage{}
			w.wants(w.call(w.all, "GET", "/v1/addresses?"+next, nil), http.StatusOK).into(w, &page)
			for _, a := range page.Items {
				seen = append(seen, a.Address)
			}
			if next = ""; page.Next != "" {
				next = query + "&cursor=" + page.Next
			}
		}
		if slices.Sort(seen); len(slices.Compact(slices.Clone(seen))) != 25 || len(seen) != 25 || pages != 3 {
			t.Errorf("sort=%s: %d addresses on %d pages: %v", order, len(seen), pages, seen)
		}
	}
	page := w.listed("pool=pages&limit=10", 25)
	w.refused(w.call(w.all, "GET", "/v1/addresses?sort=-pod&cursor="+page.Next, nil), http.StatusBadRequest, "cursor")
}

func TestReleaseRefusesAnAddressWhosePodRuns(t *testing.T) {
	w := newWorld(t, "running")
	w.pool("running", "192.0.2.64/28")
	holder, pod := w.used("db", "db-0")
	w.hold("running", "192.0.2.65", holder)
	w.wants(w.call(w.all, "POST", "/v1/addresses/192.0.2.65/release", nil), http.StatusConflict, "running/db-0", "n1", "192.0.2.65")

	// Of a pod that was recreated under its name, the address is that of the pod before.
	w.do(api.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	w.used("db", "db-0")
	var after addressapi.AddressDetail
	w.wants(w.call(w.all, "POST", "/v1/addresses/192.0.2.65/release", nil), http.StatusOK).into(w, &after)
	if after.State != "free" || len(after.History) != 1 || after.History[0].Pod != "db-0" || after.History[0].Node != "n1" {
		t.Errorf("after the release: %+v", after)
	}
	// A pod that has ended does not run.
	ended, finished := w.used("job", "job-1")
	finished.Status.Phase = corev1.PodSucceeded
	w.do(api.Status().Update(t.Context(), finished))
	w.hold("running", "192.0.2.66", ended)
	w.wants(w.call(w.all, "POST", "/v1/addresses/192.0.2.66/release", nil), http.StatusOK, `"state":"free"`)
}

func TestReleaseOfAVersion(t *testing.T) {
	w := newWorld(t, "versions")
	w.pool("versions", "192.0.2.80/28")
	f := w.hold("versions", "192.0.2.81", w.kept("db", "db-0"))
	stale := f.ResourceVersion
	reserve := []byte(`{"metadata":{"labels":{"network.weft.dev/reserved":""}}}`)
	w.do(api.Patch(t.Context(), f, client.RawPatch(types.MergePatchType, reserve)))
	const path = "/v1/addresses/192.0.2.81/release?resourceVersion="
	w.wants(w.call(w.all, "POST", path+stale, nil), http.StatusConflict, stale, f.ResourceVersion)
	w.wants(w.call(w.all, "POST", path+f.ResourceVersion, nil), http.StatusOK, `"state":"free"`, `"reserved":true`)
	w.wants(w.call(w.all, "POST", "/v1/addresses/192.0.2.81/release", nil), http.StatusOK, `"state":"free"`)
	w.refused(w.call(w.all, "POST", "/v1/addresses/192.0.2.82/release", nil), http.StatusNotFound, "")
}

func TestReleaseOfSeveral(t *testing.T) {
	w := newWorld(t, "several")
	w.pool("several", "192.0.2.96/28", "2001:db8:2::/112")
	w.hold("several", "192.0.2.97", w.kept("db", "db-0"))
	w.hold("several", "2001:db8:2::1", w.kept("db", "db-0"))
	running, _ := w.used("db", "db-1")
	w.hold("several", "192.0.2.98", running)
	w.hold("several", "192.0.2.99", nil)
	var items []any
	for _, a := range []string{"192.0.2.97", "2001:db8:2:0::1", "192.0.2.98", "192.0.2.99", "192.0.2.100"} {
		items = append(items, map[string]any{"address": a})
	}
	var out struct{ Results []addressapi.ReleaseResult }
	w.wants(w.call(w.all, "POST", "/v1/release", map[string]any{"addresses": items}), http.StatusOK).into(w, &out)
	var got []string
	for _, r := range out.Results {
		line := r.Address + " " + r.Outcome
		if r.Problem != nil {
			line += fmt.Sprintf(" %d", r.Problem.Status)
		}
		got = append(got, line)
	}
	want := "192.0.2.97 released, 2001:db8:2:0::1 released, 192.0.2.98 refused 409, 192.0.2.99 free, 192.0.2.100 refused 404"
	if strings.Join(got, ", ") != want {
		t.Errorf("results %v, not %s", got, want)
	}
	w.listed("pool=several&state=free", 3)
	wrong := `{"addresses":[{"address":"192.0.2.97"},{"address":"x"}]}`
	w.refused(w.call(w.all, "POST", "/v1/release", wrong), http.StatusBadRequest, "#/addresses/1/address")
	w.refused(w.call(w.all, "POST", "/v1/release", `{"addresses":[]}`), http.StatusBadRequest, "#/addresses")
}
