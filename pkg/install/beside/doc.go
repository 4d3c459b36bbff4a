// Package beside runs private copies of OVN's databases, with an ovn-northd of their own, beside the live databases. A
// private server listens on a unix socket in a private folder only.
//
//	live northbound database ──copy──▶ private northbound database ◀── changes
//	                                        │ ovn-northd
//	live southbound database ──seed──▶ private southbound database
//
// Package rebuild replaces the live databases by such copies. A trace of what a manifest would change reads a copy
// (Copy) and throws it away.
package beside
