package ui

import (
	"crypto/rand"
	"crypto/subtle"
	"net/http"
	"strings"
	"sync"
)

// gate decides which requests may read the cluster. A link's token is good for one exchange against a key, and a key
// for as long as the server runs. The browser keeps the key in its tab's sessionStorage, which no other origin, port
// or tab can read, and sends it as a header. A cookie would also go to servers of other users on other ports.
type gate struct {
	mu       sync.Mutex
	token    string
	keys     []string
	announce func(token string)
}

// newGate returns a gate with a first token. announce is called with each further token.
func newGate(announce func(token string)) *gate {
	return &gate{token: rand.Text(), announce: announce}
}

// enter exchanges a token against a key. It replaces the token with a new token.
func (g *gate) enter(token string) (key string, ok bool) {
	g.mu.Lock()
	if !same(token, g.token) {
		g.mu.Unlock()
		return "", false
	}
	key, g.token = rand.Text(), rand.Text()
	g.keys = append(g.keys, key)
	next := g.token
	g.mu.Unlock()
	g.announce(next)
	return key, true
}

// admits reports whether a request has a key.
func (g *gate) admits(r *http.Request) bool {
	key, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, known := range g.keys {
		if same(key, known) {
			return ok
		}
	}
	return false
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
