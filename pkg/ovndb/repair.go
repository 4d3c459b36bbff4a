package ovndb

import (
	"maps"
	"time"

	"github.com/weft-network/weft/pkg/unit"
)

// findDrift compares a committed unit with the database, and reports whether they differ. Any difference is a foreign
// change, with two exceptions: elements in the unit's rows that other units had and no longer want, such as the ports of
// a group whose pods end (the plans of those units remove them), and elements that the unit gained by Join.
func (w *writer) findDrift(planned *plannedUnit, st *unitState, view dbView) (found bool) {
	e := w.engine
	p := newPlanner(w.session.schema, e.desired, view)
	p.strangers = true
	p.add(st)
	if p.plan.empty() {
		return p.joins
	}
	state := DriftRepaired
	planned.found = e.drift.now()
	switch {
	case e.reportOnly:
		state, planned.left = DriftStanding, true
	case !st.repairs.allow(e.drift.now()):
		planned.left = true
		time.AfterFunc(repairPause, func() { e.requeue([]unit.Key{planned.key}) })
		return true
	}
	planned.drifts = driftsOf(p.plan.changes(w.session.schema, view), state)
	return true
}

// collisions finds foreign rows with the name of a row of the unit. refused selects the tables in which the server
// refuses a second row of the name, rather than the tables that allow it.
func (w *writer) collisions(u unit.Unit, refused bool) []Drift {
	var found []Drift
	for _, row := range u.Rows {
		table, err := w.session.schema.tableOf(row.Model)
		if err != nil || row.Columns != nil || !refused && !w.session.schema.Tables[table].Named {
			continue
		}
		for _, uuid := range w.session.foreignNamesakes(table, row.Model) {
			found = append(found, Drift{Owner: u.Key, Table: table, UUID: uuid, Name: nameOf(row.Model), State: DriftCollision})
		}
	}
	return found
}

// block records the names of a refused unit's rows until the unit is settled.
func (w *writer) block(u unit.Unit, refused bool) {
	e := w.engine
	if len(e.blocked) > 0 {
		maps.DeleteFunc(e.blocked, func(_ rowName, owner unit.Key) bool { return owner == u.Key })
	}
	if !refused {
		return
	}
	for _, row := range u.Rows {
		if name := nameOf(row.Model); name != "" {
			table, _ := w.session.schema.tableOf(row.Model)
			e.blocked[rowName{table, name}] = u.Key
		}
	}
}

// reportDrift records and reports the foreign changes of a unit. If the repair was refused, they count as standing.
func (w *writer) reportDrift(planned plannedUnit, st *unitState, refused bool) {
	e := w.engine
	found := planned.drifts
	if refused {
		for i := range found {
			if found[i].State == DriftRepaired {
				found[i].State = DriftStanding
			}
		}
		found = append(found, w.collisions(st.unit, true)...)
	}
	stood := e.drift.stands(planned.key)
	if len(found) == 0 && !stood {
		return
	}
	database := w.session.schema.Model.Name()
	news := e.drift.seen(planned.key, found)
	w.addForeign(planned, news)
	for _, d := range news {
		e.cfg.Observer.Drift(database, d.Table, string(d.State))
		e.cfg.Log.Info("database row differs from the desired state", "database", database, "unit", d.Owner, "table", d.Table,
			"row", d.UUID, "name", d.Name, "column", d.Column, "want", d.Want, "have", d.Have, "state", d.State)
	}
	if e.cfg.OnDrift != nil {
		e.cfg.OnDrift()
	}
}
