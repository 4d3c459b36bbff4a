//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weft-network/weft/test/lab"
)

// resolved is the output of peer resolve for one query.
type resolved struct {
	Server, Protocol, Name string
	Addresses              []netip.Addr
	Error                  string
}

// TestDNS queries the cluster's DNS from pods on both nodes, over both protocols and families, for a service, a
// headless service and one of its pods, and a name that does not exist. The DNS pods reach the API server through
// the service kubernetes.
func TestDNS(t *testing.T) {
	awaitDNS(t)
	b1, b2 := labelled(bed.peerPod("dns-b1", "n1"), "dns"), labelled(bed.peerPod("dns-b2", "n2"), "dns")
	for _, p := range []*corev1.Pod{b1, b2} {
		p.Spec.Hostname, p.Spec.Subdomain = p.Name, "dns"
	}
	headless := service("dns", "dns", func(s *corev1.ServiceSpec) { s.ClusterIP = corev1.ClusterIPNone })
	bed.create(t, headless)
	bed.run(t, b1, b2)
	var api corev1.Service
	must(t, bed.api.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "kubernetes"}, &api))

	want := map[string][]netip.Addr{
		"kubernetes.default.svc.cluster.local":               addressList(api.Spec.ClusterIPs...),
		"dns." + namespace + ".svc.cluster.local":            slices.Concat(addressesOf(b1), addressesOf(b2)),
		b2.Name + ".dns." + namespace + ".svc.cluster.local": addressesOf(b2),
		"out.weft.test": {lab.Outside().IPv4.Addr(), lab.Outside().IPv6.Addr()},
	}
	servers := []string{net.JoinHostPort(lab.DNSv4, "53"), net.JoinHostPort(lab.DNSv6, "53")}
	for _, from := range []*corev1.Pod{b1, b2} {
		eventually(t, recoveryTimeout, func() error { return bed.resolves(t.Context(), from, servers, want) })
		// As programs do: through the resolv.conf that kubelet wrote, with its search list.
		eventually(t, recoveryTimeout, func() error {
			return bed.resolves(t.Context(), from, []string{""},
				map[string][]netip.Addr{"kubernetes.default": want["kubernetes.default.svc.cluster.local"]})
		})
	}
}

// awaitDNS waits until the lab's CoreDNS is ready on both nodes.
func awaitDNS(t *testing.T) {
	t.Helper()
	eventually(t, readyTimeout, func() error {
		var d appsv1.Deployment
		if err := bed.api.Get(t.Context(), types.NamespacedName{Namespace: "kube-system", Name: "coredns"}, &d); err != nil {
			return err
		}
		if d.Status.ObservedGeneration != d.Generation || d.Status.ReadyReplicas != *d.Spec.Replicas {
			return fmt.Errorf("coredns has %d of %d pods ready", d.Status.ReadyReplicas, *d.Spec.Replicas)
		}
		return nil
	})
}

// resolves makes one process in a pod query each server over both protocols for each name.
func (b *testbed) resolves(ctx context.Context, from *corev1.Pod, servers []string, want map[string][]netip.Addr) error {
	argv := []string{peerPath, "resolve", "--protocol=udp,tcp"}
	for _, server := range servers {
		argv = append(argv, "--server="+server)
	}
	for name := range want {
		argv = append(argv, "--name="+name)
	}
	out, err := b.in(ctx, from, argv...)
	if err != nil {
		return err
	}
	var all []resolved
	if err := json.Unmarshal(out, &all); err != nil {
		return err
	}
	var wrong error
	if queries := 2 * len(servers) * len(want); len(all) != queries {
		wrong = fmt.Errorf("%d answers to %d queries", len(all), queries)
	}
	for _, r := range all {
		expected := slices.SortedFunc(slices.Values(want[r.Name]), netip.Addr.Compare)
		if r.Error != "" || !slices.Equal(r.Addresses, expected) {
			wrong = errors.Join(wrong, fmt.Errorf("%s queries %q over %s for %s: %v %s, want %v", from.Name, r.Server,
				r.Protocol, r.Name, r.Addresses, r.Error, expected))
		}
	}
	return wrong
}

func addressList(texts ...string) []netip.Addr {
	var all []netip.Addr
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}
