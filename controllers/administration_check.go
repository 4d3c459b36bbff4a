package controllers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	world "github.com/weft-network/weft/controllers/invariant"
	"github.com/weft-network/weft/pkg/admin"
	"github.com/weft-network/weft/pkg/invariant"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/unit"
)

// check is one question that kubectl weft check asks.
type check struct {
	names []string // of what is looked at
	look  func(context.Context) ([]invariant.Violation, error)
}

// checks are all of them.
func (a *administration) checks() []check {
	return []check{
		{[]string{"CopyIsDatabase"}, a.copyIsDatabase},
		{[]string{"DatabaseAsWanted"}, a.databaseAsWanted},
		{invariantNames(), a.invariants},
	}
}

// southboundInvariant needs the southbound database, which the operator does not read: here it would hold whatever is there.
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

// checkPause is when what was found is looked for again: counts in a status may be CountDelay behind.
const checkPause = 3 * time.Second

// invariants checks those of pkg/invariant.
func (a *administration) invariants(ctx context.Context) ([]invariant.Violation, error) {
	reader := &world.Reader{Client: a.objects, Database: a.database, ClusterPolicies: a.policies.ClusterPolicies}
	return reader.Check(ctx, checkPause)
}

// Check implements admin.Operator.
func (a *administration) Check(ctx context.Context) (admin.Violations, error) {
	found := admin.Violations{Violations: []invariant.Violation{}}
	if err := a.ready(ctx); err != nil {
		return found, err
	}
	for _, c := range a.checks() {
		violations, err := c.look(ctx)
		if err != nil {
			return found, fmt.Errorf("check %s: %w", strings.Join(c.names, ", "), err)
		}
		found.Checked = append(found.Checked, c.names...)
		found.Violations = append(found.Violations, violations...)
	}
	return found, nil
}

// copyIsDatabase compares the copy that everything is computed from with the database.
func (a *administration) copyIsDatabase(ctx context.Context) ([]invariant.Violation, error) {
	err := a.database.Verify(ctx)
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

// databaseAsWanted looks for differences between the database and what all units want.
func (a *administration) databaseAsWanted(ctx context.Context) ([]invariant.Violation, error) {
	changes, err := a.database.Drift(ctx)
	var found []invariant.Violation
	for _, c := range changes {
		found = append(found, invariant.Violation{
			Invariant: "DatabaseAsWanted", Owners: []unit.Key{c.Owner}, Rows: []invariant.Row{{Table: c.Table, UUID: c.UUID, Name: c.Name}},
			Message: fmt.Sprintf("%s of %s %s", invariant.Row{Table: c.Table, UUID: c.UUID, Name: c.Name}, c.Owner, wrong(c)),
		})
	}
	return found, err
}

// wrong says in words what a change would put right.
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
