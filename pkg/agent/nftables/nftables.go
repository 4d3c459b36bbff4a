// Package nftables keeps the host's nftables tables. It writes only the difference, through knftables, which runs nft. It reads
// by netlink, without a process, except for the elements of sets.
//
//	notification ─▶ suspect ─▶ a reconciliation ─▶ Apply compares all ─▶ rebuilds the table, or writes elements
//	Apply without suspicion: what the agent wrote last is in the kernel, and only the difference of the wanted contents is written
package nftables

import (
	"cmp"
	"context"
	"crypto/sha256"
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
	"github.com/weft-network/weft/pkg/ipam/reserved"
)

// The names of the tables, whose family is inet.
const (
	Name    = "weft"
	Tunnels = "weft-tunnels" // the guard of tunnels that must be encrypted
)

// Table keeps a table of Weft's on the host. The zero value is ready to use. Without Watch, each Apply compares everything.
type Table struct {
	// Of is the name of the table. Empty is Name.
	Of string

	mu  sync.Mutex
	nft knftables.Interface // nil until the first use
	// applied is the content that the kernel has after the last success. Nil means that it is unknown.
	applied *desired.NftTable
	// absent reports whether the table was absent after the last success.
	absent bool
	// written is the sum of the ruleset after the last success. The zero value means that it is unknown.
	written [sha256.Size]byte
	watchState
	reads int // of the ruleset, for tests
}

// Apply gives the table the wanted content in one transaction, and reports whether it wrote anything.
func (t *Table) Apply(ctx context.Context, want desired.NftTable) (changed bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.open(); err != nil {
		return false, err
	}
	known := t.watched && !t.suspect && t.applied != nil
	if known && reflect.DeepEqual(*t.applied, want) {
		return false, nil
	}
	if changed, err = t.apply(ctx, want, known); err != nil {
		t.applied, t.suspect = nil, true
		return false, fmt.Errorf("table %s: %w", t.name(), err)
	}
	t.applied, t.absent = &want, false
	return changed, nil
}

// apply writes the difference. known reports whether the kernel has t.applied.
func (t *Table) apply(ctx context.Context, want desired.NftTable, known bool) (changed bool, err error) {
	k, err := dial()
	if err != nil {
		return false, err
	}
	defer k.Close()
	keep, now := t.applied != nil && fingerprint(*t.applied) == fingerprint(want), t.written
	if !known {
		have, _, err := t.read(k)
		if err != nil {
			return false, err
		}
		now = have.sum()
		if keep && t.written != [sha256.Size]byte{} {
			keep = now == t.written
		} else if keep, err = have.matches(want); err != nil {
			return false, err
		}
	}
	tx := t.nft.NewTransaction()
	switch {
	case !keep:
		rebuild(tx, want)
	case known:
		addChanges(tx, *t.applied, want)
	default:
		err = t.addDifference(ctx, tx, want)
	}
	if err != nil {
		return false, err
	}
	t.suspect = false
	if t.written = now; tx.NumOperations() == 0 {
		return false, nil
	}
	generation, alone, err := t.run(ctx, k, tx)
	if err != nil {
		return false, err
	}
	if !keep {
		t.written = [sha256.Size]byte{}
		have, read, err := t.read(k)
		if err == nil && alone && read == generation {
			t.written = have.sum()
		}
	}
	return true, nil
}

// run commits a transaction. alone reports whether no other program committed one meanwhile, so that this one has the generation.
// Otherwise Watch reports it as a foreign one.
func (t *Table) run(ctx context.Context, k kernel, tx *knftables.Transaction) (generation uint32, alone bool, err error) {
	before, err := k.generation()
	if err != nil {
		return 0, false, err
	}
	if err := t.nft.Run(ctx, tx); err != nil {
		return 0, false, err
	}
	if generation, err = k.generation(); err != nil {
		return 0, false, err
	}
	alone = generation == before+1
	if alone {
		t.wrote(generation)
	}
	return generation, alone, nil
}

func (t *Table) read(k kernel) (ruleset, uint32, error) {
	t.reads++
	return k.read(t.name())
}

func (t *Table) name() string { return cmp.Or(t.Of, Name) }

// Remove deletes the table. A missing table is not an error.
func (t *Table) Remove(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.watched && !t.suspect && t.absent {
		return nil
	}
	t.applied, t.absent = nil, false
	if err := t.remove(ctx); err != nil {
		t.suspect = true
		return fmt.Errorf("table %s: %w", t.name(), err)
	}
	t.absent, t.suspect = true, false
	return nil
}

func (t *Table) remove(ctx context.Context) error {
	k, err := dial()
	if err != nil {
		return err
	}
	defer k.Close()
	have, _, err := t.read(k)
	if err != nil || have.table == nil {
		return err
	}
	if err := t.open(); err != nil {
		return err
	}
	tx := t.nft.NewTransaction()
	tx.Add(&knftables.Table{}) // another program may delete it meanwhile
	tx.Delete(&knftables.Table{})
	_, _, err = t.run(ctx, k, tx)
	return err
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
		return 0, fmt.Errorf("table %s: list maps: %w", t.name(), err)
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
	t.applied, t.suspect = nil, true
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
	if t.nft, err = knftables.New(knftables.InetFamily, t.name(), knftables.NoObjectCommentEmulation, knftables.UseNetlink); err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	return nil
}

// anonymous is the prefix of sets and maps that belong to a rule, such as "__map0".
const anonymous = "__"

func kindOf(s desired.NftSet) string {
	if s.Value != "" {
		return "map"
	}
	return "set"
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
	set := knftables.Set{Name: s.Name, Type: s.Key, Flags: flags}
	if like, ok := typeOfKey[s.Key]; ok {
		set.Type, set.TypeOf = "", like
	}
	tx.Add(&set)
}

// typeOfKey has an expression with the type of a key that is not composed. nft up to 1.0.6, as in Debian 12, crashes on a set that nft 1.1
// makes from the name of such a type: a host's own nft must be able to read the table.
var typeOfKey = map[string]string{"ipv4_addr": "ip saddr", "ipv6_addr": "ip6 saddr"}

func element(s desired.NftSet, key, value string) *knftables.Element {
	e := &knftables.Element{Key: strings.Split(key, " . ")}
	if s.Value != "" {
		e.Map, e.Value = s.Name, strings.Split(value, " . ")
	} else {
		e.Set = s.Name
	}
	return e
}

// addChanges adds the difference between the elements of two contents to tx. Deletions come first, because intervals must not
// overlap.
func addChanges(tx *knftables.Transaction, former, want desired.NftTable) {
	for i, s := range want.Sets { // which are the same, because the fingerprints are
		addElements(tx, s, former.Sets[i].Elements)
	}
}

// addDifference adds the difference between the elements that the kernel has and the wanted ones to tx.
func (t *Table) addDifference(ctx context.Context, tx *knftables.Transaction, want desired.NftTable) error {
	for _, s := range want.Sets {
		have, err := t.nft.ListElements(ctx, kindOf(s), s.Name)
		if err != nil {
			return fmt.Errorf("%s %s: %w", kindOf(s), s.Name, err)
		}
		present := map[string]string{}
		for _, e := range have {
			present[strings.Join(e.Key, " . ")] = strings.Join(e.Value, " . ")
		}
		addElements(tx, s, present)
	}
	return nil
}

func addElements(tx *knftables.Transaction, s desired.NftSet, have map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(have)) {
		if value, ok := s.Elements[key]; !ok || value != have[key] {
			tx.Delete(element(s, key, have[key]))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.Elements)) {
		if value, ok := have[key]; !ok || value != s.Elements[key] {
			tx.Add(element(s, key, s.Elements[key]))
		}
	}
}
