package chassis

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/sbdb"
	"github.com/weft-network/weft/pkg/ovn/wire"
	"github.com/weft-network/weft/pkg/unit"
)

// leftAfter is the default of Options.LeftAfter. A new node's chassis is there some seconds before its row in the northbound database.
const leftAfter = time.Minute

// left finds the chassis that ovn-controllers of former nodes left behind. While one stays, ovn-northd waits for its acknowledgement of
// each change, other nodes keep a tunnel to its address, and no new node can have that address.
type left struct {
	after time.Duration
	since map[string]time.Time // chassis without a node
	back  map[string]bool      // removed before: if it is there again, its ovn-controller runs
}

// compare notes which chassis have no node, and returns those to remove, sorted. It returns none while the northbound database has no
// node at all, as after its loss.
func (l *left) compare(here, nodes map[string]bool, now time.Time) (gone []string) {
	before := l.since
	l.since = map[string]time.Time{}
	if len(nodes) == 0 {
		return nil
	}
	maps.DeleteFunc(l.back, func(name string, _ bool) bool { return nodes[name] })
	for name := range here {
		if nodes[name] || l.back[name] {
			continue
		}
		since, known := before[name]
		if !known {
			since = now
		}
		if l.since[name] = since; now.Sub(since) >= l.after {
			gone = append(gone, name)
		}
	}
	slices.Sort(gone)
	return gone
}

// next fires when the next chassis is to be removed. It is nil without one.
func (l *left) next(now time.Time) <-chan time.Time {
	if len(l.since) == 0 {
		return nil
	}
	first := slices.MinFunc(slices.Collect(maps.Values(l.since)), time.Time.Compare)
	return time.After(first.Add(l.after).Sub(now))
}

// removed notes that a chassis was removed.
func (l *left) removed(name string) {
	if l.back == nil {
		l.back = map[string]bool{}
	}
	l.back[name] = true
	delete(l.since, name)
}

// remove removes the chassis that were left behind.
func (f *follower) remove(ctx context.Context, southbound, northbound map[string][]model.Model) {
	gone := f.left.compare(namesHere(southbound), namesOfNodes(northbound), time.Now())
	if len(gone) == 0 {
		return
	}
	database, err := wire.Dial(ctx, f.Southbound, wire.Southbound)
	if err == nil {
		defer database.Close()
	}
	for _, name := range gone {
		if err == nil {
			_, err = database.Transact(ctx, wire.Delete(sbdb.ChassisTable, wire.Is("name", name)),
				wire.Delete(sbdb.ChassisPrivateTable, wire.Is("name", name)),
				wire.Comment(f.Writer+" removes chassis "+name+": the northbound database has no such node"))
		}
		if err != nil {
			f.Log.Info("cannot remove the chassis of a former node; retrying", "chassis", name, "reason", err.Error())
			f.left.since[name] = time.Now()
			continue
		}
		f.Log.Info("removed the chassis of a former node", "chassis", name)
		f.left.removed(name)
	}
}

// namesHere returns the names of the chassis that ovn-controllers of this zone made.
func namesHere(southbound map[string][]model.Model) map[string]bool {
	found := map[string]bool{}
	for _, c := range rowsOf[sbdb.ChassisPrivate](southbound[sbdb.ChassisPrivateTable]) {
		found[c.Name] = true
	}
	for _, c := range rowsOf[sbdb.Chassis](southbound[sbdb.ChassisTable]) {
		found[c.Name] = unit.Key(c.ExternalIDs[unit.OwnerKey]).Kind() != kind && c.OtherConfig["is-remote"] != "true"
	}
	maps.DeleteFunc(found, func(_ string, here bool) bool { return !here })
	return found
}

// namesOfNodes returns the names of the chassis of this zone's nodes.
func namesOfNodes(northbound map[string][]model.Model) map[string]bool {
	found := map[string]bool{}
	for _, v := range rowsOf[nbdb.ChassisTemplateVar](northbound[nbdb.ChassisTemplateVarTable]) {
		found[v.Chassis] = true
	}
	return found
}
