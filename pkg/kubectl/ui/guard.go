package ui

import (
	"net"
	"net/http"
	"slices"
)

// policy is the content security policy of every answer. The page uses no inline script or style. Trusted Types allow
// one policy, by which pictures are parsed as XML.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; " +
	"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types weft-picture"

// headers are on every answer. There is no header of CORS, so that browsers give answers to no other origin.
var headers = map[string]string{
	"Content-Security-Policy":      policy,
	"X-Content-Type-Options":       "nosniff",
	"Referrer-Policy":              "no-referrer",
	"Cache-Control":                "no-store",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Permissions-Policy":           "camera=(), microphone=(), geolocation=()",
}

// guard refuses requests by another name than the server's, and from pages of other origins. A page of the internet
// whose name an attacker points to 127.0.0.1 (DNS rebinding) sends its own name as Host.
func guard(hosts []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		origin := r.Header.Get("Origin")
		switch {
		case !slices.Contains(hosts, r.Host):
			fail(w, http.StatusMisdirectedRequest, "this server is http://"+hosts[0]+", not "+r.Host)
		case origin != "" && origin != "http://"+r.Host:
			fail(w, http.StatusForbidden, "a page of another origin must not read this server")
		case r.Method == http.MethodOptions: // no other origin gets permission to send headers
			fail(w, http.StatusMethodNotAllowed, "this server has no CORS")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// hostsOf are the names of a listener in a browser, the printed name first.
func hostsOf(address net.Addr) []string {
	_, port, err := net.SplitHostPort(address.String())
	if err != nil {
		return []string{address.String()}
	}
	return []string{address.String(), net.JoinHostPort("localhost", port)}
}

// keyed refuses requests without a key.
func (g *gate) keyed(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !g.admits(r) {
			fail(w, http.StatusUnauthorized, "the key is missing or of another run: open the link that kubectl weft ui prints")
			return
		}
		next(w, r)
	}
}
