package addressapi

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type errCount struct{ got, want int }

func (e errCount) Error() string {
	return fmt.Sprintf("the API lists %d addresses, not %d", e.got, e.want)
}

func TestARequestNeedsAToken(t *testing.T) {
	w := newWorld(t, "tokens")
	for what, header := range map[string]string{"no header": "", "no token": "Bearer ", "a password": "Basic YTpi",
		"no JWT": "Bearer x", "another token": "Bearer " + w.all[:len(w.all)-8] + "AAAAAAAA"} {
		t.Run(what, func(t *testing.T) {
			v := *w
			v.T = t
			for _, path := range []string{"/v1/addresses", "/v1/pools/none"} {
				r, err := w.send("GET", path, http.Header{"Authorization": {header}}, http.NoBody)
				v.do(err)
				v.refused(r, http.StatusUnauthorized, "")
				if !strings.HasPrefix(r.header.Get("WWW-Authenticate"), "Bearer") {
					t.Error("the response does not name the scheme Bearer")
				}
			}
		})
	}
	// What a request wants is not checked before who sends it.
	w.refused(w.call("", "POST", "/v1/pools", "{"), http.StatusUnauthorized, "")
	w.wants(w.call("", "GET", "/openapi.json", nil), http.StatusOK, `"openapi":"3.1.0"`)
	w.wants(w.call("", "GET", "/openapi.yaml", nil), http.StatusOK, "openapi: 3.1.0")
}

func TestATokenIsForAnAudience(t *testing.T) {
	w := newWorld(t, "audiences", "weft", "other")
	w.refused(w.call(w.all, "GET", "/v1/pools", nil), http.StatusUnauthorized, "")
	w.wants(w.call(w.token("all", "weft"), "GET", "/v1/pools", nil), http.StatusOK)
	w.refused(w.call(w.token("all", "third"), "GET", "/v1/pools", nil), http.StatusUnauthorized, "")
}

func rule(resource string, verbs []string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{"network.weft.dev"}, Resources: []string{resource}, Verbs: verbs, ResourceNames: names}
}

func TestRightsDecide(t *testing.T) {
	w := newWorld(t, "rights")
	w.pool("rights", "192.0.2.0/28")
	w.hold("rights", "192.0.2.1", w.kept("db", "db-0"))
	w.hold("rights", "192.0.2.2", w.kept("db", "db-1"))
	w.listed("pool=rights", 2)
	nobody, one := w.user("nobody"), w.user("one", rule("floatingips", []string{"get", "update"}, "192.0.2.1"))
	viewer := w.user("viewer", rule("floatingips", []string{"list"}), rule("ippools", []string{"list"}))
	spec := map[string]any{"location": "NAT", "ranges": []any{map[string]any{"addresses": "192.0.2.200"}}}
	for _, c := range []struct {
		method, path, right string
		body                any
	}{
		{"GET", "/v1/addresses", "list floatingips", nil},
		{"GET", "/v1/addresses/192.0.2.1", "get floatingips", nil},
		{"POST", "/v1/addresses/192.0.2.1/release", "update floatingips", nil},
		{"POST", "/v1/release", "update floatingips", map[string]any{"addresses": []any{map[string]any{"address": "192.0.2.1"}}}},
		{"GET", "/v1/pools", "list ippools", nil},
		{"POST", "/v1/pools", "create ippools", map[string]any{"name": "other", "spec": spec}},
		{"GET", "/v1/pools/rights", "get ippools", nil},
		{"PUT", "/v1/pools/rights", "update ippools", map[string]any{"resourceVersion": "1", "spec": spec}},
		{"PUT", "/v1/pools/rights/size", "update ippools", map[string]any{"size": 1}},
		{"DELETE", "/v1/pools/rights", "delete ippools", nil},
	} {
		r := w.call(nobody, c.method, c.path, c.body)
		w.wants(r, http.StatusForbidden, c.right+".network.weft.dev", "system:serviceaccount:rights:nobody")
		w.refused(r, http.StatusForbidden, "")
		verb, _, _ := strings.Cut(c.right, " ")
		want := map[bool]int{true: http.StatusOK, false: http.StatusForbidden}[verb == "list"]
		if w.call(viewer, c.method, c.path, c.body).status != want {
			t.Errorf("%s %s by one who may only list is not %d", c.method, c.path, want)
		}
	}
	// A right to one object does not reach others.
	w.wants(w.call(one, "GET", "/v1/addresses/192.0.2.1", nil), http.StatusOK)
	w.refused(w.call(one, "GET", "/v1/addresses/192.0.2.2", nil), http.StatusForbidden, "")
	both := map[string]any{"addresses": []any{map[string]any{"address": "192.0.2.2"}, map[string]any{"address": "192.0.2.1"}}}
	w.wants(w.call(one, "POST", "/v1/release", both), http.StatusOK, `"address":"192.0.2.2","outcome":"refused"`,
		"update floatingips.network.weft.dev 192.0.2.2", `"address":"192.0.2.1","outcome":"released"`)
	if kept := w.listed("pool=rights&state=kept", 1); kept.Items[0].Address != "192.0.2.2" {
		t.Error("kept:", kept.Items)
	}
}

func TestCertificateIsReplacedWithoutARestart(t *testing.T) {
	w := newWorld(t, "certificates")
	serial := func() string {
		w.Helper()
		connection, err := (&tls.Dialer{Config: w.client.Transport.(*http.Transport).TLSClientConfig}).DialContext(
			t.Context(), "tcp", strings.TrimPrefix(w.url, "https://"))
		w.do(err)
		defer connection.Close()
		return connection.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	first := serial()
	w.certify()
	second := serial()
	if first == second {
		t.Error("a new connection has the old certificate")
	}
	w.do(os.WriteFile(filepath.Join(w.folder, "tls.crt"), []byte("half"), 0o600))
	if serial() != second {
		t.Error("an unreadable file replaces the last certificate")
	}
}

func TestUnknownPathsAndMethods(t *testing.T) {
	w := newWorld(t, "paths")
	w.refused(w.call(w.all, "GET", "/v2/addresses", nil), http.StatusNotFound, "")
	r := w.call(w.all, "DELETE", "/v1/addresses", nil)
	w.refused(r, http.StatusMethodNotAllowed, "")
	if allow := r.header.Get("Allow"); !strings.Contains(allow, "GET") {
		t.Errorf("Allow: %q", allow)
	}
}

// The API's own rights are for every user together. The admission policy keeps even the API from giving an address away.
func TestTheAPICannotNameAHolder(t *testing.T) {
	w := newWorld(t, "holders")
	w.pool("holders", "192.0.2.112/28")
	f := w.hold("holders", "192.0.2.113", nil)
	own, err := client.New(as("weft-api"), client.Options{Scheme: api.Scheme()})
	w.do(err)
	w.eventually(func() error { // until the API server enforces the policy
		taken := f.DeepCopy()
		taken.Spec.Holder = w.kept("thief", "thief-0")
		err := own.Update(t.Context(), taken, client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "names a holder") {
			return fmt.Errorf("an update that names a holder: %w", errors.Join(err, errors.New("it is not refused")))
		}
		return nil
	})
	if err := own.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "p"}}); !apierrors.IsForbidden(err) {
		t.Error("the API creates pods:", err)
	}
}
