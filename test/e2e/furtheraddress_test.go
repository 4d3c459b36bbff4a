//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/lab"
)

// virtual are addresses as keepalived adds them to a node's link while it runs. nodeLocal is the address of NodeLocal DNSCache.
var (
	virtual   = []netip.Prefix{netip.MustParsePrefix("172.30.0.199/32"), netip.MustParsePrefix("fd00:172:30::199/128")}
	nodeLocal = netip.MustParsePrefix("169.254.20.10/32")
)

// localLink has nodeLocal. A veth stands for the dummy link, which not every kernel has.
const localLink = "nodelocal0"

// testFurtherAddresses gives a node further addresses and removes them. Meanwhile node ports answer at the virtual ones, and pods of
// the node reach all of them.
func testFurtherAddresses(t *testing.T, o outside) {
	node := o.nodes[1]
	out, pod := bed.hostCaller(lab.Outside().Name), bed.podCaller(o.pods[node.Name])
	addresses := []netip.Addr{virtual[0].Addr(), virtual[1].Addr()}
	ports := nodePortsOf(o.all["Cluster"])
	backend := promise{[]string{o.pods["n1"].Name}, bed.anyOf(t, node.Name)}
	host := promise{[]string{node.Name}, itself(o.pods[node.Name])}
	try := func(present bool) {
		t.Helper()
		m := &matrix{mode: string(o.column.mode), uplink: string(o.column.uplink)}
		if !present {
			backend, host = promise{}, promise{}
		}
		m.add(out, "outside and pod", nodePort(node.Name)+" at a further address", "Cluster", addresses, ports, backend)
		m.add(pod, "pod and own node", nodePort(node.Name)+" at a further address", "Cluster", addresses, ports, backend)
		m.add(pod, "pod and own node", "host at a further address", "", append(addresses, nodeLocal.Addr()), fixed(whoPort), host)
		m.try(t)
		eventually(t, recoveryTimeout, func() error {
			nn := nodeNetwork(node.Name)
			if err := bed.api.Get(t.Context(), client.ObjectKeyFromObject(nn), nn); err != nil {
				return err
			}
			for _, a := range append(addresses, nodeLocal.Addr()) {
				if slices.Contains(nn.Status.HostAddresses, networkv1alpha1.IP(a.String())) != present {
					return fmt.Errorf("node %s reports %v, want %s: %v", node.Name, nn.Status.HostAddresses, a, present)
				}
			}
			return nil
		})
	}
	remove := o.addFurther(t, node)
	try(true)
	remove()
	try(false)
}

// addFurther adds the addresses to a node, and returns a function that removes them. The test's end does, too.
func (o outside) addFurther(t *testing.T, node lab.Machine) (remove func()) {
	t.Helper()
	bed.mustExec(t, node.Name, "ip", "link", "add", localLink, "type", "veth", "peer", "name", localLink+"p")
	done := false
	remove = func() {
		if done {
			return
		}
		done = true
		for _, a := range virtual {
			if _, err := bed.Exec(cleanup(), node.Name, "ip", "address", "delete", a.String(), "dev", bed.bridge()); err != nil {
				t.Error(err)
			}
		}
		if _, err := bed.Exec(cleanup(), node.Name, "ip", "link", "delete", localLink); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(remove)
	for _, link := range []string{localLink, localLink + "p"} {
		bed.mustExec(t, node.Name, "ip", "link", "set", link, "up")
	}
	bed.mustExec(t, node.Name, "ip", "address", "add", nodeLocal.String(), "dev", localLink)
	for _, a := range virtual {
		argv := []string{"ip", "address", "add", a.String(), "dev", bed.bridge()}
		if a.Addr().Is6() {
			argv = append(argv, "nodad")
		}
		bed.mustExec(t, node.Name, argv...)
	}
	return remove
}
