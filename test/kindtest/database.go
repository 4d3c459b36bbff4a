package kindtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/unit"
)

// Database records units instead of writing them. It implements kind.Database. Its exported fields are what it answers;
// they may be changed between two reconciliations.
type Database struct {
	// Refusals are the errors that Apply returns, by unit.
	Refusals map[unit.Key]error
	// Away: the database is not connected.
	Away bool
	// Old: the server has no optional column.
	Old bool
	// Fail is the error of Failure.
	Fail error
	// Refuse is the error of Refused.
	Refuse error
	// ExistingPorts are the ports that a start finds.
	ExistingPorts []*nbdb.LogicalSwitchPort
	// Sessions are the BFD sessions of gateway routers.
	Sessions []*nbdb.BFD
	// Sets has the elements of columns, by the row's UUID.
	Sets map[string][]string
	// Drift is what Drifts returns.
	Drift ovndb.DriftReport

	mu         sync.Mutex
	units      map[unit.Key]unit.Unit
	applied    map[unit.Key]bool // since the last take
	names      map[string]string // of rows, by UUID
	reportOnly bool
}

var _ kind.Database = &Database{}

func newDatabase() *Database {
	return &Database{Refusals: map[unit.Key]error{}, Sets: map[string][]string{}, units: map[unit.Key]unit.Unit{},
		applied: map[unit.Key]bool{}, names: map[string]string{}}
}

// Apply implements kind.Database.
func (d *Database) Apply(_ context.Context, u unit.Unit) error {
	d.keep(u)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.applied[u.Key] = true
	if err := d.Refusals[u.Key]; err != nil {
		return err
	}
	if d.Away {
		return &ovndb.PendingError{Unit: u.Key, Reason: "the database is away"}
	}
	return nil
}

// Unit implements kind.Database.
func (d *Database) Unit(key unit.Key) unit.Unit {
	d.mu.Lock()
	defer d.mu.Unlock()
	if u, ok := d.units[key]; ok {
		return u
	}
	return unit.Unit{Key: key}
}

// Join implements kind.Database.
func (d *Database) Join(keys []unit.Key, members func(unit.Unit) []unit.Membership) {
	for _, key := range keys {
		u := d.Unit(key)
		if u.Empty() {
			continue
		}
		has := func(m unit.Membership) bool { return slices.Contains(u.Members, m) }
		u.Members = slices.Concat(u.Members, slices.DeleteFunc(members(u), has))
		d.keep(u)
	}
}

// Regroup implements kind.Database.
func (d *Database) Regroup(changes []unit.Regrouping) {
	for _, c := range changes {
		d.Join(c.Join, c.Members)
		for _, key := range c.Leave {
			u := d.Unit(key)
			leaves := func(m unit.Membership) bool { return m.Optional && slices.Contains(c.Rows, m.Parent) }
			u.Members = slices.DeleteFunc(slices.Clone(u.Members), leaves)
			d.keep(u)
		}
	}
}

// End implements kind.Database.
func (d *Database) End(keys []unit.Key, rows []unit.Ref) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, u := range d.units {
		ends := func(m unit.Membership) bool { return m.Optional && slices.Contains(rows, m.Parent) }
		u.Members = slices.DeleteFunc(slices.Clone(u.Members), ends)
		d.units[key] = u
	}
	for _, key := range keys {
		d.units[key], d.applied[key] = unit.Unit{Key: key}, true
	}
}

// ApplyAll implements kind.Database.
func (d *Database) ApplyAll(ctx context.Context, units ...unit.Unit) (err error) {
	for _, u := range units {
		err = errors.Join(err, ovndb.IgnorePending(d.Apply(ctx, u)))
	}
	return err
}

// Retry implements kind.Database.
func (d *Database) Retry(ctx context.Context, key unit.Key) error { return d.Apply(ctx, d.Unit(key)) }

func (d *Database) keep(u unit.Unit) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.units[u.Key] = u
	for _, row := range u.Rows {
		v := reflect.ValueOf(row.Model).Elem()
		d.names[v.FieldByName("UUID").String()] = rowName(v)
	}
}

// take returns the texts of the units that were applied since the last call.
func (d *Database) take() map[unit.Key][]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	found := map[unit.Key][]string{}
	for key := range d.applied {
		found[key] = d.text(d.units[key])
	}
	clear(d.applied)
	return found
}

func (d *Database) texts() map[unit.Key][]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	found := map[unit.Key][]string{}
	for key, u := range d.units {
		found[key] = d.text(u)
	}
	return found
}

// text renders a unit, sorted: a line for each row, with the columns that are set, and one for each element that the unit
// adds to another row. References are names of rows; a row that no unit has brought is its UUID.
func (d *Database) text(u unit.Unit) (lines []string) {
	name := func(uuid string) string {
		if name, ok := d.names[uuid]; ok {
			return name
		}
		return uuid
	}
	for _, row := range u.Rows {
		v := reflect.ValueOf(row.Model).Elem()
		words := []string{v.Type().Name(), rowName(v)}
		var columns []string
		for i := range v.NumField() {
			column := v.Type().Field(i).Tag.Get("ovsdb")
			if column == "_uuid" || column == "name" || v.Field(i).IsZero() {
				continue
			}
			value := reflect.Indirect(v.Field(i))
			if references, ok := value.Interface().([]string); ok {
				texts := make([]string, 0, len(references))
				for _, reference := range references {
					texts = append(texts, name(reference))
				}
				value = reflect.ValueOf(texts)
			}
			columns = append(columns, fmt.Sprintf("%s=%v", column, value))
		}
		slices.Sort(columns)
		lines = append(lines, strings.Join(append(words, columns...), " "))
	}
	for _, m := range u.Members {
		parent := m.Parent.Table
		if m.Parent.UUID != "" {
			parent += " " + name(m.Parent.UUID)
		}
		element := name(m.Element)
		if m.Value != "" {
			element += "=" + name(m.Value)
		}
		if m.Optional {
			element += " (optional)"
		}
		lines = append(lines, fmt.Sprintf("%s: %s += %s", parent, m.Column, element))
	}
	slices.Sort(lines)
	return lines
}

// rowName is a row's name, or what a row without a name matches.
func rowName(row reflect.Value) string {
	for _, column := range []string{"Name", "Match", "IPPrefix", "LogicalIP", "Chassis"} {
		if field := reflect.Indirect(row.FieldByName(column)); field.Kind() == reflect.String && field.String() != "" {
			return field.String()
		}
	}
	return row.FieldByName("UUID").String()
}

// Connected implements kind.Database.
func (d *Database) Connected() bool { return !d.Away }

// Wait implements kind.Database. It does not wait.
func (d *Database) Wait(_ context.Context, ready func() (bool, error)) error {
	if ok, err := ready(); err != nil || ok {
		return err
	}
	return fmt.Errorf("the database is away")
}

// Refused implements kind.Database.
func (d *Database) Refused() error { return d.Refuse }

// Failure implements kind.Database.
func (d *Database) Failure() error { return d.Fail }

// Drifts implements kind.Database.
func (d *Database) Drifts() ovndb.DriftReport { return d.Drift }

// ReportOnly implements kind.Database.
func (d *Database) ReportOnly(on bool) { d.reportOnly = on }

// ReportsOnly returns what the reconciler last passed to ReportOnly.
func (d *Database) ReportsOnly() bool { return d.reportOnly }

// Has implements kind.Database.
func (d *Database) Has(string, string) bool { return !d.Old }

// Wanted implements kind.Database.
func (d *Database) Wanted(key unit.Key) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.units[key].Empty()
}

// Owners implements kind.Database.
func (d *Database) Owners() (owners map[unit.Key]int, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	owners = map[unit.Key]int{}
	for _, key := range slices.Collect(maps.Keys(d.units)) {
		owners[key] = len(d.units[key].Rows)
	}
	return owners, !d.Away
}

// RowsOf implements kind.Database.
func (d *Database) RowsOf(key unit.Key) (rows []unit.Row, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	u, applied := d.units[key]
	return u.Rows, applied || !d.Away
}

// Elements implements kind.Database.
func (d *Database) Elements(_ context.Context, _, uuid, _ string) ([]string, error) {
	return d.Sets[uuid], nil
}

// Ports implements kind.Database.
func (d *Database) Ports(context.Context) ([]*nbdb.LogicalSwitchPort, error) {
	return d.ExistingPorts, nil
}

// Watched implements kind.Database.
func (d *Database) Watched() []*nbdb.BFD { return d.Sessions }

// Text returns the lines of a unit, as an Outcome has them.
func (b *Bed) Text(u unit.Unit) []string {
	b.Seed(unit.Unit{Key: unit.NewKey("text", string(u.Key)), Rows: u.Rows}) // so that its rows have names
	b.Database.mu.Lock()
	defer b.Database.mu.Unlock()
	delete(b.Database.units, unit.NewKey("text", string(u.Key)))
	return b.Database.text(u)
}
