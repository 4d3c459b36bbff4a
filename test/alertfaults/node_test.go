//go:build e2e

package alertfaults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/pkg/ports"
	"github.com/weft-network/weft/test/lab"
	"github.com/weft-network/weft/test/testbed"
)

// Programs for a node's shell.
const (
	// routeless deletes the default route of the pod with an address, and prints the namespace and the route.
	routeless = `for n in /run/netns/*; do
		nsenter --net="$n" ip -4 -o address show 2>/dev/null | grep -q " $1/" || continue
		route=$(nsenter --net="$n" ip -4 route show default)
		nsenter --net="$n" ip -4 route del default && echo "$n $route"
	done`
	// block drops what the node sends to a port of an address.
	block = `nft "add table inet alarm; add chain inet alarm out { type filter hook output priority 0; }; ` +
		`add rule inet alarm out ip daddr $1 tcp dport $2 drop"`
	// unmountable replaces a folder that pods mount by a file.
	unmountable = `mv /var/lib/weft /var/lib/weft.alarm && touch /var/lib/weft`
	mountable   = `rm /var/lib/weft && mv /var/lib/weft.alarm /var/lib/weft`
)

// broken deletes a pod's default route, as a program or a person in the pod could.
func (w *ward) broken() fault {
	// checked every 5 minutes, and confirmed
	return fault{name: "a pod's default route is deleted in its namespace", within: 9 * time.Minute,
		alerts: []expected{{alert: "WeftInterfacesBroken", factor: divided, labels: map[string]string{"instance": agentOf("n2")}}},
		also:   []string{"WeftDegraded"},
		inject: func(t *testing.T) func() {
			pod := w.Pausing("routeless", "n2")
			w.run(t, pod)
			namespace, route, ok := strings.Cut(w.shell(t, "n2", routeless, pod.Status.PodIP), " ")
			if !ok {
				t.Fatalf("pod %s with %s has no default route", pod.Name, pod.Status.PodIP)
			}
			return func() { w.shell(t, "n2", `n=$1; shift; nsenter --net="$n" ip -4 route add $1`, namespace, route) }
		}}
}

// poolless creates a Service that no LoadBalancerPool serves.
func (w *ward) poolless() fault {
	return fault{name: "a Service of type LoadBalancer without a pool", within: 13 * time.Minute, // the operator counts it after 10
		alerts: []expected{{alert: "WeftObjectsWaiting", factor: divided, labels: map[string]string{"kind": "Service", "reason": "NoPool"}}},
		inject: func(t *testing.T) func() {
			service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "poolless"}}
			service.Spec.Type, service.Spec.Ports = corev1.ServiceTypeLoadBalancer, []corev1.ServicePort{{Port: 80}}
			w.create(t, service)
			return func() { must(t, client.IgnoreNotFound(w.API.Delete(context.Background(), service))) }
		}}
}

// agentOf returns the address of a node's agent metrics.
func agentOf(node string) string {
	addresses := map[string]string{"n1": lab.Node(1).IPv4.Addr().String(), "n2": lab.Node(2).IPv4.Addr().String()}
	return addresses[node] + ports.Any(ports.AgentMetrics)
}

// slow stops a node's ovn-controller for 30 s, lets it run for 5 s, and so on, like one with too much to compute.
// Meanwhile pods are created there, and endpoints of a service change.
func (w *ward) slow(backend *backend) fault {
	const still, works = 30 * time.Second, 5 * time.Second
	return fault{name: "an ovn-controller stands still for 30 s of each 35 s", within: 6 * time.Minute,
		alerts: []expected{{alert: "WeftSlowAttachment", factor: divided}, {alert: "WeftSlowPropagation", factor: divided}},
		also:   []string{"WeftDegraded", "WeftNodesNotReady", "WeftPodsNotAttached"},
		inject: func(t *testing.T) func() {
			round := 0
			return again(t, works, func(ctx context.Context) error {
				for i := range 3 {
					pod := w.Pausing(fmt.Sprintf("slow-%d-%d", round, i), "n1")
					if err := w.API.Create(ctx, pod); err != nil {
						return err
					}
				}
				round++
				if err := w.signal("n1", "ovn-controller", syscall.SIGSTOP); err != nil {
					return err
				}
				err := backend.toggle(ctx)
				select {
				case <-ctx.Done():
				case <-time.After(still):
				}
				return errors.Join(err, w.signal("n1", "ovn-controller", syscall.SIGCONT))
			})
		}}
}

func (w *ward) signal(machine, daemon string, sig syscall.Signal) error {
	init, err := w.Init(machine)
	if err != nil {
		return err
	}
	defer init.Close()
	return init.Signal(daemon, sig)
}

// controllerAway keeps ovn-controller down: existing pods keep their flows, and the node gets no new pods.
func (w *ward) controllerAway() fault {
	return fault{name: "a node's ovn-controller is killed and stays down", within: 3 * time.Minute,
		alerts: []expected{{alert: "WeftDegraded", factor: divided, labels: map[string]string{"area": "Nodes"}},
			{alert: "WeftNodesNotReady", factor: divided}},
		also:   []string{"WeftRolloutStuck"},
		inject: func(t *testing.T) func() { return w.stopped(t, "n1", "ovn-controller") }}
}

// southboundBlocked drops an agent's packets to the southbound database in a firewall.
func (w *ward) southboundBlocked() fault {
	return fault{name: "a node drops packets to the southbound database's listener for agents", within: 3 * time.Minute,
		alerts: []expected{{alert: "WeftDatabaseDisconnected", factor: divided,
			labels: map[string]string{"database": southbound, "instance": agentOf("n1")}}},
		also: []string{"WeftDegraded", "WeftNodesNotReady", "WeftRolloutStuck"},
		inject: func(t *testing.T) func() {
			address, port, _ := strings.Cut(strings.TrimPrefix(lab.SouthboundReader, "ssl:"), ":")
			w.shell(t, "n1", block, address, port)
			return func() { w.shell(t, "n1", "nft delete table inet alarm") }
		}}
}

// agentPending puts a file where the agent mounts a folder, so that kubelet cannot start the next agent.
func (w *ward) agentPending() fault {
	replace := func(t *testing.T) {
		_, err := w.Kubectl(context.Background(), "-n", testbed.Product, "delete", "pods", "-l",
			"app.kubernetes.io/component=agent", "--field-selector=spec.nodeName=n1", "--wait=false")
		must(t, err)
	}
	return fault{name: "a file is where an agent's folder should be, and the agent is replaced", within: 5 * time.Minute,
		alerts: []expected{{alert: "WeftProgressingForLong", factor: divided, labels: map[string]string{"area": "Nodes"}},
			{alert: "WeftRolloutStuck", factor: divided, labels: map[string]string{"name": "weft-agent"}}},
		also: []string{"WeftNodesNotReady", "WeftDegraded"},
		inject: func(t *testing.T) func() {
			w.shell(t, "n1", unmountable)
			replace(t)
			return func() {
				w.shell(t, "n1", mountable)
				replace(t) // otherwise kubelet retries the mount only after a while
			}
		}}
}
