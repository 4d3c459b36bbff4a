// Package ovndb makes a database hold what units want, by difference, with one writer.
//
//	Apply(unit) ─▶ desired ─┐
//	                        ├─▶ plan ──▶ one transaction ──▶ ledger
//	cache, ledger ─▶ actual ┘     ▲
//	      ▲                       └─ database events, reconnects and audits ask for the same plan again
//	      └─ one monitor, selects for the big shared sets
//
// Rules, each of which a test keeps:
//   - A row's UUID is derived from its symbolic key, so nothing can be inserted twice.
//   - A column is owned whole by one unit or shared by memberships, never both; Schema says which.
//   - Sets compare unordered, and nil equals empty. Columns that OVN writes are never compared.
//   - A unit whose parent row is absent is parked on that row and woken by it.
//   - A group that the database refuses is split until the refused unit stands alone.
//   - Each connection is a new client with exactly one monitor; after each, all desired units are compared again.
//   - A session's bytes go through a link that has deadlines and can be cut; any error of the copy ends the session.
//   - With Fence, a writer proves by a heartbeat that it sees what it writes, and ends with ErrBlind when it cannot for too long.
//   - With Fence, a transaction fails unless this process is the last one that took the epoch.
package ovndb
