//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ports"
)

// testDecisionsAreLogged checks that "kubectl weft log" prints which rule allowed or dropped which packets. The
// agents count all decisions, including those above the log's rate limit.
func testDecisionsAreLogged(t *testing.T, w *isle) {
	p := policy("logged", app("web"), networkingv1.PolicyTypeIngress)
	p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{PodSelector: ptr(app("client"))}}}}
	bed.create(t, p)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: isolated}}
	logs := func(value string) {
		must(t, bed.api.Patch(t.Context(), namespace, client.RawPatch(types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, networkv1alpha1.ACLLoggingAnnotation, value))))
	}
	logs(`"{\"deny\": \"warning\", \"allow\": \"info\"}"`)
	who := fmt.Sprint(w.web.Namespace, "/", w.web.Name, ":", whoPort)
	wanted := []string{
		"warning: NetworkPolicy " + isolated + "/logged ingress isolation dropped TCP " + namespaced(w.stranger) + " → " + who,
		"info: NetworkPolicy " + isolated + "/logged ingress[0] allowed TCP " + namespaced(w.client) + " → " + who,
	}
	command := newWeft(t)
	eventually(t, convergence, func() error {
		reach(t, []string{"tcp"}, w.client, []*corev1.Pod{w.web}, []*corev1.Pod{w.web})
		reach(t, []string{"tcp"}, w.stranger, []*corev1.Pod{w.web}, nil)
		out, errs, code := command.run("", "log", isolated)
		for _, line := range wanted {
			if code != 0 || !strings.Contains(out, " n1 "+line) {
				return fmt.Errorf("exit code %d, %s\n%s\nlacks %q", code, errs, out, line)
			}
		}
		return nil
	})
	out, _, _ := command.run("", "log", isolated, "--denied")
	t.Logf("kubectl weft log %s --denied\n%s", isolated, out)
	if strings.Contains(out, "allowed") || !strings.Contains(out, wanted[0]) {
		t.Errorf("--denied shows\n%s", out)
	}
	testDecisionsAreCounted(t, w)

	logs("null")
	eventually(t, convergence, func() error {
		counted, err := rulePackets(t, "logged")
		if err == nil && len(counted) > 0 {
			err = fmt.Errorf("the agent still counts %v", slices.Collect(maps.Keys(counted)))
		}
		return err
	})
	bed.remove(t, p)
}

// testDecisionsAreCounted sends many packets, of which only a few are logged.
func testDecisionsAreCounted(t *testing.T, w *isle) {
	dropped := func() float64 {
		counted, err := rulePackets(t, "logged")
		must(t, err)
		return counted["ingress isolation drop"]
	}
	before := dropped()
	answers := startProbing(t, w.stranger, []string{addressesOf(w.web)[0].String()})
	time.Sleep(2 * time.Second)
	sent := 0
	for _, r := range answers() {
		if sent += r.Sent; r.Lost != r.Sent {
			t.Errorf("%d of %d packets passed", r.Sent-r.Lost, r.Sent)
		}
	}
	eventually(t, convergence, func() error { // ovs-vswitchd collects the datapath's counters with a delay
		if grown := dropped() - before; grown < float64(sent) {
			return fmt.Errorf("the counter grew by %v, want at least the %d packets sent", grown, sent)
		}
		return nil
	})
	out, _, _ := newWeft(t).run("", "log", namespaced(w.stranger), "--since=1m")
	logged := strings.Count(out, "dropped ICMP "+namespaced(w.stranger))
	t.Logf("%d packets were sent in 2 s, %v counted, %d logged", sent, dropped()-before, logged)
	if logged == 0 || logged >= sent {
		t.Errorf("%d of %d packets are logged, want some but not all", logged, sent)
	}
}

func namespaced(p *corev1.Pod) string { return p.Namespace + "/" + p.Name }

// rulePackets returns the packet counts that the agent of n1 reports for a policy, keyed by "rule verdict".
func rulePackets(t *testing.T, name string) (map[string]float64, error) {
	agent, err := bed.pod(t.Context(), agent, "n1")
	if err != nil {
		return nil, err
	}
	samples, err := bed.scrape(t.Context(), agent, ports.AgentMetrics)
	if err != nil {
		return nil, err
	}
	found := map[string]float64{}
	for sample, value := range samples {
		if !strings.HasPrefix(sample, "weft_policy_packets_total{") || !strings.Contains(sample, `name="`+name+`"`) {
			continue
		}
		label := func(key string) string {
			_, rest, _ := strings.Cut(sample, key+`="`)
			value, _, _ := strings.Cut(rest, `"`)
			return value
		}
		if label("namespace") != isolated || label("kind") != "networkpolicy" {
			return nil, errors.New(sample)
		}
		found[label("rule")+" "+label("verdict")] = value
	}
	return found, nil
}
