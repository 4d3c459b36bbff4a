package ovndb

import (
	"errors"
	"fmt"

	"github.com/weft-network/weft/pkg/unit"
)

// ErrFenced says that another process took the epoch: this one must not write any more and should end.
var ErrFenced = errors.New("another process took over the database")

// ErrBlind says that a writer has not seen its database for Config.BlindAfter: another process may.
var ErrBlind = errors.New("the database was out of reach for too long")

// errDisconnected says that the server did not answer or the connection is gone; the engine connects again.
var errDisconnected = errors.New("not connected")

// PendingError says that a unit is remembered but cannot be applied yet. The engine applies it by itself when the reason
// is gone; nobody needs to try again.
type PendingError struct {
	Unit   unit.Key
	Reason string
}

// Error implements error.
func (e *PendingError) Error() string { return fmt.Sprintf("unit %s waits: %s", e.Unit, e.Reason) }

// IsPending reports whether err says that the engine will apply the unit by itself.
func IsPending(err error) bool {
	var pending *PendingError
	return errors.As(err, &pending)
}

// IgnorePending returns nil for what the engine goes on with by itself, and other errors as they are.
func IgnorePending(err error) error {
	if IsPending(err) {
		return nil
	}
	return err
}

// RejectedError carries the database's own words about a unit that it refuses.
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
