// Package leadership lets a process lead, and lead again in the same process after it lost its lease.
//
//	caches, once per process ─────────────────────────────────────────────────────────────────────────────▶
//	manager ─▶ campaign ─▶ lease held ─▶ leader-only work ─▶ lease lost ─▶ writes refused, work stopped ─▶ next manager
//
// A lease is lost when the API server accepts no renewal in time, or when another process holds it. From that moment
// the gate refuses all writes of the ended leadership, and the leader-only work stops before another process can take
// the lease. If the work does not stop by then, Lead returns ErrHung, and the process must exit.
package leadership

import (
	"errors"
)

var (
	// ErrLost means that the lease could not be renewed in time, or that another process holds it.
	ErrLost = errors.New("the lease is lost")
	// ErrHung means that leader-only work did not stop in time. The process must exit.
	ErrHung = errors.New("leader-only work did not stop in time")

	errEnded = errors.New("this leadership has ended")
)
