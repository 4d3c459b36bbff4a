package unit

import (
	"strings"

	"github.com/google/uuid"
	"github.com/ovn-kubernetes/libovsdb/model"
)

// OwnerKey is the external_ids key that names the unit that owns a row. Its value is a Key.
const OwnerKey = "weft.dev/unit"

// namespace is the name space of Weft's row UUIDs (RFC 9562 §5.5). Changing it would orphan every row ever written.
var namespace = uuid.NewSHA1(uuid.NameSpaceDNS, []byte("weft.dev"))

// Key names a unit: "<kind>/<name>", for example "pod/demo/web-0" or "node/worker-1".
type Key string

// NewKey joins a kind and the parts of a name.
func NewKey(kind string, name ...string) Key {
	return Key(kind + "/" + strings.Join(name, "/"))
}

// Kind returns the part before the first slash: "pod" for "pod/demo/web-0".
func (k Key) Kind() string {
	kind, _, _ := strings.Cut(string(k), "/")
	return kind
}

// Name returns the part after the first slash: "demo/web-0" for "pod/demo/web-0".
func (k Key) Name() string {
	_, name, _ := strings.Cut(string(k), "/")
	return name
}

// UUID derives the UUID of a row from its table and symbolic key. The same arguments give the same UUID for ever.
func UUID(table, key string) string {
	return uuid.NewSHA1(namespace, []byte(table+" "+key)).String()
}

// Ref names a row. An empty UUID means the only row of a table that has exactly one (NB_Global, Open_vSwitch).
type Ref struct {
	Table string
	UUID  string
}

// Row is a row that its unit owns.
type Row struct {
	// Model is a pointer to a generated struct. Its UUID field is set.
	Model model.Model
	// Columns limits ownership to these columns, for a row that another program created, such as br-int by
	// ovn-controller. Other columns are never compared, and the row is never deleted. With nil, the whole row is
	// owned.
	Columns []string
}

// Membership is one element that a unit adds to a set or map column of another unit's row.
type Membership struct {
	Parent Ref
	Column string
	// Element is the element of a set (a UUID for a reference) or the key of a map.
	Element string
	// Value is the value of a map's pair. It is empty for sets.
	Value string
	// Optional memberships do not need their parent. They exist while it does, from the transaction on that creates
	// it. A pod can therefore name all groups that it would belong to, whether or not they are in use.
	Optional bool
}

// Unit is the desired state of one Key. A unit without Rows and Members has no content in the database.
type Unit struct {
	Key     Key
	Rows    []Row
	Members []Membership
	// Left are memberships that a former process may have added for this unit to rows that stay as they are. An element names no owner,
	// so that only its unit removes it there. What another unit wants stays.
	Left []Membership
}

// Empty reports whether the unit has no content.
func (u Unit) Empty() bool { return len(u.Rows) == 0 && len(u.Members) == 0 }
