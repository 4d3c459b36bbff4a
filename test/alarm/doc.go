// Package alarm brings the faults about that Weft's alerts are for, in a lab, and wants each alert to fire: not before its fault, not without it,
// and no longer when the fault is cured. Prometheus' own packages scrape, keep and evaluate (test/alerts/watch).
//
//	make e2e-alerts
//
// takes some 20 minutes: some of what alerts read is looked for every 5 minutes. Nobody can hold a fault for the half hour that others wait for, so
// the rules are evaluated with all of their durations divided, and once more as they are, for those that fire within minutes. The lab is one with
// daemons of its own, which can be kept down and stopped.
package alarm
