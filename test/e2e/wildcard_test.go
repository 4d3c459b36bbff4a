//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/lab"
)

// testWildcard allows the names below a domain. Pods resolve them at the cluster's name servers, in which the lab has two
// such names (test/lab/manifests/coredns.yaml).
func testWildcard(t *testing.T, f *fence, out, far []netip.Addr) {
	const wildcard, outside, deep = "*.wild.weft.test", "out.wild.weft.test", "far.deep.wild.weft.test"
	awaitDNS(t)
	inside := addressesOf(f.inside)
	f.rules(t, allow(named53(wildcard)), deny(anywhere4), deny(anywhere6))
	f.says(t, networkv1alpha1.ConditionResolved, metav1.ConditionTrue, networkv1alpha1.ReasonAsExpected,
		"no pod has resolved a name of "+wildcard)
	observed(t, "n1", wildcard)
	observed(t, "n2", wildcard)
	f.reach(t, f.pods, inside...)

	// A name server that is not the cluster's gives addresses, and they do not count.
	stop := serveNames(t, "evil.wild.weft.test", far...)
	resolve(t, f.free, "udp", lab.Outside().IPv4.Addr().String(), "evil.wild.weft.test", far...)
	stop()
	first := time.Now()
	resolve(t, f.pods[0], "udp", lab.DNSv4, outside, out...)
	reachesAt(t, f.pods[0], out[0])
	t.Logf("from the query to the first connection: %s", time.Since(first).Round(time.Millisecond))
	f.reach(t, f.pods, slices.Concat(out, inside)...) // also from the pod of another node
	observed(t, "n1", wildcard, out...)
	observed(t, "n2", wildcard)
	f.says(t, networkv1alpha1.ConditionResolved, metav1.ConditionTrue, networkv1alpha1.ReasonAsExpected, "every DNS name has an address")

	resolve(t, f.pods[1], "tcp", lab.DNSv6, deep, far...)
	f.reach(t, f.pods, f.everywhere()...)
	observed(t, "n2", wildcard, far...)

	// New processes go on with what was observed.
	replacePod(t, agent, "n1")
	replacePod(t, operator, "")
	f.reach(t, f.pods, f.everywhere()...)
	observed(t, "n1", wildcard, out...)
	testNameOfPolicy(t, f, wildcard, slices.Concat(out, far))
	f.rules(t)
	for _, node := range []string{"n1", "n2"} {
		eventually(t, readyTimeout, func() error {
			nn := nodeNetwork(node)
			if err := bed.api.Get(t.Context(), client.ObjectKeyFromObject(nn), nn); err != nil {
				return err
			}
			if nn.Spec.Wildcards != nil || len(nn.Status.Wildcards) > 0 {
				return fmt.Errorf("without a name, NodeNetwork %s has %+v and reports %+v", node, nn.Spec.Wildcards, nn.Status.Wildcards)
			}
			return nil
		})
	}
}

// observed waits until a node observes a name and reports exactly these addresses.
func observed(t *testing.T, node, name string, addresses ...netip.Addr) {
	t.Helper()
	eventually(t, readyTimeout, func() error {
		nn := nodeNetwork(node)
		if err := bed.api.Get(t.Context(), client.ObjectKeyFromObject(nn), nn); err != nil {
			return err
		}
		if nn.Spec.Wildcards == nil || !slices.Equal(nn.Spec.Wildcards.Names, []string{name}) ||
			!slices.Equal(nn.Spec.Wildcards.Nameservers, []networkv1alpha1.IP{lab.DNSv4, lab.DNSv6}) {
			return fmt.Errorf("node %s is to observe %+v", node, nn.Spec.Wildcards)
		}
		var have, want []string
		for _, w := range nn.Status.Wildcards {
			for _, a := range w.Addresses {
				have = append(have, w.Name+" "+string(a))
			}
		}
		for _, a := range addresses {
			want = append(want, name+" "+a.String())
		}
		if slices.Sort(want); !slices.Equal(slices.Sorted(slices.Values(have)), want) {
			return fmt.Errorf("node %s reports %v, want %v", node, have, want)
		}
		return nil
	})
}

// resolve makes a pod query a server for a name.
func resolve(t *testing.T, from *corev1.Pod, protocol, server, name string, want ...netip.Addr) {
	t.Helper()
	eventually(t, recoveryTimeout, func() error {
		out, err := bed.in(t.Context(), from, peerPath, "resolve", "--protocol="+protocol,
			"--server="+net.JoinHostPort(server, "53"), "--name="+name)
		if err != nil {
			return err
		}
		var answers []resolved
		if err := json.Unmarshal(out, &answers); err != nil {
			return err
		}
		expected := slices.SortedFunc(slices.Values(want), netip.Addr.Compare)
		if len(answers) != 1 || answers[0].Error != "" || !slices.Equal(answers[0].Addresses, expected) {
			return fmt.Errorf("%s resolves %s to %+v, want %v", from.Name, name, answers, want)
		}
		return nil
	})
}

// reachesAt makes a pod connect once, with the time that a TCP client gives itself.
func reachesAt(t *testing.T, from *corev1.Pod, to netip.Addr) {
	t.Helper()
	at := netip.AddrPortFrom(to, whoPort).String()
	became, err := bed.podCaller(from).callAll(t.Context(), []calls{{"tcp", at, 1, false}})
	must(t, err)
	if failed := became[0][0].Error; failed != "" {
		t.Errorf("the first connection to %s after the answer failed: %s", at, strings.TrimSpace(failed))
	}
}
