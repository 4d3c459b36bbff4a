// Package ovndb makes a database match the desired units. It writes only differences, and it is the only writer.
//
//	Apply(unit) ─▶ desired ─┐
//	                        ├─▶ plan ──▶ one transaction ──▶ ledger
//	cache, ledger ─▶ actual ┘     ▲
//	      ▲                       └─ database events, reconnects and audits enqueue the same plan again
//	      └─ one monitor, selects for the big shared sets
//
// Invariants, each of which has a test:
//   - A row's UUID is derived from its symbolic key, so that no row can be inserted twice.
//   - A column is either owned whole by one unit or shared by memberships. Schema defines which.
//   - Sets compare unordered, and nil equals empty. Columns that OVN writes are never compared.
//   - A unit whose parent row is absent is parked until that row appears.
//   - A group that the database refuses is split until the refused unit is alone.
//   - Each connection is a new client with exactly one monitor. After each connect, all desired units are compared
//     again.
//   - A session's bytes pass through a link that has deadlines and can be cut. Any error of the copy ends the
//     session.
//   - With Fence, a writer proves by a heartbeat that it sees its own writes, and ends with ErrBlind after too long
//     without that proof.
//   - With Fence, a transaction fails unless this process was the last to take the epoch.
package ovndb
