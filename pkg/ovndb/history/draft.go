package history

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/weft-network/weft/pkg/unit"
)

// Draft is an entry that is being written. It reuses its memory for the next entry.
type Draft struct {
	buf     []byte
	changes int
	omitted int
	names   []string // scratch
}

// The parts of an encoded entry. Each is followed by its texts, and each text by its length.
const (
	partCause  = 'c'
	partRepair = 'r' // a cause that is a repair
	partChange = 'h'
	partColumn = 'v'
)

const (
	// timeBytes is the length of an entry's time.
	timeBytes = 8
	// lengthBytes is the length of the length of a cut value, with a continuation bit.
	lengthBytes = 2
)

// Begin begins an entry.
func (d *Draft) Begin(at time.Time, by By) {
	d.buf = binary.BigEndian.AppendUint64(d.buf[:0], uint64(at.UnixNano()))
	d.text(string(by))
	d.changes, d.omitted = 0, 0
}

// Cause adds a cause. All causes come before the first change. An entry has no room for very many.
func (d *Draft) Cause(c Cause) {
	if d.full() {
		return
	}
	part := byte(partCause)
	if c.Repair {
		part = partRepair
	}
	d.buf = append(d.buf, part)
	d.text(string(c.Unit))
	d.text(string(c.Object))
	d.text(c.Reconciler)
}

// Change adds a change without columns. It returns false if the entry has no room, and then only counts the change.
func (d *Draft) Change(op string, owner, holder unit.Key, table, uuid, name string) bool {
	d.changes++
	if d.full() {
		d.omitted++
		return false
	}
	d.buf = append(d.buf, partChange)
	for _, text := range [...]string{op, string(owner), string(holder), table, uuid} {
		d.text(text)
	}
	d.text(name[:min(len(name), maxValue)])
	return true
}

// full reports whether the entry has no room for another change.
func (d *Draft) full() bool { return len(d.buf) >= maxEntry }

// Text adds a column with values as text to the last change.
func (d *Draft) Text(column, before, after string) {
	before, after = differing(before, after)
	d.buf = append(d.buf, partColumn)
	d.text(column)
	d.text(cut(before))
	d.text(cut(after))
}

// Set adds a column of a row that is inserted.
func (d *Draft) Set(column string, value any) {
	d.column(column, func() {}, func() { d.value(value, nil) })
}

// Unset adds a column of a row that is deleted.
func (d *Draft) Unset(column string, value any) {
	d.column(column, func() { d.value(value, nil) }, func() {})
}

// Differ adds a column of a row that is updated. Of sets and maps it records only the elements that differ.
func (d *Draft) Differ(column string, before, after any) {
	if was, ok := plain(before); ok {
		is, _ := plain(after)
		d.Text(column, was, is)
		return
	}
	d.column(column, func() { d.value(before, after) }, func() { d.value(after, before) })
}

// column adds a column, unless both values are empty: a row's mark of its unit is not shown.
func (d *Draft) column(name string, before, after func()) {
	start := len(d.buf)
	d.buf = append(d.buf, partColumn)
	d.text(name)
	values := len(d.buf)
	d.measured(before)
	d.measured(after)
	if len(d.buf) == values+2*lengthBytes {
		d.buf = d.buf[:start]
	}
}

// text appends a text behind its length.
func (d *Draft) text(s string) {
	d.buf = binary.AppendUvarint(d.buf, uint64(len(s)))
	d.buf = append(d.buf, s...)
}

// measured appends what write appends, cut, behind its length.
func (d *Draft) measured(write func()) {
	at := len(d.buf)
	d.buf = append(d.buf, 0, 0)
	write()
	if length := len(d.buf) - at - lengthBytes; length > maxValue {
		d.buf = append(d.buf[:at+lengthBytes+maxValue], "..."...)
	}
	length := len(d.buf) - at - lengthBytes
	d.buf[at], d.buf[at+1] = byte(length&0x7f|0x80), byte(length>>7)
}

// value appends a set or map without the elements that another has, or the text of another value.
func (d *Draft) value(v, other any) {
	d.names = d.names[:0]
	switch v := v.(type) {
	case []string:
		has := setOf(other)
		for _, element := range v {
			if !has[element] {
				d.names = append(d.names, element)
			}
		}
		d.elements(nil, nil)
	case map[string]string:
		has, _ := other.(map[string]string)
		for key, value := range v {
			if had, ok := has[key]; key != unit.OwnerKey && (!ok || had != value) {
				d.names = append(d.names, key)
			}
		}
		d.elements(v, has)
	default:
		text, ok := plain(v)
		if !ok {
			text = fmt.Sprint(v)
		}
		d.buf = append(d.buf, text...)
	}
}

// elements appends d.names, sorted, with their values in a map. It stops when the text is long enough.
func (d *Draft) elements(values, others map[string]string) {
	slices.Sort(d.names)
	start := len(d.buf)
	for i, name := range d.names {
		if len(d.buf)-start > maxValue {
			break
		}
		if i > 0 {
			d.buf = append(d.buf, ", "...)
		}
		if d.buf = append(d.buf, name...); values != nil {
			value, _ := differing(values[name], others[name])
			d.buf = append(append(d.buf, '='), value...)
		}
	}
	clear(d.names)
}

// setOf returns the elements of a set; nil for other values.
func setOf(value any) map[string]bool {
	elements, _ := value.([]string)
	if len(elements) == 0 {
		return nil
	}
	set := make(map[string]bool, len(elements))
	for _, element := range elements {
		set[element] = true
	}
	return set
}

// plain returns the text of a value that is no set and no map of texts.
func plain(value any) (text string, ok bool) {
	switch v := value.(type) {
	case nil:
		return "", true
	case string:
		return v, true
	case *string:
		if v == nil {
			return "", true
		}
		return *v, true
	}
	switch v := reflect.ValueOf(value); v.Kind() {
	case reflect.Slice, reflect.Map:
		return "", false
	case reflect.Pointer:
		if v.IsNil() {
			return "", true
		}
		return fmt.Sprint(v.Elem().Interface()), true
	}
	return fmt.Sprint(value), true
}

// differing returns two texts without the beginning and the end that long texts have in common, such as most endpoints
// of a load balancer.
func differing(a, b string) (string, string) {
	if len(a) <= maxValue && len(b) <= maxValue || a == "" || b == "" {
		return a, b
	}
	start := 0
	for i := 0; i < min(len(a), len(b)) && a[i] == b[i]; i++ {
		if a[i] == ',' || a[i] == ' ' {
			start = i + 1
		}
	}
	end := 0
	for i := 1; i <= min(len(a), len(b))-start && a[len(a)-i] == b[len(b)-i]; i++ {
		if a[len(a)-i] == ',' || a[len(a)-i] == ' ' {
			end = i
		}
	}
	shorten := func(s string) string {
		middle := s[start : len(s)-end]
		if start > 0 {
			middle = "..." + middle
		}
		if end > 0 {
			middle += "..."
		}
		return middle
	}
	return shorten(a), shorten(b)
}

func cut(text string) string {
	if len(text) <= maxValue {
		return text
	}
	return text[:maxValue] + "..."
}

// finish returns the encoded entry.
func (d *Draft) finish(state string) string {
	var b strings.Builder
	b.Grow(len(d.buf) + len(state) + 2*binary.MaxVarintLen16)
	b.Write(d.buf[:timeBytes])
	var number [binary.MaxVarintLen64]byte
	b.Write(number[:binary.PutUvarint(number[:], uint64(d.omitted))])
	b.Write(number[:binary.PutUvarint(number[:], uint64(len(state)))])
	b.WriteString(state)
	b.Write(d.buf[timeBytes:])
	return b.String()
}
