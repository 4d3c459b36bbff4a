package inspect

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weft-network/weft/pkg/invariant"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/process/admin"
	"github.com/weft-network/weft/pkg/unit"
)

// check is a part of kubectl weft check.
type check struct {
	names []string // names of what is checked
	run   func(context.Context) ([]invariant.Violation, error)
}

// checks returns all checks.
func (a *Inspector) checks() []check {
	return []check{
		{[]string{"CopyIsDatabase"}, a.copyIsDatabase},
		{[]string{"DatabaseAsWanted"}, a.databaseAsWanted},
		{invariantNames(), a.invariants},
	}
}

// southboundInvariant needs the southbound database, which the operator does not read. Without it, the invariant
// would always hold.
const southboundInvariant = "SouthboundKeys"

func invariantNames() []string {
	var names []string
	for _, i := range invariant.All() {
		if i.Name != southboundInvariant {
			names = append(names, i.Name)
		}
	}
	return names
}

// checkPause is the time between finding a violation and confirming it. Counts in a status may be CountDelay behind.
const checkPause = 3 * time.Second

// invariants checks the invariants of pkg/invariant.
func (a *Inspector) invariants(ctx context.Context) ([]invariant.Violation, error) {
	return a.World.Check(ctx, checkPause)
}

// Check implements admin.Operator.
func (a *Inspector) Check(ctx context.Context) (admin.Violations, error) {
	found := admin.Violations{Violations: []invariant.Violation{}}
	if err := a.ready(ctx); err != nil {
		return found, err
	}
	for _, c := range a.checks() {
		violations, err := c.run(ctx)
		if err != nil {
			return found, fmt.Errorf("check %s: %w", strings.Join(c.names, ", "), err)
		}
		found.Checked = append(found.Checked, c.names...)
		found.Violations = append(found.Violations, violations...)
	}
	return found, nil
}

// copyIsDatabase compares the copy from which everything is computed with the database.
func (a *Inspector) copyIsDatabase(ctx context.Context) ([]invariant.Violation, error) {
	err := a.Database.Verify(ctx)
	diverged, ok := errors.AsType[*ovndb.DivergedError](err)
	if !ok {
		return nil, err
	}
	var found []invariant.Violation
	for _, difference := range diverged.Differences {
		found = append(found, invariant.Violation{Invariant: "CopyIsDatabase", Message: difference})
	}
	return found, nil
}

// databaseAsWanted returns the differences between the database and all units.
func (a *Inspector) databaseAsWanted(ctx context.Context) ([]invariant.Violation, error) {
	changes, err := a.Database.Drift(ctx)
	var found []invariant.Violation
	for _, c := range changes {
		found = append(found, invariant.Violation{
			Invariant: "DatabaseAsWanted", Owners: []unit.Key{c.Owner},
			Rows:    []invariant.Row{{Table: c.Table, UUID: c.UUID, Name: c.Name}},
			Message: fmt.Sprintf("%s of %s %s", invariant.Row{Table: c.Table, UUID: c.UUID, Name: c.Name}, c.Owner, wrong(c)),
		})
	}
	return found, err
}

// wrong describes in words the error that a change would repair.
func wrong(c ovndb.Change) string {
	var names []string
	for _, column := range c.Columns {
		names = append(names, column.Column)
	}
	columns := strings.Join(names, ", ")
	switch c.Op {
	case ovndb.OpInsert:
		return "is absent"
	case ovndb.OpDelete:
		return "should be absent"
	case ovndb.OpAdd:
		return "lacks an element of " + columns
	case ovndb.OpRemove:
		return "has an element of " + columns + " that it should not have"
	}
	return "differs in " + columns
}
