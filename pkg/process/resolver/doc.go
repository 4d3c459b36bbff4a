// Package resolver keeps the addresses of DNS names up to date.
//
//	name ─▶ Names: is it due? ─▶ Client: A and AAAA from the name servers ─▶ addresses, and when to query again
//
// The stub resolver of the Go library does not return how long a reply is valid.
package resolver
