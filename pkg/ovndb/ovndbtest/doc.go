// Package ovndbtest starts real OVSDB servers, ovn-northd and ovn-trace for tests.
//
// The programs come from the cache that `make tools` fills ($WEFT_CACHE, by default weft in the user's cache directory); a
// test fails, and does not skip, when they are absent.
package ovndbtest
