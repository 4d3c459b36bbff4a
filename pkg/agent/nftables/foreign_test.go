package nftables_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/nftables"
	"github.com/weft-network/weft/test/poll"
)

// foreign are changes of another program. %s stands for the handle of a rule of chain output.
var foreign = map[string][]string{
	"the table is deleted":          {"delete table inet weft"},
	"the ruleset is flushed":        {"flush ruleset"},
	"the table is dormant":          {"add table inet weft { flags dormant; }"},
	"the table's rules are flushed": {"flush table inet weft"},
	"a rule is deleted":             {"delete rule inet weft output handle %s"},
	"a rule is replaced by one with the same comment": {
		`replace rule inet weft output handle %s counter comment "COMMENT"`},
	"a rule is deleted, and another one has its comment": {"delete rule inet weft output handle %s",
		`add rule inet weft output accept comment "COMMENT"`},
	"a rule is inserted":    {"insert rule inet weft forward accept"},
	"a rule is added":       {"add rule inet weft prerouting counter"},
	"a chain is added":      {"add chain inet weft other"},
	"a base chain is added": {"add chain inet weft other { type filter hook forward priority 0; policy drop; }"},
	"a policy is changed":   {"add chain inet weft forward { policy drop; }"},
	"a hook is changed": {"delete chain inet weft forward",
		"add chain inet weft forward { type filter hook input priority 0; }"},
	"a priority is changed": {"delete chain inet weft forward",
		"add chain inet weft forward { type filter hook forward priority 10; }"},
	"a set is added":        {"add set inet weft other { type inet_service; }"},
	"an element is deleted": {"delete element inet weft reservedports { tcp . 6641 }"},
	"an element is added":   {"add element inet weft reservedports { tcp . 80 }"},
	"a value is changed": {"delete element inet weft cluster4 { 172.18.0.11 . tcp . 30080 }",
		"add element inet weft cluster4 { 172.18.0.11 . tcp . 30080 : 192.0.2.66 . 80 }"},
	"a set is flushed":               {"flush set inet weft nodes4"},
	"a map is flushed":               {"flush map inet weft cluster4"},
	"an interval element is added":   {"add element inet weft allowed4 { 198.18.0.0/15 . 192.0.2.9 . tcp . 80 }"},
	"an interval element is deleted": {"delete element inet weft allowed4 { 198.51.100.0/24 . 192.0.2.9 . tcp . 80 }"},
}

// restartMisses are the changes that an agent cannot find that starts after them: a rule's comment stands for its content.
func restartMisses(name string) bool {
	return strings.Contains(name, "same comment") || strings.Contains(name, "has its comment")
}

var handle = regexp.MustCompile(`# handle (\d+)`)
var comment = regexp.MustCompile(`comment "(weft [0-9a-f]+)"`)

// change runs the commands in one transaction.
func change(t *testing.T, commands []string) {
	t.Helper()
	list := nft(t, "-a", "list", "chain", "inet", "weft", "output")
	last := handle.FindAllStringSubmatch(list, -1)
	text := strings.ReplaceAll(strings.Join(commands, "\n"), "COMMENT", comment.FindStringSubmatch(list)[1])
	if strings.Contains(text, "%s") {
		text = fmt.Sprintf(text, last[len(last)-1][1])
	}
	nft(t, text)
}

var elements = regexp.MustCompile(`elements = \{[^}]*\}`)

// listed returns the table as nft lists it, with sorted elements.
func listed(t *testing.T) string {
	t.Helper()
	return elements.ReplaceAllStringFunc(nft(t, "list", "table", "inet", "weft"), func(block string) string {
		parts := strings.Split(strings.TrimSuffix(strings.TrimPrefix(block, "elements = {"), "}"), ",")
		for i := range parts {
			parts[i] = strings.TrimSpace(parts[i])
		}
		slices.Sort(parts)
		return strings.Join(parts, ", ")
	})
}

func TestEveryForeignChangeIsReverted(t *testing.T) {
	for name, commands := range foreign {
		t.Run(name, func(t *testing.T) {
			table, want := fresh(t), rules().Table()
			apply(t, table, want, true)
			before := listed(t)
			change(t, commands)
			apply(t, table, want, true)
			if after := listed(t); after != before {
				t.Errorf("the table is:\n%s\nwant:\n%s", after, before)
			}
			apply(t, table, want, false)
			apply(t, &nftables.Table{}, want, false)
		})
	}
}

func TestAnAgentThatStartsFindsForeignChanges(t *testing.T) {
	for name, commands := range foreign {
		if restartMisses(name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			want := rules().Table()
			apply(t, fresh(t), want, true)
			before := listed(t)
			change(t, commands)
			apply(t, &nftables.Table{}, want, true)
			if after := listed(t); after != before {
				t.Errorf("the table is:\n%s\nwant:\n%s", after, before)
			}
		})
	}
}

// calls are the calls of a watch.
type calls struct {
	mu        sync.Mutex
	processes []string
}

func (c *calls) called(process string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.processes = append(c.processes, process)
}

func (c *calls) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.processes
}

// hold makes the watch wait at its next call, until release is called or the test ends.
func (c *calls) hold(t *testing.T) (release func()) {
	c.mu.Lock()
	release = sync.OnceFunc(c.mu.Unlock)
	t.Cleanup(release)
	return release
}

// await waits for the n-th call, and returns the process.
func (c *calls) await(t *testing.T, n int) string {
	t.Helper()
	poll.Eventually(t, 10*time.Second, func() error {
		if got := c.all(); len(got) < n {
			return fmt.Errorf("changed was called %d times, want %d", len(got), n)
		}
		return nil
	})
	return c.all()[n-1]
}

// runWatch watches objects until the test ends. The first call of each object comes when the watch has begun.
func runWatch(t *testing.T, objects ...nftables.Watched) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- nftables.Watch(ctx, logr.Discard(), objects...) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// watched is a Table with its watch.
type watched struct {
	*nftables.Table
	calls
}

func watch(t *testing.T, table *nftables.Table) *watched {
	t.Helper()
	w := &watched{Table: table}
	runWatch(t, nftables.Watched{Object: table, Changed: w.called})
	w.await(t, 1)
	return w
}

func TestTheWatchReportsEveryForeignChange(t *testing.T) {
	for name, commands := range foreign {
		t.Run(name, func(t *testing.T) {
			w, want := watch(t, fresh(t)), rules().Table()
			apply(t, w.Table, want, true)
			before := listed(t)
			change(t, commands)
			if process := w.await(t, 2); process != "nft" {
				t.Errorf("the process is %q", process)
			}
			apply(t, w.Table, want, true)
			if after := listed(t); after != before {
				t.Errorf("the table is:\n%s\nwant:\n%s", after, before)
			}
			change(t, commands) // the watch's next call, which no own write may precede
			w.await(t, 3)
			if got := w.all(); len(got) != 3 {
				t.Errorf("changed was called %d times, want 3", len(got))
			}
		})
	}
}

// Another program's change of a table concerns no other one of Weft's. Also a table that must be absent is watched.
func TestTablesAreApart(t *testing.T) {
	w, g := watch(t, fresh(t)), watch(t, &nftables.Table{Of: nftables.Tunnels})
	remove := func() {
		t.Helper()
		if err := g.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	apply(t, w.Table, rules().Table(), true)
	apply(t, g.Table, desired.TunnelGuard(), true)
	apply(t, &nftables.Table{Of: nftables.Tunnels}, desired.TunnelGuard(), false)
	remove()
	apply(t, g.Table, desired.TunnelGuard(), true)
	nft(t, "flush table inet weft-tunnels")
	g.await(t, 2)
	apply(t, g.Table, desired.TunnelGuard(), true)
	remove()
	reads := g.Reads()
	remove()
	if got := g.Reads(); got != reads {
		t.Error("an absent table is read again")
	}
	nft(t, "add table inet weft-tunnels")
	g.await(t, 3)
	remove()
	if tables := nft(t, "list tables"); strings.Contains(tables, nftables.Tunnels) {
		t.Errorf("tables %s", tables)
	}
	apply(t, w.Table, rules().Table(), false)
	nft(t, "delete table inet weft")
	w.await(t, 2)
	if got, other := w.all(), g.all(); len(got) != 2 || len(other) != 3 {
		t.Errorf("changed was called %d and %d times, want 2 and 3", len(got), len(other))
	}
}

// Neither own writes nor other programs' tables cause a reconciliation or a comparison.
func TestOtherTablesCostNothing(t *testing.T) {
	w, facts := watch(t, fresh(t)), rules()
	all := facts.Frontends
	apply(t, w.Table, facts.Table(), true)
	reads := w.Reads()
	for i := range 30 {
		nft(t, fmt.Sprintf("add table ip busy; add chain ip busy c%d; add rule ip busy c%d counter", i, i))
		nft(t, "add table ip weft; add table inet weft2; delete table inet weft2; delete table ip weft") // similar names
		facts.Frontends = all[(i+1)%3:]
		apply(t, w.Table, facts.Table(), true)
		apply(t, w.Table, facts.Table(), false)
	}
	nft(t, "delete table ip busy")
	if got := w.Reads(); got != reads {
		t.Errorf("the ruleset was read %d times more", got-reads)
	}
	change(t, []string{"insert rule inet weft forward accept"})
	w.await(t, 2)
	apply(t, w.Table, facts.Table(), true)
	if got := w.all(); len(got) != 2 {
		t.Errorf("changed was called %d times, want 2: at the start and for the foreign rule", len(got))
	}
	apply(t, &nftables.Table{}, facts.Table(), false)
}

// A change of elements without a comparison leaves the same table as a new one.
func TestKnownElementsAreChangedByDifference(t *testing.T) {
	w, facts := watch(t, fresh(t)), rules()
	all := facts.Frontends
	apply(t, w.Table, facts.Table(), true)
	for i := 1; i < len(all); i++ {
		facts.Frontends = append(all[i:len(all):len(all)], all[:i/2]...)
		apply(t, w.Table, facts.Table(), true)
		apply(t, &nftables.Table{}, facts.Table(), false)
	}
}

// Another program deletes what this Table is about to delete, and the watch has not read that yet.
func TestAFailedDifferenceIsFollowedByAComparison(t *testing.T) {
	w, facts := watch(t, fresh(t)), rules()
	apply(t, w.Table, facts.Table(), true)
	release := w.hold(t)
	change(t, []string{"insert rule inet weft forward accept"})
	poll.Eventually(t, 10*time.Second, func() error {
		if changed, err := w.Apply(t.Context(), facts.Table()); err != nil || !changed {
			return fmt.Errorf("changed %t: %w", changed, err)
		}
		return nil
	})
	nft(t, "flush map inet weft cluster4")
	facts.Frontends = nil
	if _, err := w.Apply(t.Context(), facts.Table()); err == nil {
		t.Error("elements were deleted that did not exist")
	}
	release()
	apply(t, w.Table, facts.Table(), true)
	apply(t, &nftables.Table{}, facts.Table(), false)
}

// While the watch waits, more notifications come than its socket holds, and the last one is about Weft's table.
func TestLostNotificationsCauseAComparison(t *testing.T) {
	w, facts := watch(t, fresh(t)), rules()
	apply(t, w.Table, facts.Table(), true)
	before := listed(t)
	release := w.hold(t)
	change(t, []string{"insert rule inet weft forward accept"})
	poll.Eventually(t, 10*time.Second, func() error {
		if changed, err := w.Apply(t.Context(), facts.Table()); err != nil || !changed {
			return fmt.Errorf("changed %t: %w", changed, err)
		}
		return nil
	})
	var flood strings.Builder
	flood.WriteString("add table ip flood; add set ip flood s { type ipv4_addr; }\nadd element ip flood s { 10.0.0.0")
	for i := 1; i < 1<<16; i++ {
		fmt.Fprintf(&flood, ", 10.0.%d.%d", i>>8, i&255)
	}
	flood.WriteString(" }\n")
	file := filepath.Join(t.TempDir(), "flood")
	if err := os.WriteFile(file, []byte(flood.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	nft(t, "-f", file)
	t.Cleanup(func() { nft(t, "delete table ip flood") })
	nft(t, "flush chain inet weft output")
	release()
	if process := w.await(t, 3); process != "" {
		t.Fatalf("the notifications were not lost: %q", w.all())
	}
	apply(t, w.Table, facts.Table(), true)
	if after := listed(t); after != before {
		t.Errorf("the table is:\n%s\nwant:\n%s", after, before)
	}
}
