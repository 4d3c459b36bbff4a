// Package nftables gives the host its table, by difference, through knftables, which runs nft.
package nftables

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/knftables"

	"github.com/weft-network/weft/pkg/agent/desired"
)

// Name is the table's; its family is inet.
const Name = "weft"

// Table is the host's.
type Table struct {
	mu  sync.Mutex
	nft knftables.Interface // nil until it was needed
	// applied is what the kernel has after the last success; nil: not known.
	applied *desired.NftTable
}

// Apply makes the table what is wanted, in one transaction, and reports whether anything was written.
func (t *Table) Apply(ctx context.Context, want desired.NftTable) (changed bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.open(); err != nil {
		return false, err
	}
	there, err := t.isThere(ctx, want)
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

// Remove takes the table away; that there is none is no error.
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

// open finds nft. Lists come by netlink: they take no process.
func (t *Table) open() (err error) {
	if t.nft != nil {
		return nil
	}
	if t.nft, err = knftables.New(knftables.InetFamily, Name, knftables.NoObjectCommentEmulation, knftables.UseNetlink); err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	return nil
}

// anonymous sets and maps are written within a rule, and are part of it: "__map0".
const anonymous = "__"

// isThere reports whether all chains, sets and maps are there.
func (t *Table) isThere(ctx context.Context, want desired.NftTable) (bool, error) {
	var names []string
	for _, kind := range []string{"chain", "set", "map"} {
		found, err := t.nft.List(ctx, kind)
		if err != nil {
			return false, fmt.Errorf("table %s: list each %s: %w", Name, kind, err)
		}
		if kind == "chain" && len(found) == 0 {
			return false, nil // there is no table: the other lists would fail
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

// difference is what makes the table what is wanted: all of it where its rules are others, else elements.
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

// hasRules compares the rules by their comments: nft lists rules in other words than those they were written in.
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

// fingerprint is made of all but the elements.
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

// rebuild makes the table anew: until the transaction ends, the former one holds.
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
		tx.Add(&knftables.Chain{Name: c.Name, Type: knftables.PtrTo(knftables.BaseChainType(c.Type)), Hook: knftables.PtrTo(knftables.BaseChainHook(c.Hook)),
			Priority: knftables.PtrTo(knftables.BaseChainPriority(c.Priority))})
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

// addDifference compares the elements of one set. Those that go are first: an interval may not overlap another.
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
