package soak

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/lab"
	"github.com/weft-network/weft/test/testbed"
)

// Count is the number of objects of one kind.
type Count struct {
	What string
	N    int
}

// Inventory lists every kind of object that an ADD creates, in a fixed order.
type Inventory []Count

// probe counts objects with a script inside a machine. The script's first argument is the agent's process ID.
type probe struct{ what, script string }

// nodeProbes count inside the node.
var nodeProbes = []probe{
	{"veth links on the host", `ip -o link show type veth | wc -l`},
	{"guards of links (nft chains)", `nft list chains | grep -c "chain " || true`},
	{"ports in Open vSwitch", `ovs-vsctl --timeout=20 --bare --columns=_uuid list Port | wc -w`},
	{"interfaces in Open vSwitch", `ovs-vsctl --timeout=20 --bare --columns=_uuid list Interface | wc -w`},
	{"ports of the datapath", `ovs-appctl -t ` + lab.SwitchControl + ` dpctl/show | grep -c "  port "`},
	{"conntrack zones of br-int", `ovs-vsctl --timeout=20 get Bridge br-int external_ids | tr , "\n" | grep -c ct-zone || true`},
	{"network namespaces in /run/netns", `ls /run/netns | wc -l`},
	{"namespace mounts on the node", `grep -c " nsfs " /proc/self/mountinfo || true`},
	{"mounts that the agent sees", `wc -l < /proc/$1/mountinfo`},
	{"tombstones", `ls /run/weft/tombstones 2>/dev/null | wc -l`},
	{"files in /run/weft", `find /run/weft ! -type d | wc -l`},
	{"results that the runtime keeps", `find /var/lib/cni ! -type d 2>/dev/null | wc -l`},
	{"processes of weft-cni", `busybox pidof weft-cni | wc -w`},
	{agentFiles, `ls /proc/$1/fd | wc -l`},
}

// databaseProbes count on the machine with the databases.
var databaseProbes = []probe{
	{"logical switch ports (NB)", `ovn-nbctl --timeout=20 --bare --columns=_uuid list Logical_Switch_Port | wc -w`},
	{"port bindings (SB)", `ovn-sbctl --timeout=20 --bare --columns=_uuid list Port_Binding | wc -w`},
}

// Take counts. It fails while the node's agent is not Ready.
func Take(ctx context.Context, b *testbed.Bed, node string) (Inventory, error) {
	agent, err := b.Agent(ctx, node)
	if err != nil {
		return nil, err
	}
	central, err := b.Central(ctx)
	if err != nil {
		return nil, err
	}
	var found Inventory
	for _, at := range []struct {
		machine string
		probes  []probe
	}{{node, nodeProbes}, {central, databaseProbes}} {
		for _, p := range at.probes {
			n, err := b.Number(ctx, at.machine, p.script, agent.PID)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.what, err)
			}
			found = append(found, Count{p.what, n})
		}
	}
	used, err := addresses(ctx, b, node)
	if err != nil {
		return nil, err
	}
	samples, err := b.Metrics(ctx, agent)
	if err != nil {
		return nil, err
	}
	return append(append(found, used...), Count{agentGoroutines, int(samples["go_goroutines"])}), nil
}

// Counts that vary by one or two on an idle agent, because of kubelet's probes.
const agentGoroutines, agentFiles = "goroutines of the agent", "file descriptors of the agent"

// atRest removes the varying counts.
func (i Inventory) atRest() Inventory {
	return slices.DeleteFunc(slices.Clone(i), func(c Count) bool { return c.What == agentGoroutines || c.What == agentFiles })
}

// least returns the smaller count of each kind.
func least(a, b Inventory) Inventory {
	if a == nil {
		return b
	}
	was, smaller := a.byName(), slices.Clone(b)
	for i, c := range smaller {
		smaller[i].N = min(c.N, was[c.What])
	}
	return smaller
}

// addresses returns the counts of the operator's allocator and the node's agent.
func addresses(ctx context.Context, b *testbed.Bed, node string) (Inventory, error) {
	var cn networkv1alpha1.ClusterNetwork
	if err := b.API.Get(ctx, client.ObjectKey{Name: networkv1alpha1.ClusterNetworkName}, &cn); err != nil {
		return nil, err
	}
	var nn networkv1alpha1.NodeNetwork
	if err := b.API.Get(ctx, client.ObjectKey{Name: node}, &nn); err != nil {
		return nil, err
	}
	var cluster, here int64
	for _, a := range cn.Status.Addresses {
		cluster += a.Used
	}
	if nn.Status.Addresses != nil {
		here = nn.Status.Addresses.Used
	}
	return Inventory{{"addresses in use, both families", int(cluster)}, {"addresses in use on the node", int(here)},
		{"pods that the agent has", int(nn.Status.Pods)}}, nil
}

// leaked lists the kinds whose count has grown.
func leaked(before, after Inventory) (leaks []string) {
	was := before.byName()
	for _, c := range after {
		if c.N > was[c.What] {
			leaks = append(leaks, fmt.Sprintf("%s: %d, before %d", c.What, c.N, was[c.What]))
		}
	}
	return leaks
}

func (i Inventory) byName() map[string]int {
	byName := make(map[string]int, len(i))
	for _, c := range i {
		byName[c.What] = c.N
	}
	return byName
}

// compare prints both inventories as a table.
func compare(out io.Writer, before, after Inventory) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nwhat\tbefore\tafter\tleaked")
	was := before.byName()
	for _, c := range after {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\n", c.What, was[c.What], c.N, max(0, c.N-was[c.What]))
	}
	w.Flush()
	fmt.Fprintln(out)
}
