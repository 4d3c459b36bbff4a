package controllers

import (
	"context"
	"fmt"

	"github.com/weft-network/weft/pkg/admin"
)

// check is one question that kubectl weft check asks.
type check struct {
	name string
	look func(context.Context) ([]admin.Violation, error)
}

// checks are all of them.
func (a *administration) checks() []check {
	return []check{
		{"DatabaseAsWanted", a.databaseAsWanted},
	}
}

// Check implements admin.Operator.
func (a *administration) Check(ctx context.Context) (admin.Violations, error) {
	found := admin.Violations{Violations: []admin.Violation{}}
	if err := a.ready(ctx); err != nil {
		return found, err
	}
	for _, c := range a.checks() {
		violations, err := c.look(ctx)
		if err != nil {
			return found, fmt.Errorf("check %s: %w", c.name, err)
		}
		found.Checked = append(found.Checked, c.name)
		found.Violations = append(found.Violations, violations...)
	}
	return found, nil
}

// databaseAsWanted looks for differences between the database and what all units want.
func (a *administration) databaseAsWanted(ctx context.Context) ([]admin.Violation, error) {
	changes, err := a.database.Drift(ctx)
	var found []admin.Violation
	for _, c := range changes {
		found = append(found, admin.Violation{
			Invariant: "DatabaseAsWanted", Subject: string(c.Owner), Message: fmt.Sprintf("%s %s needs %s", c.Table, rowName(c.Name, c.UUID), c.Op),
		})
	}
	return found, err
}

func rowName(name, uuid string) string {
	if name == "" {
		return uuid
	}
	return name
}
