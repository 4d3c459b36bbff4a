package history

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weft-network/weft/pkg/unit"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

func all(Change, Cause) bool { return true }

// The record stays within its bounds, and says since when it is complete.
func TestRecorderIsBounded(t *testing.T) {
	for _, c := range []struct {
		name   string
		length int
	}{{"in entries", 1}, {"in bytes", 10_000}} {
		t.Run(c.name, func(t *testing.T) {
			var r Recorder
			var d Draft
			r.Begin(start)
			r.Begin(start.Add(time.Hour)) // after a reconnect
			if !r.Since().Equal(start) {
				t.Errorf("recorded since %s, want %s", r.Since(), start)
			}
			const added = MaxEntries + 5
			for i := range added {
				d.Begin(start.Add(time.Duration(i)*time.Second), ByWeft)
				d.Change("insert", unit.Key(strings.Repeat("x", c.length)), "", "T", fmt.Sprint(i), "")
				r.Add(&d, StateCommitted)
			}
			found := r.Latest(0, all)
			if len(found) == 0 || len(found) > MaxEntries || r.bytes > MaxBytes || r.bytes < MaxBytes/2 && len(found) < MaxEntries {
				t.Errorf("%d entries with %d bytes", len(found), r.bytes)
			}
			if last := found[len(found)-1]; last.Changes[0].UUID != fmt.Sprint(added-1) {
				t.Errorf("the last entry is %+v", last)
			}
			if want := found[0].Time.Add(-time.Second); !r.Since().Equal(want) { // that of the last entry that went
				t.Errorf("recorded since %s, want %s", r.Since(), want)
			}
			if latest := r.Latest(3, all); !cmp.Equal(latest, found[len(found)-3:]) {
				t.Errorf("the latest 3 are %+v", latest)
			}
		})
	}
}

// An entry without room counts its further changes.
func TestEntriesAreBounded(t *testing.T) {
	var r Recorder
	var d Draft
	d.Begin(start, ByWeft)
	d.Cause(Cause{Unit: "network/default"})
	for i := range 10_000 {
		if d.Change("add", "network/default", "", "T", fmt.Sprint(i), strings.Repeat("n", 10_000)) {
			d.Text("c", "", strings.Repeat("x", 10_000))
		}
	}
	r.Add(&d, StateCommitted)
	e := r.Latest(0, all)[0]
	if len(e.Changes)+e.Omitted != 10_000 || len(e.Changes) == 0 || r.bytes > 2*maxEntry {
		t.Errorf("%d changes, %d omitted, %d bytes", len(e.Changes), e.Omitted, r.bytes)
	}
	if value := e.Changes[0].Columns[0].After; len(value) != maxValue+len("...") || !strings.HasSuffix(value, "x...") {
		t.Errorf("the value is %q", value)
	}
}

func TestDifferencesAreShort(t *testing.T) {
	endpoints := func(changed string) string {
		var all []string
		for i := range 1000 {
			all = append(all, fmt.Sprintf("10.244.%d.%d:80", i/250, i%250))
		}
		all[500] = changed
		return strings.Join(all, ",")
	}
	name, none := "x", (*string)(nil)
	for _, c := range []struct {
		before, after any
		want          Column
	}{
		{"a", "b", Column{"c", "a", "b"}},
		{1, 2, Column{"c", "1", "2"}},
		{none, &name, Column{"c", "", "x"}},
		{true, false, Column{"c", "true", "false"}},
		{[]string{"a", "c", "b"}, []string{"d", "b", "a"}, Column{"c", "c", "d"}},
		{[]string(nil), []string{"b", "a"}, Column{"c", "", "a, b"}},
		{map[string]string{"same": "1", "a": "1", "b": "2"}, map[string]string{"same": "1", "a": "3"}, Column{"c", "a=1, b=2", "a=3"}},
		{map[string]string{"10.96.0.1:80": endpoints("before:80")}, map[string]string{"10.96.0.1:80": endpoints("after:80")},
			Column{"c", "10.96.0.1:80=...before:80...", "10.96.0.1:80=...after:80..."}},
		{endpoints("before:80"), endpoints("after:80"), Column{"c", "...before:80...", "...after:80..."}},
		{[]int{1}, []int{2}, Column{"c", "[1]", "[2]"}},
	} {
		var r Recorder
		var d Draft
		d.Begin(start, ByWeft)
		d.Change("update", "pod/a", "", "T", "u", "")
		d.Differ("c", c.before, c.after)
		r.Add(&d, StateCommitted)
		got := r.Latest(0, all)[0].Changes[0].Columns[0]
		if short := strings.ReplaceAll(got.Before+got.After, ",", ""); c.want.Column != got.Column ||
			strings.ReplaceAll(c.want.Before+c.want.After, ",", "") != short {
			t.Errorf("%.50v to %.50v is %+v, want %+v", c.before, c.after, got, c.want)
		}
	}
}

// What is recorded is read back, whatever the texts are.
func TestEntriesAreReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, -1, 200)
		var r Recorder
		var d Draft
		want := Entry{Time: start, By: ByOther, State: text.Draw(t, "state")}
		d.Begin(want.Time, want.By)
		for range rapid.IntRange(0, 3).Draw(t, "causes") {
			c := Cause{unit.Key(text.Draw(t, "unit")), unit.Key(text.Draw(t, "object")), text.Draw(t, "reconciler"), rapid.Bool().Draw(t, "repair")}
			d.Cause(c)
			want.Causes = append(want.Causes, c)
		}
		for range rapid.IntRange(1, 3).Draw(t, "changes") {
			c := Change{Owner: unit.Key(text.Draw(t, "owner")), Holder: unit.Key(text.Draw(t, "holder")), Op: "update",
				Table: text.Draw(t, "table"), UUID: text.Draw(t, "uuid"), Name: text.Draw(t, "name")}
			d.Change(c.Op, c.Owner, c.Holder, c.Table, c.UUID, c.Name)
			for range rapid.IntRange(0, 3).Draw(t, "columns") {
				column := Column{text.Draw(t, "column"), text.Draw(t, "before"), text.Draw(t, "after")}
				d.Text(column.Column, column.Before, column.After)
				c.Columns = append(c.Columns, column)
			}
			want.Changes = append(want.Changes, c)
		}
		r.Add(&d, want.State)
		if diff := cmp.Diff(want, decode(r.entries[0])); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}
