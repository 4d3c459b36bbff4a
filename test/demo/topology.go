package demo

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/weft-network/weft/pkg/ovn/names"
)

// Topology is the content of OVN's northbound database: one router and its switches.
type Topology struct {
	Router   string
	Switches []Switch
}

// Switch is a logical switch.
type Switch struct {
	Name   string
	Router *RouterPort // nil: not connected
	Ports  []Port      // all except the port to the router
}

// RouterPort is a router's port to a switch.
type RouterPort struct {
	Name, MAC string
	Networks  []string // addresses with prefix lengths
}

// Port is a switch's port to a pod or a host.
type Port struct {
	Name, MAC string
	Addresses []string
}

func (d *demo) topology(ctx context.Context) (Topology, error) {
	central, err := d.Cluster.Central(ctx)
	if err != nil {
		return Topology{}, err
	}
	text, err := d.Cluster.Exec(ctx, central, "ovn-nbctl", "--format=json",
		"--columns=name", "list", "Logical_Router", "--",
		"--columns=name,mac,networks", "list", "Logical_Router_Port", "--",
		"--columns=name,ports", "list", "Logical_Switch", "--",
		"--columns=_uuid,name,type,addresses,options", "list", "Logical_Switch_Port")
	if err != nil {
		return Topology{}, err
	}
	return parseTopology(text)
}

// parseTopology parses the four lists that topology requests.
func parseTopology(text []byte) (Topology, error) {
	lists, err := readLists(text)
	if err != nil {
		return Topology{}, fmt.Errorf("ovn-nbctl: %w", err)
	}
	if len(lists) != 4 {
		return Topology{}, fmt.Errorf("ovn-nbctl: %d lists, not 4", len(lists))
	}
	t := Topology{Router: names.ClusterRouter}
	if !slices.ContainsFunc(lists[0], func(r row) bool { return r.one("name") == t.Router }) {
		return Topology{}, fmt.Errorf("the northbound database has no router %s", t.Router)
	}
	routerPorts := map[string]RouterPort{} // by name
	for _, r := range lists[1] {
		routerPorts[r.one("name")] = RouterPort{r.one("name"), r.one("mac"), r["networks"]}
	}
	switchPorts := map[string]row{} // by UUID
	for _, r := range lists[3] {
		switchPorts[r.one("_uuid")] = r
	}
	for _, r := range lists[2] {
		t.Switches = append(t.Switches, newSwitch(r, switchPorts, routerPorts))
	}
	slices.SortFunc(t.Switches, compareSwitches)
	return t, nil
}

func newSwitch(r row, switchPorts map[string]row, routerPorts map[string]RouterPort) Switch {
	s := Switch{Name: r.one("name")}
	for _, uuid := range r["ports"] {
		p := switchPorts[uuid]
		if p.one("type") == "router" {
			if peer, ok := routerPorts[p.option("router-port")]; ok {
				s.Router = &peer
			}
			continue
		}
		mac, addresses, _ := strings.Cut(p.one("addresses"), " ")
		s.Ports = append(s.Ports, Port{p.one("name"), mac, strings.Fields(addresses)})
	}
	slices.SortFunc(s.Ports, func(a, b Port) int { return cmp.Compare(a.Name, b.Name) })
	return s
}

// compareSwitches sorts the join switch before the nodes' switches.
func compareSwitches(a, b Switch) int {
	rank := func(s Switch) int {
		if s.Name == names.JoinSwitch {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Name, b.Name))
}

// row is a row of a list: column -> its values. A map's values are key, value, key, value.
type row map[string][]string

func (r row) one(column string) string {
	if len(r[column]) == 0 {
		return ""
	}
	return r[column][0]
}

func (r row) option(key string) string {
	for pair := range slices.Chunk(r["options"], 2) {
		if pair[0] == key {
			return pair[1]
		}
	}
	return ""
}

// readLists parses the output of ovn-nbctl --format=json, several lists in sequence.
func readLists(text []byte) (lists [][]row, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	for {
		var list struct {
			Headings []string            `json:"headings"`
			Data     [][]json.RawMessage `json:"data"`
		}
		if err := decoder.Decode(&list); errors.Is(err, io.EOF) {
			return lists, nil
		} else if err != nil {
			return nil, err
		}
		rows := []row{}
		for _, data := range list.Data {
			r, err := newRow(list.Headings, data)
			if err != nil {
				return nil, err
			}
			rows = append(rows, r)
		}
		lists = append(lists, rows)
	}
}

func newRow(headings []string, data []json.RawMessage) (row, error) {
	if len(headings) != len(data) {
		return nil, fmt.Errorf("%d values in %d columns", len(data), len(headings))
	}
	r := row{}
	for i, raw := range data {
		values, err := atoms(raw)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", headings[i], err)
		}
		r[headings[i]] = values
	}
	return r, nil
}

// atoms flattens a value in OVSDB's notation (RFC 7047 §5.1): "x", ["uuid","x"], ["set",[x,y]] or ["map",[[k,v]]].
func atoms(raw json.RawMessage) ([]string, error) {
	var word string
	if json.Unmarshal(raw, &word) == nil {
		return []string{word}, nil
	}
	var tagged []json.RawMessage
	if json.Unmarshal(raw, &tagged) != nil {
		return []string{string(raw)}, nil // a number or a boolean
	}
	if len(tagged) != 2 {
		return nil, fmt.Errorf("%s: not a value", raw)
	}
	return elements(tagged)
}

// elements parses the notation's pairs. Only a map's element has no tag.
func elements(tagged []json.RawMessage) ([]string, error) {
	var many []json.RawMessage
	if json.Unmarshal(tagged[1], &many) != nil { // ["uuid","x"]
		return atoms(tagged[1])
	}
	var all []string
	for _, raw := range many {
		var pair [2]json.RawMessage
		parts := []json.RawMessage{raw}
		if string(tagged[0]) == `"map"` && json.Unmarshal(raw, &pair) == nil {
			parts = pair[:]
		}
		for _, part := range parts {
			values, err := atoms(part)
			if err != nil {
				return nil, err
			}
			all = append(all, values...)
		}
	}
	return all, nil
}

func printTopology(s Screen, t Topology) {
	s.title("The logical network (OVN's northbound database)")
	fmt.Fprintln(s, "router "+t.Router)
	var rows [][]cell
	for i, sw := range t.Switches {
		branch, stem := "├─ ", "│    "
		if i == len(t.Switches)-1 {
			branch, stem = "└─ ", "     "
		}
		rows = append(rows, append([]cell{{text: branch + sw.title(), style: bold}}, sw.link()...))
		for _, p := range sw.Ports {
			rows = append(rows, text(stem+p.Name, p.MAC, strings.Join(p.Addresses, " "), p.role(sw.Name)))
		}
	}
	s.table(rows)
}

func (s Switch) title() string {
	if s.Name == names.JoinSwitch {
		return "switch " + s.Name
	}
	pods := 0
	for _, p := range s.Ports {
		if p.role(s.Name) == rolePod {
			pods++
		}
	}
	return fmt.Sprintf("switch %s (pods: %d)", s.Name, pods)
}

func (s Switch) link() []cell {
	if s.Router == nil {
		return text("not connected")
	}
	return text(s.Router.MAC, strings.Join(s.Router.Networks, " "), "router port "+s.Router.Name)
}

const (
	rolePod  = "pod"
	roleHost = "the node itself"
)

func (p Port) role(node string) string {
	if p.Name == names.ManagementPort(node) {
		return roleHost
	}
	if _, _, ok := names.ParsePodPort(p.Name); ok {
		return rolePod
	}
	return ""
}
