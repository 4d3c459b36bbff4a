// Package watch is a minimal Prometheus for alerts. It scrapes targets, stores the samples and evaluates a file of
// rules, all with Prometheus' own packages, and reports each change of an alert. It has no web page, no discovery
// and no Alertmanager.
//
//	targets ──scrape──▶ tsdb ◀──query── rules, undivided          ──▶ Event
//	                         ◀──query── rules, durations divided    ──▶ Event
//
// The rules may be evaluated several times in parallel, each time with all durations (for, ranges, offsets) divided
// by a factor. A test that cannot hold a fault for half an hour thus checks a divided rule, and the undivided rule
// where possible.
package watch
