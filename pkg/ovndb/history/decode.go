package history

import (
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"github.com/weft-network/weft/pkg/unit"
)

// timeOf returns the time of an encoded entry.
func timeOf(entry string) time.Time {
	return time.Unix(0, int64(binary.BigEndian.Uint64([]byte(entry[:timeBytes])))).UTC()
}

// decode returns an entry. A row that the entry inserts gives its name and unit to the elements added to it.
func decode(entry string) Entry {
	r := reader(entry[timeBytes:])
	e := Entry{Time: timeOf(entry), Omitted: r.number(), State: r.text(), By: By(r.text())}
	for r != "" {
		part := r[0]
		r = r[1:]
		switch part {
		case partCause, partRepair:
			e.Causes = append(e.Causes, Cause{Unit: unit.Key(r.text()), Object: unit.Key(r.text()), Reconciler: r.text(),
				Repair: part == partRepair})
		case partChange:
			e.Changes = append(e.Changes, Change{Op: r.text(), Owner: unit.Key(r.text()), Holder: unit.Key(r.text()), Table: r.text(),
				UUID: r.text(), Name: r.text()})
		case partColumn:
			last := &e.Changes[len(e.Changes)-1]
			last.Columns = append(last.Columns, Column{r.text(), r.text(), r.text()})
		}
	}
	for i := range e.Changes {
		if c := &e.Changes[i]; c.Name == "" {
			e.complete(c)
		}
	}
	return e
}

// complete sets the name and the holder of a row that the entry inserts.
func (e *Entry) complete(c *Change) {
	at := slices.IndexFunc(e.Changes, func(x Change) bool { return x.Op == "insert" && x.UUID == c.UUID })
	if at < 0 {
		return
	}
	if c.Name = e.Changes[at].Name; e.Changes[at].Owner != c.Owner {
		c.Holder = e.Changes[at].Owner
	}
}

// reader is the rest of an encoded entry.
type reader string

func (r *reader) number() int {
	var value uint64
	for shift := 0; ; shift += 7 {
		b := (*r)[0]
		*r = (*r)[1:]
		value |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return int(value)
		}
	}
}

func (r *reader) text() string {
	n := r.number()
	text := string((*r)[:n])
	*r = (*r)[n:]
	return strings.ToValidUTF8(text, "")
}
