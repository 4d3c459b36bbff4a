// Package histories checks the operator with random histories. Users, kubelets, agents and vandals act while faults
// are injected, against the real reconcilers, an API server in memory (or a real one) and a real ovsdb-server.
//
//	                 ┌── link ──▶ API server     faults: conflict, lost reply, crash at a write,
//	operator ────────┤                                   late, doubled and lost watch events, stale lists
//	(controllers.    └── wire ──▶ ovsdb-server   faults: cut before and after a commit, crash there,
//	 Setup)                                              a held commit (zombie leader), late rows, kill -9
//
// A seed determines a plan: a list of steps. After the last step all held-back events are delivered and every fault
// ends. Then the northbound database must be a pure function of the API server's objects, row by row and column by
// column, and foreign rows must be unchanged. Pod addresses must be valid, unique, counted, and equal to the
// reported ones. Finally the operator restarts and must write nothing but the epoch.
//
// A failing plan is shrunk: steps are removed as long as it still fails. Goroutine scheduling is not deterministic,
// so a seed repeats the steps but not every interleaving. Therefore a plan is tried several times before it counts
// as passed.
package histories
