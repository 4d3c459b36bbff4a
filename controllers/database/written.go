package database

import "github.com/weft-network/weft/pkg/ovndb"

// written passes each transaction that wrote rows on to a function, beside an observer.
type written struct {
	ovndb.Observer
	db *Database
}

// Transaction implements ovndb.Observer.
func (w written) Transaction(database, kind string, operations int, err error) {
	w.Observer.Transaction(database, kind, operations, err)
	if w.db.Written != nil && kind == "write" && err == nil {
		w.db.Written()
	}
}

// Observe returns an observer of the engine that also calls Written. It returns nil for nil.
func (d *Database) Observe(observer ovndb.Observer) ovndb.Observer {
	if observer == nil {
		return nil
	}
	return written{observer, d}
}
