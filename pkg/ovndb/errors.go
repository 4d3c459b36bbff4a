package ovndb

import (
	"errors"
	"fmt"

	"github.com/weft-network/weft/pkg/unit"
)

// ErrFenced means that another process took the epoch. This process must not write any more and must end.
var ErrFenced = errors.New("another process took over the database")

// ErrBlind means that a writer has not seen its database for Config.BlindAfter. Another process may see it.
var ErrBlind = errors.New("the database was unreachable for too long")

// errDisconnected means that the server did not respond or the connection is gone. The engine reconnects.
var errDisconnected = errors.New("not connected")

// PendingError means that a unit is stored but cannot be applied yet. The engine applies it when the reason is gone,
// so callers need not retry.
type PendingError struct {
	Unit   unit.Key
	Reason string
	// Absent is the row of another unit that the unit waits for; meanwhile the unit has no rows in the database. It is empty while
	// the database is away.
	Absent unit.Ref
}

// Error implements error.
func (e *PendingError) Error() string { return fmt.Sprintf("unit %s waits: %s", e.Unit, e.Reason) }

// IsPending reports whether err is a PendingError: the engine will apply the unit without a retry.
func IsPending(err error) bool {
	var pending *PendingError
	return errors.As(err, &pending)
}

// Lacks reports whether err is a PendingError of a unit that waits for a row of another unit, and so has no rows in the database.
func Lacks(err error) bool {
	var pending *PendingError
	return errors.As(err, &pending) && pending.Absent != unit.Ref{}
}

// IgnorePending returns nil for a PendingError and any other error unchanged.
func IgnorePending(err error) error {
	if IsPending(err) {
		return nil
	}
	return err
}

// RejectedError carries the database's error for a unit that it refuses.
type RejectedError struct {
	Unit unit.Key
	Err  error
}

// Error implements error.
func (e *RejectedError) Error() string {
	return fmt.Sprintf("unit %s: database refuses it: %v", e.Unit, e.Err)
}

// Unwrap returns the database's error.
func (e *RejectedError) Unwrap() error { return e.Err }
