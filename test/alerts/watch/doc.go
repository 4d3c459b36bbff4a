// Package watch is as much of a Prometheus as alerts need: it scrapes targets, keeps the samples and evaluates a file of rules, all of it by
// Prometheus' own packages, and tells of each change of an alert. There is no web page, no discovery and no Alertmanager.
//
//	targets ──scrape──▶ tsdb ◀──query── rules, as they are          ──▶ Event
//	                         ◀──query── rules, durations divided    ──▶ Event
//
// The rules may be evaluated several times at once, each with all durations (for, ranges, offsets) divided by a factor: a test that cannot
// hold a fault for half an hour learns from a divided rule that it fires, and from the undivided one what it can.
package watch
