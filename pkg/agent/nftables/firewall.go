package nftables

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	gnftables "github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/pkg/agent/desired"
)

// Firewall lets packets of pods pass the host's firewalls where the host forwards them. A packet passes the hook forward only if no
// chain of that hook drops it, whatever Weft's own table accepts.
//
//	chain FORWARD of iptables-nft (Docker, ufw)  ─▶ accept rules of Weft, while the chain drops
//	any other chain that drops                   ─▶ ErrDrops, unless a rule of its table names the links
//
// The zero value is ready to use. Without Watch, each Apply compares everything.
type Firewall struct {
	mu sync.Mutex
	watchState
	applied *desired.Forwarding // of the last success; nil: unknown
	result  Outcome             // of the last success
	// chains has the keys of the chains of hook forward, and tables the keys of their tables: true if all rules and sets of the table
	// count.
	chains, tables map[string]bool
	reads          int // for tests
}

// Outcome is what Apply did, and what it cannot do.
type Outcome struct {
	// Rules are the accept rules that the kernel has now, such as "ip iifname ovn-k8s-mp0".
	Rules   []string
	Changed bool
	// Drops names the other chains that drop packets of pods. Nil means that no other chain does.
	Drops error
}

// ruleComment marks Weft's rules in other programs' chains.
const ruleComment = "weft"

// The table and chain of iptables-nft for forwarded packets.
const (
	iptablesTable = "filter"
	iptablesChain = "FORWARD"
)

// forwardChain is a base chain of hook forward.
type forwardChain struct {
	family      gnftables.TableFamily
	table, name string
	drops       bool // packets that no rule accepts
	rules       []attributes
	// names reports for each link whether a rule of the table or an element of its sets names it. It is read only if the chain
	// drops, and is no chain of iptables-nft.
	names map[string]bool
}

func (c forwardChain) isIPTables() bool {
	return c.family != gnftables.TableFamilyINet && c.table == iptablesTable && c.name == iptablesChain
}

// families are the families whose chains see forwarded IP packets, with nft's names.
var families = map[gnftables.TableFamily]string{gnftables.TableFamilyIPv4: "ip", gnftables.TableFamilyIPv6: "ip6",
	gnftables.TableFamilyINet: "inet"}

// Apply lets the wanted links forward.
func (f *Firewall) Apply(want desired.Forwarding) (Outcome, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watched && !f.suspect && f.applied != nil && f.applied.Equal(want) {
		f.result.Changed = false
		return f.result, nil
	}
	result, err := f.apply(want)
	if err != nil {
		f.applied, f.suspect = nil, true
		return Outcome{}, fmt.Errorf("firewalls of the host: %w", err)
	}
	f.applied, f.result = &want, result
	return result, nil
}

func (f *Firewall) apply(want desired.Forwarding) (result Outcome, err error) {
	k, err := dial()
	if err != nil {
		return Outcome{}, err
	}
	defer k.Close()
	var chains []forwardChain
	f.reads++
	generation, err := k.consistently(func() error {
		chains, err = k.forwardChains(want.Links)
		return err
	})
	if err != nil {
		return Outcome{}, err
	}
	f.suspect, f.chains, f.tables = false, map[string]bool{}, map[string]bool{}
	conn, err := gnftables.New()
	if err != nil {
		return Outcome{}, err
	}
	for _, c := range chains {
		table := key(c.family, c.table)
		f.chains[key(c.family, c.table, c.name)], f.tables[table] = true, f.tables[table] || c.drops && !c.isIPTables()
		if !c.isIPTables() {
			result.Drops = errors.Join(result.Drops, c.refuses(want))
			continue
		}
		changed, err := c.addDifference(conn, want)
		if err != nil {
			return Outcome{}, err
		}
		result.Changed = result.Changed || changed
		for _, r := range c.wanted(want) {
			result.Rules = append(result.Rules, families[c.family]+" "+r.String())
		}
	}
	if !result.Changed {
		return result, nil
	}
	if err := conn.Flush(); err != nil {
		return Outcome{}, err
	}
	after, err := k.generation()
	if err == nil && after == generation+1 {
		f.wrote(after)
	}
	return result, err
}

// forwardChains reads the chains of hook forward, without Weft's own.
func (k kernel) forwardChains(links []string) (found []forwardChain, err error) {
	for _, family := range []gnftables.TableFamily{gnftables.TableFamilyIPv4, gnftables.TableFamilyIPv6, gnftables.TableFamilyINet} {
		tables, err := k.get(unix.NFT_MSG_GETTABLE, netlink.Dump, family)
		if err != nil {
			return nil, err
		}
		dormant := map[string]bool{}
		for _, t := range tables {
			dormant[t.text(unix.NFTA_TABLE_NAME)] = t.number(unix.NFTA_TABLE_FLAGS)&unix.NFT_TABLE_F_DORMANT != 0
		}
		chains, err := k.get(unix.NFT_MSG_GETCHAIN, netlink.Dump, family)
		if err != nil {
			return nil, err
		}
		for _, a := range chains {
			c := forwardChain{family: family, table: a.text(unix.NFTA_CHAIN_TABLE), name: a.text(unix.NFTA_CHAIN_NAME)}
			if !isForward(a) || family == gnftables.TableFamilyINet && c.table == Name {
				continue
			}
			if c.rules, err = k.get(unix.NFT_MSG_GETRULE, netlink.Dump, family, c.table, c.name); err != nil {
				return nil, err
			}
			c.drops = !dormant[c.table] && (a.number(unix.NFTA_CHAIN_POLICY) != accept || endsInDrop(c.rules))
			if c.drops && !c.isIPTables() && len(links) > 0 {
				if c.names, err = k.namedIn(family, c.table, links); err != nil {
					return nil, err
				}
			}
			found = append(found, c)
		}
	}
	return found, nil
}

// isForward reports whether a chain is a base chain of hook forward that filters. NAT chains do not drop.
func isForward(chain attributes) bool {
	hook := chain.nested(unix.NFTA_CHAIN_HOOK)
	return hook != nil && chain[unix.NFTA_CHAIN_HOOK] != nil && hook.number(unix.NFTA_HOOK_HOOKNUM) == unix.NF_INET_FORWARD &&
		chain.text(unix.NFTA_CHAIN_TYPE) == "filter"
}

// ifname is nft's number of the type of links' names.
const ifname = 41

// namedIn reports which links the rules and sets of a table name. Only sets with names of links among their keys are read.
func (k kernel) namedIn(family gnftables.TableFamily, table string, links []string) (map[string]bool, error) {
	rules, err := k.get(unix.NFT_MSG_GETRULE, netlink.Dump, family, table)
	if err != nil {
		return nil, err
	}
	var texts [][]byte
	for _, r := range rules {
		texts = append(texts, r[unix.NFTA_RULE_EXPRESSIONS])
	}
	sets, err := k.get(unix.NFT_MSG_GETSET, netlink.Dump, family, table)
	if err != nil {
		return nil, err
	}
	for _, s := range sets {
		if !hasLinks(s.number(unix.NFTA_SET_KEY_TYPE)) {
			continue
		}
		elements, err := k.get(unix.NFT_MSG_GETSETELEM, netlink.Dump, family, table, s.text(unix.NFTA_SET_NAME))
		if err != nil {
			return nil, err
		}
		for _, e := range elements {
			texts = append(texts, e[unix.NFTA_SET_ELEM_LIST_ELEMENTS])
		}
	}
	named := map[string]bool{}
	for _, link := range links {
		named[link] = slices.ContainsFunc(texts, func(text []byte) bool { return bytes.Contains(text, []byte(link)) })
	}
	return named, nil
}

// hasLinks reports whether a type of keys has names of links. Each part of a concatenation has SetConcatTypeBits.
func hasLinks(kind uint32) bool {
	for ; kind != 0; kind >>= gnftables.SetConcatTypeBits {
		if kind&gnftables.SetConcatTypeMask == ifname {
			return true
		}
	}
	return false
}

// refuses returns an error if the chain drops packets of pods.
func (c forwardChain) refuses(want desired.Forwarding) error {
	concerns := want.IPv4 && c.family != gnftables.TableFamilyIPv6 || want.IPv6 && c.family != gnftables.TableFamilyIPv4
	if !c.drops || !concerns {
		return nil
	}
	var missing []string
	for _, link := range want.Links {
		if !c.names[link] {
			missing = append(missing, fmt.Sprintf("iifname %q accept", link), fmt.Sprintf("oifname %q accept", link))
		}
	}
	if missing == nil {
		return nil
	}
	return fmt.Errorf("chain %s of table %s %s drops packets that the host forwards for pods: no rule of that table names the link; "+
		"add to the chain: %s", c.name, families[c.family], c.table, strings.Join(missing, "; "))
}

// acceptRule is a rule that accepts the packets from or to a link.
type acceptRule struct {
	to   bool
	link string
}

// String returns the rule's match in nft's words.
func (r acceptRule) String() string {
	if r.to {
		return "oifname " + r.link
	}
	return "iifname " + r.link
}

func (r acceptRule) key() expr.MetaKey {
	if r.to {
		return expr.MetaKeyOIFNAME
	}
	return expr.MetaKeyIIFNAME
}

// wanted returns the rules that a chain of iptables-nft must have.
func (c forwardChain) wanted(want desired.Forwarding) (rules []acceptRule) {
	if !c.drops || c.family == gnftables.TableFamilyIPv4 && !want.IPv4 || c.family == gnftables.TableFamilyIPv6 && !want.IPv6 {
		return nil
	}
	for _, link := range want.Links {
		rules = append(rules, acceptRule{false, link}, acceptRule{true, link})
	}
	return rules
}

// addDifference adds to conn what makes Weft's rules in the chain the wanted ones. New rules come first in the chain.
func (c forwardChain) addDifference(conn *gnftables.Conn, want desired.Forwarding) (changed bool, err error) {
	table := &gnftables.Table{Family: c.family, Name: c.table}
	chain := &gnftables.Chain{Name: c.name, Table: table}
	wanted := c.wanted(want)
	for _, r := range c.rules {
		parts, comment := expressions(r)
		if comment != ruleComment {
			continue
		}
		have, ok := parseAccept(parts)
		if at := slices.Index(wanted, have); ok && at >= 0 {
			wanted = slices.Delete(wanted, at, at+1)
			continue
		}
		if len(r[unix.NFTA_RULE_HANDLE]) != 8 {
			return false, fmt.Errorf("a rule of chain %s has no handle", c.name)
		}
		changed = true
		if err := conn.DelRule(&gnftables.Rule{Table: table, Chain: chain,
			Handle: binary.BigEndian.Uint64(r[unix.NFTA_RULE_HANDLE])}); err != nil {
			return false, err
		}
	}
	for _, r := range wanted {
		changed = true
		// As iptables-nft writes "-i LINK -j ACCEPT", so that it can list the rule.
		conn.InsertRule(&gnftables.Rule{Table: table, Chain: chain, UserData: userdata.AppendString(nil, userdata.TypeComment, ruleComment),
			Exprs: []expr.Any{
				&expr.Meta{Key: r.key(), Register: 1},
				&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: append([]byte(r.link), 0)},
				&expr.Counter{}, &expr.Verdict{Kind: expr.VerdictAccept},
			}})
	}
	return changed, nil
}

// expression is an expression of a rule.
type expression struct {
	name string
	data attributes
}

// expressions returns a rule's expressions, without counters, logs and comments, which decide nothing, and its comment.
// iptables writes a comment as an expression, and nft as user data. iptables lists both, and so saves and restores Weft's rules.
func expressions(rule attributes) (found []expression, comment string) {
	decoder, err := netlink.NewAttributeDecoder(rule[unix.NFTA_RULE_EXPRESSIONS])
	if err != nil {
		return nil, ""
	}
	comment = commentOf(rule)
	for decoder.Next() {
		one, err := parse(decoder.Bytes())
		if err != nil {
			return nil, ""
		}
		e := expression{one.text(unix.NFTA_EXPR_NAME), one.nested(unix.NFTA_EXPR_DATA)}
		switch {
		case e.name == "match" && e.data.text(unix.NFTA_MATCH_NAME) == "comment":
			comment, _, _ = strings.Cut(string(e.data[unix.NFTA_MATCH_INFO]), "\x00")
		case e.name != "counter" && e.name != "log":
			found = append(found, e)
		}
	}
	return found, comment
}

// verdict returns the verdict of an expression "immediate".
func (e expression) verdict() (code int32, ok bool) {
	data := e.data.nested(unix.NFTA_IMMEDIATE_DATA).nested(unix.NFTA_DATA_VERDICT)
	return int32(data.number(unix.NFTA_VERDICT_CODE)), e.name == "immediate" && len(data[unix.NFTA_VERDICT_CODE]) == 4
}

// endsInDrop reports whether the last rule drops or rejects every packet.
func endsInDrop(rules []attributes) bool {
	if len(rules) == 0 {
		return false
	}
	last, _ := expressions(rules[len(rules)-1])
	if len(last) != 1 {
		return false
	}
	code, ok := last[0].verdict()
	target := last[0].data.text(unix.NFTA_TARGET_NAME)
	return ok && code == 0 || last[0].name == "reject" || last[0].name == "target" && (target == "REJECT" || target == "DROP")
}

// parseAccept parses a rule that addDifference has written.
func parseAccept(found []expression) (parsed acceptRule, ok bool) {
	if len(found) != 3 || found[0].name != "meta" || found[1].name != "cmp" {
		return acceptRule{}, false
	}
	code, ok := found[2].verdict()
	key := expr.MetaKey(found[0].data.number(unix.NFTA_META_KEY))
	parsed = acceptRule{key == expr.MetaKeyOIFNAME, found[1].data.nested(unix.NFTA_CMP_DATA).text(unix.NFTA_DATA_VALUE)}
	ok = ok && code == accept && found[1].data.number(unix.NFTA_CMP_OP) == unix.NFT_CMP_EQ && key == parsed.key()
	return parsed, ok
}

func key(family gnftables.TableFamily, names ...string) string {
	return families[family] + " " + strings.Join(names, " ")
}

// concerns reports whether a notification is about a chain of hook forward, or about a table in which a rule or set may let packets
// of pods pass.
func (f *Firewall) concerns(family gnftables.TableFamily, m netlink.Message) bool {
	if families[family] == "" {
		return false
	}
	table := tableOf(m)
	if family == gnftables.TableFamilyINet && table == Name {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	whole, ok := f.tables[key(family, table)]
	if whole {
		return true
	}
	switch kindOfMessage(m) {
	case unix.NFT_MSG_NEWTABLE: // changes its flags
		return ok
	case unix.NFT_MSG_NEWCHAIN, unix.NFT_MSG_DELCHAIN:
		_, chain, err := body(m)
		return err == nil && (isForward(chain) || f.chains[key(family, table, chain.text(unix.NFTA_CHAIN_NAME))])
	case unix.NFT_MSG_NEWRULE, unix.NFT_MSG_DELRULE:
		_, rule, err := body(m)
		return err == nil && f.chains[key(family, table, rule.text(unix.NFTA_RULE_CHAIN))]
	}
	return false
}

func (f *Firewall) state(call func(*watchState)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	call(&f.watchState)
}
