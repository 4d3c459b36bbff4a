package topology

import (
	"slices"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/unit"
)

// logACL configures the logging of an ACL and returns the rows of its meter: first the Meter, then its band. Every
// rule has a meter of its own, so that a noisy rule does not hide the others, and the meter counts that
// rule alone.
func logACL(logging networkv1alpha1.ACLLogging, owner unit.Key, rule string, acl *nbdb.ACL) []unit.Row {
	verdict := verdictOf(acl.Action)
	severity := logging.Allow
	if verdict == "drop" {
		severity = logging.Deny
	}
	if severity == "" {
		return nil
	}
	meter := names.RuleMeter(string(owner), verdict, rule)
	acl.Log, acl.Severity, acl.Meter = true, &severity, &meter
	band := unit.UUID(nbdb.MeterBandTable, meter)
	return []unit.Row{
		{Model: &nbdb.Meter{UUID: unit.UUID(nbdb.MeterTable, meter), Name: meter, Unit: nbdb.MeterUnitPktps, Bands: []string{band}}},
		{Model: &nbdb.MeterBand{UUID: band, Action: nbdb.MeterBandActionDrop, Rate: logging.Rate}},
	}
}

// verdictOf returns the word for an action in ovn-controller's log.
func verdictOf(action nbdb.ACLAction) string {
	if action == nbdb.ACLActionAllowRelated {
		return "allow"
	}
	return action
}

// addMeter adds the rows of an ACL's meter to a unit, once. Several ACLs can belong to one rule.
func addMeter(u *unit.Unit, rows []unit.Row) {
	if len(rows) > 0 && !slices.ContainsFunc(u.Rows, func(have unit.Row) bool { return sameMeter(have, rows[0]) }) {
		u.Rows = append(u.Rows, rows...)
	}
}

func sameMeter(a, b unit.Row) bool {
	x, ok := a.Model.(*nbdb.Meter)
	y, ok2 := b.Model.(*nbdb.Meter)
	return ok && ok2 && x.Name == y.Name
}
