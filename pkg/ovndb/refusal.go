package ovndb

import (
	"errors"
	"fmt"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// duplicateUUID is the error member of a result whose insert names a UUID that is already in the table. Inserts that
// name their UUID extend RFC 7047 (ovsdb-server(7)), so libovsdb has no type for their error and returns
// *ovsdb.Error, whose name cannot be read. This is the only error that Weft recognizes by the server's text.
const duplicateUUID = "duplicate uuid"

// errDuplicateUUID matches an insert that the server refused because its table already has a row with that UUID.
var errDuplicateUUID = errors.New(duplicateUUID)

// refusal returns the error of the first operation that the server refused, and its index. The index len(ops) means
// that all operations succeeded and their commit was refused. Without an error the index is -1.
func refusal(results []ovsdb.OperationResult, ops []ovsdb.Operation) (index int, err error) {
	for i, r := range results {
		if r.Error != "" {
			return i, refusalOf(r, ops[min(i, len(ops)):min(i+1, len(ops))])
		}
	}
	return -1, nil
}

// refusalOf returns the error of one result, as libovsdb's type if there is one.
func refusalOf(r ovsdb.OperationResult, op []ovsdb.Operation) error {
	if r.Error == duplicateUUID {
		return fmt.Errorf("%w: %s", errDuplicateUUID, r.Details)
	}
	errs, err := ovsdb.CheckOperationResults([]ovsdb.OperationResult{r}, op)
	if len(errs) > 0 {
		return errs[0]
	}
	return err
}

// IsWriteFailure reports whether the server could not write its file, as on a full disk.
func IsWriteFailure(err error) bool {
	var failed *ovsdb.IOError
	return errors.As(err, &failed)
}

// outdated reports whether the server refused a plan because the database has changed since the plan was computed. A
// row cannot be deleted while it is in a set that is not monitored. A cluster that changes its leader may execute a
// transaction twice, and the second time the rows of the first exist.
func outdated(err error) bool {
	var referenced *ovsdb.ReferentialIntegrityViolation
	return refused(err) && (errors.As(err, &referenced) || errors.Is(err, errDuplicateUUID))
}
