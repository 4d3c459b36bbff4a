package acl

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/unit"
)

// Database is the part of a northbound database that decides about packets.
type Database struct {
	groups map[string]*portGroup
	sets   map[string]*addresses
	on     map[string]*logicalSwitch // logical port -> switch
}

type portGroup struct {
	ports map[string]bool // by name
	acls  []string        // UUIDs
}

type logicalSwitch struct {
	name   string
	router string // its port to a router
	acls   []*rule
}

// rule is an ACL with a parsed match.
type rule struct {
	row   *nbdb.ACL
	owner unit.Key
	match expression
	// groups are the port groups that the match names.
	groups []string
}

func (r *rule) String() string {
	return fmt.Sprintf("%s: tier %d priority %d %s %s: %s", r.owner, r.row.Tier, r.row.Priority, r.row.Direction,
		r.row.Action, r.row.Match)
}

// content holds units in the form of a database.
type content struct {
	rows     map[string]unit.Row
	owner    map[string]unit.Key
	elements map[string]map[string][]string // row -> column -> elements
}

// New makes a database of units. Anything that a real database would refuse, or that OVN would ignore, is an error.
func New(units []unit.Unit) (*Database, error) {
	c, err := contentOf(units)
	if err != nil {
		return nil, err
	}
	db := &Database{groups: map[string]*portGroup{}, sets: map[string]*addresses{}, on: map[string]*logicalSwitch{}}
	return db, errors.Join(db.addGroups(c), db.addSets(c), db.addSwitches(c))
}

func contentOf(units []unit.Unit) (*content, error) {
	c := &content{rows: map[string]unit.Row{}, owner: map[string]unit.Key{}, elements: map[string]map[string][]string{}}
	for _, u := range units {
		for _, row := range u.Rows {
			id := reflect.ValueOf(row.Model).Elem().FieldByName("UUID").String()
			if other, twice := c.owner[id]; twice {
				return nil, fmt.Errorf("%s and %s have the same row", other, u.Key)
			}
			c.rows[id], c.owner[id] = row, u.Key
		}
	}
	for _, u := range units {
		for _, m := range u.Members {
			switch _, there := c.rows[m.Parent.UUID]; {
			case !there && !m.Optional && m.Parent.UUID != "": // a table's single row has no UUID
				return nil, fmt.Errorf("%s refers to a row of %s that no unit has", u.Key, m.Parent.Table)
			case there:
				if c.elements[m.Parent.UUID] == nil {
					c.elements[m.Parent.UUID] = map[string][]string{}
				}
				c.elements[m.Parent.UUID][m.Column] = append(c.elements[m.Parent.UUID][m.Column], m.Element)
			}
		}
	}
	return c, nil
}

func (c *content) portNames(uuids []string) (map[string]bool, error) {
	found := map[string]bool{}
	for _, id := range uuids {
		lsp, ok := c.rows[id].Model.(*nbdb.LogicalSwitchPort)
		if !ok {
			return nil, fmt.Errorf("%s is not a port", id)
		}
		found[lsp.Name] = true
	}
	return found, nil
}

func (db *Database) addGroups(c *content) error {
	for id, row := range c.rows {
		g, ok := row.Model.(*nbdb.PortGroup)
		if !ok {
			continue
		}
		if db.groups[g.Name] != nil {
			return fmt.Errorf("two port groups have the name %s", g.Name)
		}
		ports, err := c.portNames(c.elements[id]["ports"])
		if err != nil {
			return fmt.Errorf("port group %s: %w", g.Name, err)
		}
		db.groups[g.Name] = &portGroup{ports: ports, acls: c.elements[id]["acls"]}
		if err := db.addSetsOfGroup(c, g.Name, c.elements[id]["ports"]); err != nil {
			return err
		}
	}
	return nil
}

// addSetsOfGroup adds the two address sets that northd derives from each port group.
func (db *Database) addSetsOfGroup(c *content, name string, ports []string) error {
	v4, v6 := &addresses{single: map[netip.Addr]bool{}}, &addresses{single: map[netip.Addr]bool{}}
	for _, id := range ports {
		for _, text := range c.rows[id].Model.(*nbdb.LogicalSwitchPort).Addresses {
			for _, address := range strings.Fields(text)[1:] {
				to := v4
				if strings.Contains(address, ":") {
					to = v6
				}
				if err := to.add(address); err != nil {
					return err
				}
			}
		}
	}
	db.sets[name+"_ip4"], db.sets[name+"_ip6"] = v4, v6
	return nil
}

func (db *Database) addSets(c *content) error {
	for id, row := range c.rows {
		s, ok := row.Model.(*nbdb.AddressSet)
		if !ok {
			continue
		}
		if db.sets[s.Name] != nil {
			return fmt.Errorf("two address sets have the name %s", s.Name)
		}
		found := &addresses{single: map[netip.Addr]bool{}}
		for _, text := range append(slices.Clone(s.Addresses), c.elements[id]["addresses"]...) {
			if err := found.add(text); err != nil {
				return fmt.Errorf("address set %s: %w", s.Name, err)
			}
		}
		db.sets[s.Name] = found
	}
	return nil
}

// addSwitches gives each switch the ACLs that northd would: its own ACLs, and the ACLs of each group with a port
// on the switch.
func (db *Database) addSwitches(c *content) error {
	rules, err := db.rules(c)
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for id, row := range c.rows {
		ls, ok := row.Model.(*nbdb.LogicalSwitch)
		if !ok || ls.Name == names.JoinSwitch {
			continue
		}
		ports, err := c.portNames(c.elements[id]["ports"])
		if err != nil {
			return err
		}
		s := &logicalSwitch{name: ls.Name, router: "router of " + ls.Name}
		for _, port := range c.elements[id]["ports"] {
			if lsp := c.rows[port].Model.(*nbdb.LogicalSwitchPort); lsp.Type == "router" {
				s.router = lsp.Name
			}
		}
		applied := map[string]bool{}
		for _, acl := range c.elements[id]["acls"] {
			applied[acl] = true
		}
		for _, g := range db.groups {
			for _, acl := range g.acls {
				used[acl] = true
				if intersects(g.ports, ports) {
					applied[acl] = true
				}
			}
		}
		for acl := range applied {
			used[acl] = true
			if rules[acl] == nil {
				return fmt.Errorf("switch %s has an ACL that no unit has", ls.Name)
			}
			if missing := slices.IndexFunc(rules[acl].groups, func(g string) bool {
				return !intersects(db.groups[g].ports, ports)
			}); missing >= 0 {
				return fmt.Errorf("OVN would ignore, on switch %s without a port of the group %s, the rule %v",
					ls.Name, rules[acl].groups[missing], rules[acl])
			}
			s.acls = append(s.acls, rules[acl])
		}
		slices.SortFunc(s.acls, func(a, b *rule) int {
			return cmp.Or(cmp.Compare(a.row.Tier, b.row.Tier), -cmp.Compare(a.row.Priority, b.row.Priority),
				strings.Compare(a.row.UUID, b.row.UUID))
		})
		for name := range ports {
			db.on[name] = s
		}
	}
	for id, r := range rules {
		if !used[id] {
			return fmt.Errorf("the ACL %v is on no switch and in no group", r)
		}
	}
	return nil
}

// betweenRouters are the ACLs of the join switch, which no packet between pods passes. They use fields that packets
// do not have here.
func (c *content) betweenRouters() map[string]bool {
	acls := map[string]bool{}
	for id, row := range c.rows {
		if ls, ok := row.Model.(*nbdb.LogicalSwitch); ok && ls.Name == names.JoinSwitch {
			for _, acl := range c.elements[id]["acls"] {
				acls[acl] = true
			}
		}
	}
	return acls
}

func (db *Database) rules(c *content) (map[string]*rule, error) {
	rules, between := map[string]*rule{}, c.betweenRouters()
	for id, row := range c.rows {
		acl, ok := row.Model.(*nbdb.ACL)
		if !ok || between[id] {
			continue
		}
		match, groups, err := parse(acl.Match, db)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", c.owner[id], acl.Match, err)
		}
		rules[id] = &rule{acl, c.owner[id], match, groups}
	}
	return rules, nil
}

func intersects(a, b map[string]bool) bool {
	for name := range maps.Keys(a) {
		if b[name] {
			return true
		}
	}
	return false
}
