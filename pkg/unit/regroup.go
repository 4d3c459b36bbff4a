package unit

// Regrouping changes optional memberships of units.
type Regrouping struct {
	// Join are the units that gain memberships. Members receives each of them as it is and returns what it gains.
	Join    []Key
	Members func(Unit) []Membership
	// Leave are the units that lose their optional memberships in Rows.
	Leave []Key
	Rows  []Ref
}
