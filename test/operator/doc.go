// Package operator tests the operator as a whole: every reconciler, on a real API server and a real OVN northbound database.
package operator
