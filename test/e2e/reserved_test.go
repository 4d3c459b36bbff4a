//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam/reserved"
	"github.com/weft-network/weft/test/lab"
	"github.com/weft-network/weft/test/poll"
)

// freePort is requested together with reserved ports, and must work.
const freePort = 18089

// everyDaemon is the environment variable that makes TestReservedDestinations kill every daemon, as make
// e2e-reserved does. Otherwise the test kills only the daemons whose clients reconnect over reserved ports.
const everyDaemon = "WEFT_E2E_RESERVED"

// TestReservedDestinations requests every reserved port of the node with OVN's databases as a host port and at
// external addresses, and kills daemons in turn meanwhile. No call to these ports may reach the pod, and the network
// must keep working.
func TestReservedDestinations(t *testing.T) {
	greedy := labelled(bed.peerPod("greedy", "n1"), "greedy")
	free := corev1.ContainerPort{ContainerPort: whoPort, HostPort: freePort, Protocol: corev1.ProtocolTCP}
	asked := unclaimed(t, "n1")
	greedy.Spec.Containers[0].Ports = append(hostPorts(asked), free)
	thief := service("thief", "greedy", func(s *corev1.ServiceSpec) {
		s.Ports = nil
		for _, port := range append(reservedPorts(), reserved.Port{Protocol: "tcp", Number: freePort}) {
			s.Ports = append(s.Ports, corev1.ServicePort{Name: fmt.Sprint(port.Protocol, port.Number), Port: int32(port.Number),
				Protocol: corev1.Protocol(strings.ToUpper(port.Protocol)), TargetPort: intstr.FromInt32(whoPort)})
		}
		s.ExternalIPs = []string{lab.Node(2).IPv4.Addr().String(), lab.Node(2).IPv6.Addr().String(), apiServer().String()}
	})
	near, far := bed.peerPod("reserved-near", "n1"), bed.peerPod("reserved-far", "n2")
	bed.create(t, thief)
	bed.run(t, greedy, near, far)

	t.Run("pod reports the refusal", func(t *testing.T) { awaitHostPortsRefused(t, greedy, asked) })
	t.Run("service reports the refusal", func(t *testing.T) { awaitAddressesRefused(t, thief) })
	t.Run("status names both", func(t *testing.T) { namedInStatus(t, "Pod/e2e/greedy", "Service/e2e/thief") })
	callers := []caller{bed.hostCaller("n1"), bed.hostCaller("n2"), bed.hostCaller("cp"), bed.hostCaller(lab.Outside().Name),
		bed.podCaller(near), bed.podCaller(far)}
	t.Run("free ports work", func(t *testing.T) { freePortsWork(t, callers, greedy.Name) })
	t.Run("reserved ports are the hosts'", func(t *testing.T) { reservedPortsAreFree(t, callers) })
	for _, v := range victims() {
		if os.Getenv(everyDaemon) == "" && !slices.Contains([]string{"operator", "agent", "southbound server"}, v.name) {
			continue
		}
		t.Run("without the "+v.name, func(t *testing.T) {
			v.kill(t)
			a, b := bed.peerPod("reserved-canary-1", "n1"), bed.peerPod("reserved-canary-2", "n2")
			bed.create(t, a, b)
			must(t, poll.Slowly(t.Context(), recoveryTimeout, func() error { return bed.reachEachOther(t.Context(), a, b) }))
			reservedPortsAreFree(t, callers[1:2]) // the other node's host, which needs the databases here
		})
	}
	t.Run("kubelet answers", func(t *testing.T) {
		_, err := bed.Kubectl(t.Context(), "-n", namespace, "exec", greedy.Name, "--", peerPath, "--help") // by kubelet's port 10250
		must(t, err)
	})
	bed.awaitConsistent(t)
}

// apiServer is the API server's endpoint address. Its machine is not a node, and the cluster does not see the
// machine's other addresses.
func apiServer() netip.Addr { return lab.ControlPlane().IPv4.Addr() }

// reservedPorts are the ports reserved by default.
func reservedPorts() []reserved.Port { return reserved.Defaults() }

// unclaimed lists the reserved ports that no pod of a node has as host ports. Kubelet itself refuses a pod with such a
// port, and operator and operands, which have one each, may be on any node.
func unclaimed(t *testing.T, node string) []reserved.Port {
	t.Helper()
	var pods corev1.PodList
	must(t, bed.api.List(t.Context(), &pods, client.MatchingFields{"spec.nodeName": node}))
	claimed := map[int32]bool{}
	for i := range pods.Items {
		for _, c := range pods.Items[i].Spec.Containers {
			for _, port := range c.Ports {
				claimed[port.HostPort] = true
			}
		}
	}
	return slices.DeleteFunc(reservedPorts(), func(p reserved.Port) bool { return claimed[int32(p.Number)] })
}

func hostPorts(of []reserved.Port) (ports []corev1.ContainerPort) {
	for _, port := range of {
		protocol := corev1.Protocol(strings.ToUpper(port.Protocol))
		ports = append(ports, corev1.ContainerPort{ContainerPort: whoPort, HostPort: int32(port.Number), Protocol: protocol})
	}
	return ports
}

// awaitHostPortsRefused waits for a condition and an event that name each of these host ports of the pod.
func awaitHostPortsRefused(t *testing.T, pod *corev1.Pod, asked []reserved.Port) {
	eventually(t, 20*time.Second, func() error {
		var have corev1.Pod
		if err := bed.api.Get(t.Context(), client.ObjectKeyFromObject(pod), &have); err != nil {
			return err
		}
		i := slices.IndexFunc(have.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == networkv1alpha1.PodHostPortsReady
		})
		if i < 0 || have.Status.Conditions[i].Status != corev1.ConditionFalse {
			return fmt.Errorf("conditions are %+v", have.Status.Conditions)
		}
		for _, port := range asked {
			text := fmt.Sprintf("%s/%d is reserved for %s", strings.ToUpper(port.Protocol), port.Number, port.Owner)
			if !strings.Contains(have.Status.Conditions[i].Message, text) {
				return fmt.Errorf("%q lacks %q", have.Status.Conditions[i].Message, text)
			}
		}
		return eventOf(t.Context(), pod, "ReservedHostPort")
	})
}

// awaitAddressesRefused waits for a condition and an event that name an address and port of a node and of the API
// server, with their owners.
func awaitAddressesRefused(t *testing.T, s *corev1.Service) {
	node := lab.Node(2)
	says := []string{
		fmt.Sprintf("TCP %s is reserved for kubelet on node n2", netip.AddrPortFrom(node.IPv4.Addr(), 10250)),
		fmt.Sprintf("TCP %s is reserved for kubelet on node n2", netip.AddrPortFrom(node.IPv6.Addr(), 10250)),
		fmt.Sprintf("TCP %s is reserved for the Kubernetes API server", netip.AddrPortFrom(apiServer(), 6443)),
	}
	eventually(t, 20*time.Second, func() error {
		var have corev1.Service
		if err := bed.api.Get(t.Context(), client.ObjectKeyFromObject(s), &have); err != nil {
			return err
		}
		c := meta.FindStatusCondition(have.Status.Conditions, networkv1alpha1.ServiceAddressesReady)
		if c == nil || c.Status != metav1.ConditionFalse {
			return fmt.Errorf("conditions are %+v", have.Status.Conditions)
		}
		for _, text := range says {
			if !strings.Contains(c.Message, text) {
				return fmt.Errorf("%q lacks %q", c.Message, text)
			}
		}
		return eventOf(t.Context(), s, "ReservedDestination")
	})
}

// eventOf returns nil if an object has an event with a reason.
func eventOf(ctx context.Context, o client.Object, reason string) error {
	var events eventsv1.EventList
	if err := bed.api.List(ctx, &events, client.InNamespace(o.GetNamespace())); err != nil {
		return err
	}
	if slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool { return e.Regarding.Name == o.GetName() && e.Reason == reason }) {
		return nil
	}
	return fmt.Errorf("%s has no event %s", o.GetName(), reason)
}

// namedInStatus waits until ClusterNetwork's list of refusals has the objects.
func namedInStatus(t *testing.T, objects ...string) {
	eventually(t, 20*time.Second, func() error {
		var cn networkv1alpha1.ClusterNetwork
		if err := bed.api.Get(t.Context(), types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, &cn); err != nil {
			return err
		}
		for _, object := range objects {
			named := func(r networkv1alpha1.Refusal) bool { return r.Object == object }
			if cn.Status.Refused == nil || !slices.ContainsFunc(cn.Status.Refused.First, named) {
				return fmt.Errorf("the status lists refusals %+v, want %s", cn.Status.Refused, object)
			}
		}
		return nil
	})
}

// freePortsWork calls the host port of n1 and the external addresses of n2, at the port that is not reserved.
func freePortsWork(t *testing.T, callers []caller, server string) {
	for _, c := range callers {
		eventually(t, 30*time.Second, func() error {
			for _, to := range addressesAt(freePort, lab.Node(1), lab.Node(2)) {
				all, err := c.call(t.Context(), "tcp", to, 1)
				if err == nil {
					_, err = answered(all, []string{server})
				}
				if err != nil {
					return fmt.Errorf("%s calls %s: %w", c.name, to, err)
				}
			}
			return nil
		})
	}
}

// reservedPortsAreFree calls all reserved ports of the nodes and the API server. The pod must not answer at any of
// them.
func reservedPortsAreFree(t *testing.T, callers []caller) {
	t.Helper()
	var wanted []calls
	for _, port := range reservedPorts() {
		for _, to := range append(addressesAt(port.Number, lab.Node(1), lab.Node(2)), netip.AddrPortFrom(apiServer(), port.Number)) {
			if port.Protocol == "tcp" {
				wanted = append(wanted, calls{Protocol: port.Protocol, To: to.String(), Count: 1})
			}
		}
	}
	became := make([][][]called, len(callers))
	var group errgroup.Group
	for i, c := range callers {
		group.Go(func() (err error) {
			became[i], err = c.callAll(t.Context(), wanted)
			return err
		})
	}
	must(t, group.Wait())
	for i, c := range callers {
		for j, all := range became[i] {
			for _, one := range all {
				if one.Server != "" {
					t.Errorf("%s calls %s and is answered by %s", c.name, wanted[j].To, one.Server)
				}
			}
		}
	}
}

func addressesAt(port uint16, machines ...lab.Machine) (found []netip.AddrPort) {
	for _, m := range machines {
		found = append(found, netip.AddrPortFrom(m.IPv4.Addr(), port), netip.AddrPortFrom(m.IPv6.Addr(), port))
	}
	return found
}

// TestHostPortsGoWithThePod removes a pod while the operator is stopped. The pod's host ports disappear from the
// node's flows and its table regardless.
func TestHostPortsGoWithThePod(t *testing.T) {
	server := bed.peerPod("hostport-alone", "n1")
	server.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: whoPort, HostPort: freePort, Protocol: corev1.ProtocolTCP}}
	bed.run(t, server)
	has := func() (rules, flows bool) {
		table := bed.mustExec(t, "n1", "nft", "list", "table", "inet", "weft")
		bridge := bed.mustExec(t, "n1", "ovs-ofctl", "dump-flows", bed.bridge())
		return strings.Contains(table, fmt.Sprint(". ", freePort)), strings.Contains(bridge, fmt.Sprint("ct_tp_dst=", freePort))
	}
	eventually(t, 20*time.Second, func() error {
		if rules, flows := has(); !rules || !flows {
			return fmt.Errorf("host port %d is in the table: %t, in flows: %t", freePort, rules, flows)
		}
		return nil
	})
	stopOperator(t, t.Cleanup)
	bed.remove(t, server)
	eventually(t, 20*time.Second, func() error {
		if rules, flows := has(); rules || flows {
			return fmt.Errorf("host port %d of the removed pod is in the table: %t, in flows: %t", freePort, rules, flows)
		}
		return nil
	})
}

// stopOperator ends the operator, and before it the operands, which would restore its Deployment. later gets the functions that start
// them again.
func stopOperator(t *testing.T, later func(func())) {
	t.Helper()
	programs := []part{operator}
	if bed.bare {
		programs = []part{operands, operator}
	}
	for _, p := range programs {
		scale := func(replicas string) {
			_, err := bed.Kubectl(cleanup(), "-n", product, "scale", "deployment", "weft-"+string(p), "--replicas="+replicas)
			must(t, err)
		}
		later(func() { scale("1") })
		scale("0")
		eventually(t, readyTimeout, func() error {
			if left, err := bed.pod(t.Context(), p, ""); err == nil {
				return fmt.Errorf("pod %s still exists", left.Name)
			}
			return nil
		})
	}
}
