//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/lab"
)

// TestHostEndpoints calls a service whose endpoints are all nodes' own addresses, like the addresses of pods on the
// host's network. It calls from everywhere and in all columns. Every endpoint answers, also the endpoint on the
// called node and on the calling node.
func TestHostEndpoints(t *testing.T) {
	nodes, err := bed.Nodes()
	must(t, err)
	s := service("svc-host", "svc-host", published(9))
	bed.create(t, s)
	clients, servers := []*corev1.Pod{}, []string{}
	for _, n := range nodes {
		server := labelled(bed.peerPod("svc-host-"+n.Name, n.Name), "svc-host")
		server.Spec.HostNetwork = true
		client := bed.peerPod("svc-host-client-"+n.Name, n.Name)
		bed.run(t, server, client)
		clients, servers = append(clients, client), append(servers, n.Name) // the pod on the host's network reports the host's name
	}
	bed.awaitEndpoints(t, s, 2*len(nodes))
	beside := beside(t, nodes[0])
	first := column{networkv1alpha1.GatewayShared, networkv1alpha1.UplinkBridge}
	t.Cleanup(func() { bed.setGateway(t, cleanup(), first) })
	for _, c := range []column{first, {networkv1alpha1.GatewayShared, networkv1alpha1.UplinkInterface},
		{networkv1alpha1.GatewayLocal, networkv1alpha1.UplinkBridge}} {
		t.Run(c.String(), func(t *testing.T) {
			bed.setGateway(t, t.Context(), c)
			m := &matrix{mode: string(c.mode), uplink: string(c.uplink)}
			seen := source{"any address of the nodes and clients", anyAddress(t, nodes, clients)}
			for kind, to := range entries(t, s) {
				if kind == externalIP {
					continue // the lab's router has no route to them
				}
				for _, pod := range clients {
					m.add(bed.podCaller(pod), "host's endpoint", kind, "Cluster", to.addresses, to.port, promise{servers, seen})
				}
				for _, n := range nodes {
					m.add(bed.hostCaller(n.Name), "host's endpoint", kind, "Cluster", to.addresses, to.port, promise{servers, seen})
				}
				if !to.cluster {
					m.add(bed.hostCaller(lab.Outside().Name), "host's endpoint", kind, "Cluster", to.addresses,
						to.port, promise{servers, seen})
				}
			}
			answering := []string{nodes[0].Name}
			if c.mode == networkv1alpha1.GatewayLocal { // the pod replies through the host
				answering = append(answering, beside.Name)
			}
			if !c.apart() { // the gateway router's link does not lead to the host
				m.add(bed.hostCaller(lab.Outside().Name), "host's endpoint beside a pod", nodePort(nodes[0].Name), "Local",
					[]netip.Addr{nodes[0].IPv4.Addr()}, nodePortsOf(beside), promise{answering, ofMachine(lab.Outside())})
			}
			m.try(t)
			bed.awaitConsistent(t)
		})
	}
}

// beside returns a service with external policy Local whose endpoints on a node are the node and a pod with the service's name.
func beside(t *testing.T, node lab.Machine) *corev1.Service {
	t.Helper()
	s := service("svc-beside", "", func(s *corev1.ServiceSpec) {
		s.Type, s.Selector, s.ExternalTrafficPolicy = corev1.ServiceTypeNodePort, nil, corev1.ServiceExternalTrafficPolicyLocal
	})
	bed.create(t, s)
	pod := bed.peerPod(s.Name, node.Name)
	bed.run(t, pod)
	for i, a := range []netip.Addr{node.IPv4.Addr(), addressesOf(pod)[0]} {
		slice := worldSlice(s, i, a)
		slice.Endpoints[0].NodeName = &node.Name
		bed.create(t, slice)
	}
	return s
}

// awaitEndpoints waits until a service has the wanted number of endpoints.
func (b *testbed) awaitEndpoints(t *testing.T, s *corev1.Service, want int) {
	t.Helper()
	eventually(t, readyTimeout, func() error {
		var list discoveryv1.EndpointSliceList
		if err := b.api.List(t.Context(), &list, client.InNamespace(s.Namespace),
			client.MatchingLabels{discoveryv1.LabelServiceName: s.Name}); err != nil {
			return err
		}
		have := 0
		for i := range list.Items {
			have += len(list.Items[i].Endpoints)
		}
		if have != want {
			return fmt.Errorf("service %s has %d endpoints, want %d", s.Name, have, want)
		}
		return nil
	})
}

// anyAddress returns all addresses that a server may see: the nodes', the pods' and the outside machine's. Which
// node forwards a call is not fixed.
func anyAddress(t *testing.T, nodes []lab.Machine, pods []*corev1.Pod) []netip.Addr {
	all := ofMachine(lab.Outside()).Addresses
	for _, n := range nodes {
		all = slices.Concat(all, bed.anyOf(t, n.Name).Addresses, ofMachine(n.Second()).Addresses)
	}
	for _, p := range pods {
		all = append(all, addressesOf(p)...)
	}
	return all
}
