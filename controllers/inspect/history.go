package inspect

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/ovndb/history"
	"github.com/weft-network/weft/pkg/process/admin"
	"github.com/weft-network/weft/pkg/unit"
)

// History implements admin.Operator. It needs neither the database nor the caches.
func (a *Inspector) History(_ context.Context, request admin.HistoryRequest) (admin.History, error) {
	if err := a.leads(); err != nil {
		return admin.History{}, err
	}
	concerns, err := concerning(request.Object, a.Kinds)
	if err != nil {
		return admin.History{}, err
	}
	entries, since := a.Database.Latest(request.Limit, concerns)
	return admin.History{Since: since, Writer: a.Database.Writer(), Entries: entries}, nil
}

// concerning returns a function that selects the changes of an object's units, and changes that the object caused.
func concerning(object unit.Key, kinds []*kind.Kind) (func(history.Change, history.Cause) bool, error) {
	if object == "" {
		return func(history.Change, history.Cause) bool { return true }, nil
	}
	keys := unitsOf(object, kinds)
	if len(keys) == 0 {
		return nil, fmt.Errorf("%w: %q has no rows of Weft; want KIND/NAMESPACE/NAME or KIND/NAME, with one of the kinds %s",
			admin.ErrInvalid, object, strings.Join(objectKinds(kinds), ", "))
	}
	return func(c history.Change, cause history.Cause) bool {
		return cause.Object == object || slices.Contains(keys, c.Owner) || slices.Contains(keys, c.Holder)
	}, nil
}

// unitsOf returns the units of an object: one of each kind that reconciles it. A unit without an object is named by its
// own key.
func unitsOf(object unit.Key, kinds []*kind.Kind) (keys []unit.Key) {
	if object.Name() == "" {
		return nil
	}
	for _, k := range kinds {
		if k.ObjectKind() == object.Kind() && hasUnits(k) {
			keys = append(keys, unit.NewKey(k.Name, object.Name()))
		}
	}
	return keys
}

// hasUnits reports whether a kind has units in the database. The sweep, for example, only enqueues.
func hasUnits(k *kind.Kind) bool { return k.Owner != nil || k.Object != "" || k.Shared }

func objectKinds(kinds []*kind.Kind) []string {
	var names []string
	for _, k := range kinds {
		if hasUnits(k) {
			names = append(names, k.ObjectKind())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
