// Package alertfaults injects in a lab the faults for which Weft has alerts, and checks that each alert fires: not
// before its fault, not without it, and no longer once the fault is repaired. Prometheus' own packages scrape, store
// and evaluate (test/alertrules/watch).
//
//	make e2e-alerts
//
// takes about 20 minutes, because some metrics are updated only every 5 minutes. A test cannot hold a fault for the
// half hour of some alerts. So the rules are evaluated with all durations divided, and also undivided for the alerts
// that fire within minutes. The lab has its own daemons, which can be stopped and kept down.
package alertfaults
