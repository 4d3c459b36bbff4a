package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/process/admin"
	"github.com/weft-network/weft/pkg/unit"
)

// planText renders a plan.
func planText(answer admin.Changes) string {
	if len(answer.Changes) == 0 {
		return "No row would change.\n" + notesText(answer.Notes)
	}
	return changesText(answer.Changes) + "\n" + summary(answer.Changes) + "\n" + notesText(answer.Notes)
}

// driftText renders the drift as the changes that would repair it.
func driftText(answer admin.Changes) string {
	if len(answer.Changes) == 0 {
		return "The database matches the desired state.\n" + notesText(answer.Notes)
	}
	return "Changes that would repair the database:\n\n" + changesText(answer.Changes) + "\n" +
		summary(answer.Changes) + "\n" + notesText(answer.Notes)
}

// checkText renders the violations by invariant.
func checkText(answer admin.Violations) string {
	var out strings.Builder
	for _, v := range answer.Violations {
		fmt.Fprintln(&out, v)
	}
	switch n := len(answer.Violations); n {
	case 0:
		fmt.Fprintf(&out, "%d invariants hold.\n", len(answer.Checked))
	case 1:
		fmt.Fprintf(&out, "\n1 violation, %d invariants checked.\n", len(answer.Checked))
	default:
		fmt.Fprintf(&out, "\n%d violations, %d invariants checked.\n", n, len(answer.Checked))
	}
	return out.String()
}

func notesText(notes []string) string {
	var out strings.Builder
	for i, note := range notes {
		if i == 0 {
			out.WriteString("\n")
		}
		fmt.Fprintf(&out, "Note: %s\n", note)
	}
	return out.String()
}

// summary counts changes, as in "3 rows to insert, 1 to update, 0 to delete; 4 elements to add, 0 to remove".
func summary(changes []ovndb.Change) string {
	count := map[ovndb.Op]int{}
	for _, c := range changes {
		count[c.Op]++
	}
	return fmt.Sprintf("%s to insert, %d to update, %d to delete; %s to add, %d to remove",
		several(count[ovndb.OpInsert], "row"), count[ovndb.OpUpdate], count[ovndb.OpDelete],
		several(count[ovndb.OpAdd], "element"), count[ovndb.OpRemove])
}

func several(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// row holds all changes of one owner to one row.
type row struct {
	owner       unit.Key
	table, name string
	sign        string   // "+", "~" or "-"
	lines       []column // sorted by column
}

// column is a line of the output: a column and its change.
type column struct{ name, value string }

// changesText renders changes by owner: a line for each row, with its columns below.
func changesText(changes []ovndb.Change) string {
	var out strings.Builder
	var owner unit.Key
	for i, r := range groupRows(changes) {
		if i == 0 || r.owner != owner {
			if i > 0 {
				out.WriteString("\n")
			}
			owner = r.owner
			fmt.Fprintf(&out, "%s\n", owner)
		}
		r.render(&out)
	}
	return out.String()
}

func (r row) render(out *strings.Builder) {
	fmt.Fprintf(out, "  %s %s %s\n", r.sign, r.table, r.name)
	width := 0
	for _, c := range r.lines {
		width = max(width, len(c.name))
	}
	for _, c := range r.lines {
		fmt.Fprintf(out, "      %-*s  %s\n", width, c.name, c.value)
	}
}

// groupRows groups changes by row, and sorts the rows by owner, table and name.
func groupRows(changes []ovndb.Change) []row {
	names := map[string]string{} // UUID -> name
	for _, c := range changes {
		if c.Name != "" {
			names[c.UUID] = c.Name
		}
	}
	named := func(uuid string) string { return cmp.Or(names[uuid], uuid) }
	type place struct {
		owner       unit.Key
		table, name string
	}
	found := map[place]*row{}
	var order []*row
	for _, c := range changes {
		at := place{c.Owner, c.Table, cmp.Or(c.Name, named(c.UUID))}
		r := found[at]
		if r == nil {
			r = &row{owner: c.Owner, table: c.Table, name: at.name, sign: "~"}
			found[at] = r
			order = append(order, r)
		}
		r.add(c, named)
	}
	slices.SortStableFunc(order, func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.owner, b.owner), cmp.Compare(a.table, b.table), cmp.Compare(a.name, b.name))
	})
	rows := make([]row, 0, len(order))
	for _, r := range order {
		slices.SortStableFunc(r.lines, func(a, b column) int {
			return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.value, b.value))
		})
		rows = append(rows, *r)
	}
	return rows
}

// add adds a change to the row.
func (r *row) add(c ovndb.Change, named func(uuid string) string) {
	switch c.Op {
	case ovndb.OpInsert:
		r.sign = "+"
	case ovndb.OpDelete:
		r.sign = "-"
	}
	for _, changed := range c.Columns {
		if c.Op == ovndb.OpInsert && changed.Column == "name" {
			continue // already in the row's heading
		}
		r.lines = append(r.lines, column{changed.Column, valueText(c.Op, changed, named)})
	}
}

// valueText renders the change of a column. An element that refers to a row is shown by the row's name.
func valueText(op ovndb.Op, c ovndb.ColumnChange, named func(uuid string) string) string {
	switch op {
	case ovndb.OpInsert:
		return c.Want
	case ovndb.OpAdd:
		if c.Have != "" { // a map's pair gets another value
			return "~ " + c.Have + " -> " + c.Want
		}
		return "+ " + named(c.Want)
	case ovndb.OpRemove:
		return "- " + named(c.Have)
	}
	return cmp.Or(c.Have, "(nothing)") + " -> " + cmp.Or(c.Want, "(nothing)")
}
