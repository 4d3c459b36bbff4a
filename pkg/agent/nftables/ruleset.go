package nftables

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	gnftables "github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
	"sigs.k8s.io/knftables"

	"github.com/weft-network/weft/pkg/agent/desired"
)

// attributes are attributes of a netlink message, by type.
type attributes map[uint16][]byte

func (a attributes) text(kind uint16) string { return strings.TrimRight(string(a[kind]), "\x00") }

// number returns an attribute of 32 bits, or 0 if it is absent.
func (a attributes) number(kind uint16) uint32 {
	if len(a[kind]) != 4 {
		return 0
	}
	return binary.BigEndian.Uint32(a[kind])
}

func (a attributes) nested(kind uint16) attributes {
	inner, err := parse(a[kind])
	if err != nil {
		return nil
	}
	return inner
}

func parse(data []byte) (attributes, error) {
	decoder, err := netlink.NewAttributeDecoder(data)
	if err != nil {
		return nil, err
	}
	found := attributes{}
	for decoder.Next() {
		found[decoder.Type()] = decoder.Bytes()
	}
	return found, decoder.Err()
}

// headerSize is the size of struct nfgenmsg: the family, a version and a resource.
const headerSize = 4

// body returns the family and attributes of a message.
func body(m netlink.Message) (family gnftables.TableFamily, found attributes, err error) {
	if len(m.Data) < headerSize {
		return 0, nil, fmt.Errorf("nftables: a message of %d bytes", len(m.Data))
	}
	found, err = parse(m.Data[headerSize:])
	return gnftables.TableFamily(m.Data[0]), found, err
}

// kernel reads nftables. It must be closed.
type kernel struct{ conn *netlink.Conn }

func dial() (kernel, error) {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return kernel{}, fmt.Errorf("nftables: %w", err)
	}
	return kernel{conn}, nil
}

func (k kernel) Close() error { return k.conn.Close() }

// get returns the attributes of the objects that a request selects. flags are netlink.Dump, or 0 for a single object. names are
// attributes 1, 2 and so on of the request: the name of a table, and of a set or chain in it.
func (k kernel) get(request uint8, flags netlink.HeaderFlags, family gnftables.TableFamily, names ...string) ([]attributes, error) {
	data := []byte{byte(family), unix.NFNETLINK_V0, 0, 0}
	var selected []netlink.Attribute
	for i, name := range names {
		selected = append(selected, netlink.Attribute{Type: uint16(i + 1), Data: append([]byte(name), 0)})
	}
	encoded, err := netlink.MarshalAttributes(selected)
	if err != nil {
		return nil, err
	}
	data = append(data, encoded...)
	replies, err := k.conn.Execute(netlink.Message{Data: data, Header: netlink.Header{
		Type: netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | int(request)), Flags: netlink.Request | flags}})
	if err != nil {
		return nil, fmt.Errorf("nftables: %w", err)
	}
	var found []attributes
	for _, reply := range replies {
		_, one, err := body(reply)
		if err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	return found, nil
}

// generation returns the number of the last transaction.
func (k kernel) generation() (uint32, error) {
	found, err := k.get(unix.NFT_MSG_GETGEN, 0, 0)
	if err != nil || len(found) == 0 {
		return 0, errors.Join(err, errors.New("nftables: the kernel does not say its generation"))
	}
	return found[0].number(unix.NFTA_GEN_ID), nil
}

// maxReads limits how often a ruleset is read again because a transaction was committed meanwhile.
const maxReads = 20

// consistently calls read until no transaction was committed meanwhile, and returns the generation that was read.
func (k kernel) consistently(read func() error) (uint32, error) {
	for range maxReads {
		before, err := k.generation()
		if err != nil {
			return 0, err
		}
		failed := read()
		after, err := k.generation()
		if err != nil {
			return 0, err
		}
		if before == after {
			return after, failed
		}
	}
	return 0, fmt.Errorf("nftables: other programs changed the ruleset during each of %d attempts to read it", maxReads)
}

// ruleset is a table of Weft's without the elements of its sets. A missing table is the zero value.
type ruleset struct {
	table               attributes
	chains, rules, sets []attributes
}

// The attributes of tables, chains and sets that programs write. The others are counters of the kernel, or names of a table.
var (
	ofTables = []uint16{unix.NFTA_TABLE_NAME, unix.NFTA_TABLE_FLAGS, tableHandle}
	ofChains = []uint16{unix.NFTA_CHAIN_NAME, unix.NFTA_CHAIN_HANDLE, unix.NFTA_CHAIN_HOOK, unix.NFTA_CHAIN_POLICY,
		unix.NFTA_CHAIN_TYPE, chainFlags}
	ofSets = []uint16{unix.NFTA_SET_NAME, setHandle, unix.NFTA_SET_FLAGS, unix.NFTA_SET_KEY_TYPE, unix.NFTA_SET_KEY_LEN,
		unix.NFTA_SET_DATA_TYPE, unix.NFTA_SET_DATA_LEN, unix.NFTA_SET_TIMEOUT}
)

// Attributes that golang.org/x/sys/unix does not have (include/uapi/linux/netfilter/nf_tables.h).
const (
	tableHandle = 4
	chainFlags  = 10
	setHandle   = 16
)

// read reads a table of Weft's.
func (k kernel) read(name string) (r ruleset, generation uint32, err error) {
	generation, err = k.consistently(func() error {
		r = ruleset{}
		tables, err := k.get(unix.NFT_MSG_GETTABLE, 0, gnftables.TableFamilyINet, name)
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		if err != nil {
			return err
		}
		r.table = only(tables, ofTables)[0]
		chains, err := k.get(unix.NFT_MSG_GETCHAIN, netlink.Dump, gnftables.TableFamilyINet)
		if err != nil {
			return err
		}
		chains = slices.DeleteFunc(chains, func(c attributes) bool { return c.text(unix.NFTA_CHAIN_TABLE) != name })
		sets, err := k.get(unix.NFT_MSG_GETSET, netlink.Dump, gnftables.TableFamilyINet, name)
		if err != nil {
			return err
		}
		r.chains, r.sets = only(chains, ofChains), only(sets, ofSets)
		r.rules, err = k.get(unix.NFT_MSG_GETRULE, netlink.Dump, gnftables.TableFamilyINet, name)
		return err
	})
	return r, generation, err
}

func only(all []attributes, kinds []uint16) []attributes {
	for _, a := range all {
		maps.DeleteFunc(a, func(kind uint16, _ []byte) bool { return !slices.Contains(kinds, kind) })
	}
	return all
}

// sum is a hash of the ruleset with its handles, so that also what was deleted and created again differs.
func (r ruleset) sum() [sha256.Size]byte {
	h := sha256.New()
	for _, all := range [][]attributes{{r.table}, r.chains, r.rules, r.sets} {
		fmt.Fprintf(h, "%d ", len(all))
		for _, a := range all {
			for _, kind := range slices.Sorted(maps.Keys(a)) {
				fmt.Fprintf(h, "%d %x ", kind, a[kind])
			}
		}
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// matches reports whether the table, its chains and its sets are as wanted, and each rule has the comment of want. It does
// not find a rule that was replaced by another one with that comment.
func (r ruleset) matches(want desired.NftTable) (bool, error) {
	if r.table == nil || r.table.number(unix.NFTA_TABLE_FLAGS) != 0 || len(r.chains) != len(want.Chains) {
		return false, nil
	}
	wanted := map[string]string{}
	for _, c := range want.Chains {
		text, err := describeWanted(c)
		if err != nil {
			return false, err
		}
		wanted[text] = c.Name
	}
	for _, c := range r.chains {
		if wanted[describeChain(c)] == "" {
			return false, nil
		}
	}
	var sets, have []string
	for _, s := range want.Sets {
		text, err := describeWantedSet(s)
		if err != nil {
			return false, err
		}
		sets = append(sets, text)
	}
	for _, s := range r.sets {
		if !strings.HasPrefix(s.text(unix.NFTA_SET_NAME), anonymous) {
			have = append(have, describeSet(s))
		}
	}
	slices.Sort(sets)
	slices.Sort(have)
	return slices.Equal(sets, have) && r.hasRules(want), nil
}

func (r ruleset) hasRules(want desired.NftTable) bool {
	mark, count := fingerprint(want), map[string]int{}
	for _, rule := range r.rules {
		if commentOf(rule) != mark {
			return false
		}
		count[rule.text(unix.NFTA_RULE_CHAIN)]++
	}
	return !slices.ContainsFunc(want.Chains, func(c desired.NftChain) bool { return count[c.Name] != len(c.Rules) })
}

// commentOf returns the comment of a rule. User data are types and lengths of one byte each, with the data; a comment has type 0.
func commentOf(rule attributes) string {
	for data := rule[unix.NFTA_RULE_USERDATA]; len(data) >= 2; {
		kind, end := data[0], 2+int(data[1])
		if len(data) < end {
			break
		}
		if kind == 0 {
			return strings.TrimRight(string(data[2:end]), "\x00")
		}
		data = data[end:]
	}
	return ""
}

// accept is the policy of Weft's chains (NF_ACCEPT).
const accept = 1

// describeChain returns a chain's name, type, hook, priority and policy.
func describeChain(c attributes) string {
	hook := c.nested(unix.NFTA_CHAIN_HOOK)
	return fmt.Sprint(c.text(unix.NFTA_CHAIN_NAME), " ", c.text(unix.NFTA_CHAIN_TYPE), " ", hook.number(unix.NFTA_HOOK_HOOKNUM), " ",
		int32(hook.number(unix.NFTA_HOOK_PRIORITY)), " ", c.number(unix.NFTA_CHAIN_POLICY))
}

// hooks are the numbers of hooks (enum nf_inet_hooks).
var hooks = map[string]uint32{"prerouting": unix.NF_INET_PRE_ROUTING, "input": unix.NF_INET_LOCAL_IN,
	"forward": unix.NF_INET_FORWARD, "output": unix.NF_INET_LOCAL_OUT, "postrouting": unix.NF_INET_POST_ROUTING}

func describeWanted(c desired.NftChain) (string, error) {
	priority, err := knftables.ParsePriority(knftables.InetFamily, c.Priority)
	if err != nil {
		return "", fmt.Errorf("chain %s: %w", c.Name, err)
	}
	hook, ok := hooks[c.Hook]
	if !ok {
		return "", fmt.Errorf("chain %s: unknown hook %s", c.Name, c.Hook)
	}
	return fmt.Sprint(c.Name, " ", c.Type, " ", hook, " ", priority, " ", accept), nil
}

// setFlags are the flags to compare. The others are set by nft itself (NFT_SET_CONCAT).
const setFlags = unix.NFT_SET_CONSTANT | unix.NFT_SET_INTERVAL | unix.NFT_SET_MAP | unix.NFT_SET_TIMEOUT | unix.NFT_SET_EVAL

// describeSet returns a set's name, flags, and the types of its keys and values.
func describeSet(s attributes) string {
	return fmt.Sprint(s.text(unix.NFTA_SET_NAME), " ", s.number(unix.NFTA_SET_FLAGS)&setFlags, " ",
		s.number(unix.NFTA_SET_KEY_TYPE), " ", s.number(unix.NFTA_SET_DATA_TYPE))
}

func describeWantedSet(s desired.NftSet) (string, error) {
	var flags uint32
	if s.Interval {
		flags |= unix.NFT_SET_INTERVAL
	}
	if s.Value != "" {
		flags |= unix.NFT_SET_MAP
	}
	key, err := typeOf(s.Key)
	value, err2 := typeOf(s.Value)
	return fmt.Sprint(s.Name, " ", flags, " ", key, " ", value), errors.Join(err, err2)
}

// datatypes are nft's types that the table uses.
var datatypes = map[string]gnftables.SetDatatype{"ipv4_addr": gnftables.TypeIPAddr, "ipv6_addr": gnftables.TypeIP6Addr,
	"inet_proto": gnftables.TypeInetProto, "inet_service": gnftables.TypeInetService}

// typeOf returns nft's number of a type such as "ipv4_addr . inet_service", and 0 for an empty one.
func typeOf(text string) (uint32, error) {
	if text == "" {
		return 0, nil
	}
	var parts []gnftables.SetDatatype
	for _, name := range strings.Split(text, " . ") {
		part, ok := datatypes[name]
		if !ok {
			return 0, fmt.Errorf("unknown type %s of nftables", name)
		}
		parts = append(parts, part)
	}
	if len(parts) == 1 {
		return parts[0].GetNFTMagic(), nil
	}
	whole, err := gnftables.ConcatSetType(parts...)
	return whole.GetNFTMagic(), err
}
