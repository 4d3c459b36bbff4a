// Package nftables keeps the host's nftables table through knftables, which runs nft. It writes only the difference.
package nftables

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/knftables"

	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/reserved"
)

// Name is the name of the table, whose family is inet.
const Name = "weft"

// Table keeps Weft's table on the host. The zero value is ready to use.
type Table struct {
	mu  sync.Mutex
	nft knftables.Interface // nil until the first use
	// applied is the content that the kernel has after the last success. Nil means that it is unknown.
	applied *desired.NftTable
}

// Apply gives the table the wanted content in one transaction, and reports whether it wrote anything.
func (t *Table) Apply(ctx context.Context, want desired.NftTable) (changed bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.open(); err != nil {
		return false, err
	}
	there, err := t.hasObjects(ctx, want)
	if err != nil {
		return false, err
	}
	if there && t.applied != nil && reflect.DeepEqual(*t.applied, want) {
		return false, nil
	}
	tx, err := t.difference(ctx, want, there)
	if err != nil {
		return false, err
	}
	if tx.NumOperations() > 0 {
		if err := t.nft.Run(ctx, tx); err != nil {
			t.applied = nil
			return false, fmt.Errorf("table %s: %w", Name, err)
		}
	}
	t.applied = &want
	return tx.NumOperations() > 0, nil
}

// Remove deletes the table. A missing table is not an error.
func (t *Table) Remove(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.open(); err != nil {
		return err
	}
	t.applied = nil
	tx := t.nft.NewTransaction()
	tx.Add(&knftables.Table{})
	tx.Delete(&knftables.Table{})
	return t.nft.Run(ctx, tx)
}

// Free removes the map elements whose keys are reserved destinations, and returns their number. It recognises the maps
// by the shape of their keys, because an earlier version may have used other names.
func (t *Table) Free(ctx context.Context, taken reserved.Table) (removed int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.open(); err != nil {
		return 0, err
	}
	chains, err := t.nft.List(ctx, "chain")
	if err != nil || len(chains) == 0 {
		return 0, err // the table does not exist
	}
	names, err := t.nft.List(ctx, "map")
	if err != nil {
		return 0, fmt.Errorf("table %s: list maps: %w", Name, err)
	}
	tx := t.nft.NewTransaction()
	for _, name := range names {
		if strings.HasPrefix(name, anonymous) {
			continue
		}
		elements, err := t.nft.ListElements(ctx, "map", name)
		if err != nil {
			return 0, fmt.Errorf("map %s: %w", name, err)
		}
		for _, e := range elements {
			if isReserved(e.Key, taken) {
				tx.Delete(&knftables.Element{Map: name, Key: e.Key})
			}
		}
	}
	if tx.NumOperations() == 0 {
		return 0, nil
	}
	t.applied = nil
	return tx.NumOperations(), t.nft.Run(ctx, tx)
}

// isReserved reports whether a key such as "192.0.2.1 . tcp . 6641" is a reserved destination.
func isReserved(key []string, taken reserved.Table) bool {
	const parts = 3
	if len(key) != parts {
		return false
	}
	destination, err := netip.ParseAddrPort(net.JoinHostPort(key[0], key[2]))
	if err != nil {
		return false
	}
	_, found := taken.At(destination, key[1])
	return found
}

// open prepares the use of nft. knftables lists objects by netlink, without a process.
func (t *Table) open() (err error) {
	if t.nft != nil {
		return nil
	}
	if t.nft, err = knftables.New(knftables.InetFamily, Name, knftables.NoObjectCommentEmulation, knftables.UseNetlink); err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	return nil
}

// anonymous is the prefix of sets and maps that belong to a rule, such as "__map0".
const anonymous = "__"

// hasObjects reports whether the table has exactly the wanted chains, sets and maps.
func (t *Table) hasObjects(ctx context.Context, want desired.NftTable) (bool, error) {
	var names []string
	for _, kind := range []string{"chain", "set", "map"} {
		found, err := t.nft.List(ctx, kind)
		if err != nil {
			return false, fmt.Errorf("table %s: list %ss: %w", Name, kind, err)
		}
		if kind == "chain" && len(found) == 0 {
			return false, nil // the table does not exist, and the other lists would fail
		}
		for _, name := range found {
			if strings.HasPrefix(name, anonymous) {
				continue
			}
			names = append(names, kind+" "+name)
		}
	}
	var wanted []string
	for _, c := range want.Chains {
		wanted = append(wanted, "chain "+c.Name)
	}
	for _, s := range want.Sets {
		wanted = append(wanted, kindOf(s)+" "+s.Name)
	}
	slices.Sort(names)
	slices.Sort(wanted)
	return slices.Equal(names, wanted), nil
}

func kindOf(s desired.NftSet) string {
	if s.Value != "" {
		return "map"
	}
	return "set"
}

// difference returns the transaction that gives the table its wanted content. It rebuilds the table if a rule differs,
// and otherwise changes only elements.
func (t *Table) difference(ctx context.Context, want desired.NftTable, there bool) (*knftables.Transaction, error) {
	tx := t.nft.NewTransaction()
	if there {
		same, err := t.hasRules(ctx, want)
		if err != nil {
			return nil, err
		}
		there = same
	}
	if !there {
		rebuild(tx, want)
		return tx, nil
	}
	for _, set := range want.Sets {
		if err := t.addDifference(ctx, tx, set); err != nil {
			return nil, err
		}
	}
	return tx, nil
}

// hasRules reports whether the rules are as wanted. It compares their comments, because nft lists a rule differently
// from how it was written.
func (t *Table) hasRules(ctx context.Context, want desired.NftTable) (bool, error) {
	mark := fingerprint(want)
	for _, c := range want.Chains {
		rules, err := t.nft.ListRules(ctx, c.Name)
		if err != nil {
			return false, fmt.Errorf("chain %s: %w", c.Name, err)
		}
		if len(rules) != len(c.Rules) {
			return false, nil
		}
		for _, rule := range rules {
			if rule.Comment == nil || *rule.Comment != mark {
				return false, nil
			}
		}
	}
	return true, nil
}

// fingerprint is a hash of everything but the elements. Each rule has it as its comment.
func fingerprint(want desired.NftTable) string {
	h := fnv.New64a()
	for _, c := range want.Chains {
		fmt.Fprintf(h, "%q", c)
	}
	for _, s := range want.Sets {
		fmt.Fprintf(h, "%q %q %q %t", s.Name, s.Key, s.Value, s.Interval)
	}
	return fmt.Sprintf("weft %016x", h.Sum64())
}

// rebuild deletes and recreates the table. The old table stays in force until the transaction is committed.
func rebuild(tx *knftables.Transaction, want desired.NftTable) {
	tx.Add(&knftables.Table{})
	tx.Delete(&knftables.Table{})
	tx.Add(&knftables.Table{})
	for _, s := range want.Sets {
		addSet(tx, s)
		for _, key := range slices.Sorted(maps.Keys(s.Elements)) {
			tx.Add(element(s, key, s.Elements[key]))
		}
	}
	mark := fingerprint(want)
	for _, c := range want.Chains {
		tx.Add(&knftables.Chain{
			Name: c.Name, Type: knftables.PtrTo(knftables.BaseChainType(c.Type)),
			Hook:     knftables.PtrTo(knftables.BaseChainHook(c.Hook)),
			Priority: knftables.PtrTo(knftables.BaseChainPriority(c.Priority)),
		})
		for _, rule := range c.Rules {
			tx.Add(&knftables.Rule{Chain: c.Name, Rule: rule, Comment: &mark})
		}
	}
}

func addSet(tx *knftables.Transaction, s desired.NftSet) {
	var flags []knftables.SetFlag
	if s.Interval {
		flags = append(flags, knftables.IntervalFlag)
	}
	if s.Value != "" {
		tx.Add(&knftables.Map{Name: s.Name, Type: s.Key + " : " + s.Value, Flags: flags})
		return
	}
	tx.Add(&knftables.Set{Name: s.Name, Type: s.Key, Flags: flags})
}

func element(s desired.NftSet, key, value string) *knftables.Element {
	e := &knftables.Element{Key: strings.Split(key, " . ")}
	if s.Value != "" {
		e.Map, e.Value = s.Name, strings.Split(value, " . ")
	} else {
		e.Set = s.Name
	}
	return e
}

// addDifference adds the changes of one set's elements to tx. Deletions come first, because intervals must not overlap.
func (t *Table) addDifference(ctx context.Context, tx *knftables.Transaction, s desired.NftSet) error {
	have, err := t.nft.ListElements(ctx, kindOf(s), s.Name)
	if err != nil {
		return fmt.Errorf("%s %s: %w", kindOf(s), s.Name, err)
	}
	present := map[string]bool{}
	for _, e := range have {
		key, value := strings.Join(e.Key, " . "), strings.Join(e.Value, " . ")
		if wanted, ok := s.Elements[key]; ok && wanted == value {
			present[key] = true
			continue
		}
		tx.Delete(element(s, key, value))
	}
	for _, key := range slices.Sorted(maps.Keys(s.Elements)) {
		if !present[key] {
			tx.Add(element(s, key, s.Elements[key]))
		}
	}
	return nil
}
