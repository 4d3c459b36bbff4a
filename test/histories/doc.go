// Package histories checks the operator by random histories: what users, kubelets, agents and vandals do, and everything that can
// go wrong meanwhile, against the real reconcilers, an API server in memory (or a real one) and a real ovsdb-server.
//
//	                 ┌── link ──▶ API server     faults: conflict, lost reply, crash at a write,
//	operator ────────┤                                   late, doubled and lost watch events, stale lists
//	(controllers.    └── wire ──▶ ovsdb-server   faults: cut before and after a commit, crash there,
//	 Setup)                                              a held commit (zombie leader), late rows, kill -9
//
// A seed gives a plan: a list of steps. After the last one everything is delivered, every fault ends, and the northbound
// database must be the pure function of the API server's objects, row by row and column by column, with foreign rows as they were
// made; the addresses in it valid, unique, counted, and those that pods reported. Then the operator is started again and must
// write nothing but the epoch.
//
// A plan that fails is shrunk: steps are left out while it still fails. Goroutines are scheduled as they please, so that a seed
// repeats what was done and not every interleaving; a plan is tried several times before it counts as passed.
package histories
