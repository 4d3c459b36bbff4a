package addressapi

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// Paging are the parameters of each list.
type Paging struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"100" doc:"Largest number of items in the response."`
	Cursor string `query:"cursor" maxLength:"2048" doc:"next of the previous page."`
}

// entry is an object with the keys by which it is sorted. id is unique.
type entry[T any] struct {
	object  T
	key, id string
}

// position is where the next page begins: after an entry in a sort order.
type position struct {
	Sort string `json:"s"`
	Key  string `json:"k"`
	ID   string `json:"i"`
}

// paginate sorts entries, and returns the entries of a page and the cursor of the next page. The cursor is empty at the
// end. A leading minus of the order reverses it.
func paginate[T any](entries []entry[T], order string, p Paging) (page []entry[T], next string, err error) {
	compare := func(x, y entry[T]) int { return cmp.Or(strings.Compare(x.key, y.key), strings.Compare(x.id, y.id)) }
	if strings.HasPrefix(order, "-") {
		forward := compare
		compare = func(x, y entry[T]) int { return forward(y, x) }
	}
	slices.SortFunc(entries, compare)
	if p.Cursor != "" {
		after, err := parseCursor(p.Cursor, order)
		if err != nil {
			return nil, "", err
		}
		start, found := slices.BinarySearchFunc(entries, entry[T]{key: after.Key, id: after.ID}, compare)
		if found {
			start++
		}
		entries = entries[start:]
	}
	if len(entries) <= p.Limit {
		return entries, "", nil
	}
	last := entries[p.Limit-1]
	text, err := json.Marshal(position{order, last.key, last.id})
	return entries[:p.Limit], base64.RawURLEncoding.EncodeToString(text), err
}

// parseCursor reads a cursor, and refuses one of another order.
func parseCursor(cursor, order string) (p position, err error) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil || p.Sort != order {
		return p, problem(http.StatusBadRequest, "cursor: it is not the next of a page with sort="+order,
			ProblemField{Parameter: "cursor", Detail: "it is not the next of a page with sort=" + order})
	}
	return p, nil
}

// contains reports whether any of several texts has another in it, in upper or lower case.
func contains(text string, in ...string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc(in, func(s string) bool { return strings.Contains(strings.ToLower(s), text) })
}
