// Package resolver keeps the addresses of DNS names up to date.
//
//	name ─▶ Names: is it time? ─▶ Client: A and AAAA from the name servers ─▶ addresses, and when to ask again
//
// It is not a stub resolver of the Go library, which does not tell how long an answer is good for.
package resolver
