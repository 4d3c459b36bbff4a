//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/lab"
)

// dscpPort is the port of peers that report the DSCP of a datagram.
const dscpPort = 7002

// dscpCell is the DSCP with which a pod's datagrams arrived.
type dscpCell struct {
	Mode string `json:"mode"`
	From string `json:"from"`
	To   string `json:"to"`
	Want int    `json:"want"`
	DSCP int    `json:"dscp"`
}

// marked are the pods and the destinations of the EgressQoS test.
type marked struct {
	voice, plain *corev1.Pod
	qos          *networkv1alpha1.EgressQoS
	cells        []dscpCell
}

// TestEgressQoS checks the DSCP of datagrams that arrive outside the cluster, in Shared and in Local mode and in both
// families: by pod and by destination, the first rule decides, and a pod with the label is marked from its first datagram.
// Traffic between pods keeps its DSCP. A limit limits the pods that it selects.
func TestEgressQoS(t *testing.T) {
	m := &marked{voice: labelled(bed.peerPod("qos-voice", "n1"), "voice"), plain: bed.peerPod("qos-plain", "n2")}
	t.Cleanup(func() { writeCells(t, "egressqos.json", m.cells) })
	bed.run(t, m.voice, m.plain)
	bed.serveOn(t, lab.Outside().Name, lab.Far().Name)
	out, far := both(lab.Outside()), both(lab.Far())
	m.qos = &networkv1alpha1.EgressQoS{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: networkv1alpha1.EgressQoSName}}
	voice := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "voice"}}
	m.qos.Spec.Egress = []networkv1alpha1.EgressQoSRule{
		{DSCP: dscp(46), DstCIDR: cidr(out[0]).CIDRSelector, PodSelector: voice},
		{DSCP: dscp(10), DstCIDR: cidr(out[0]).CIDRSelector},
		{DSCP: dscp(12), DstCIDR: cidr(out[1]).CIDRSelector},
		{DSCP: dscp(20), PodSelector: voice},
	}
	bed.create(t, m.qos)
	m.ready(t, metav1.ConditionTrue, "rules in force: 4")
	shared := column{networkv1alpha1.GatewayShared, networkv1alpha1.UplinkBridge}
	t.Cleanup(func() { bed.setGateway(t, cleanup(), shared) })
	for _, c := range []column{shared, {networkv1alpha1.GatewayLocal, networkv1alpha1.UplinkBridge}} {
		t.Run(string(c.mode), func(t *testing.T) {
			bed.setGateway(t, t.Context(), c)
			m.arrives(t, c, m.voice, 46, out[0])
			m.arrives(t, c, m.plain, 10, out[0])
			m.arrives(t, c, m.voice, 12, out[1])
			m.arrives(t, c, m.plain, 12, out[1])
			m.arrives(t, c, m.voice, 20, far...)
			m.arrives(t, c, m.plain, 0, far...)
			m.arrives(t, c, m.voice, 0, addressesOf(m.plain)...)
			late := labelled(bed.peerPod("qos-late", "n2"), "voice")
			bed.run(t, late)
			for _, a := range far {
				m.once(t, c, late, 20, a)
			}
			bed.removeNow(t, late)
		})
	}
	bed.setGateway(t, t.Context(), shared)
	t.Run("a limit", func(t *testing.T) { m.testLimit(t, voice, out) })
	t.Run("an unreadable rule", func(t *testing.T) {
		m.rules(t, networkv1alpha1.EgressQoSRule{DSCP: dscp(1), PodSelector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Near"}}}})
		m.ready(t, metav1.ConditionFalse, "the former rules stay in force: 1: spec.egress[0].podSelector")
		m.arrives(t, shared, m.voice, 0, out...)
	})
	bed.remove(t, m.qos)
	bed.awaitConsistent(t)
}

func dscp(n int32) *int32 { return &n }

// testLimit sends 4 MB at a limit of 8 Mbit/s, for which they need 4 s, and without a limit.
func (m *marked) testLimit(t *testing.T, voice *metav1.LabelSelector, out []netip.Addr) {
	const size, rate, burst = 4 << 20, 8000, 600
	const slowest = (size*8 - burst*1000) / rate * time.Millisecond // a kbit/s is a bit per millisecond
	m.rules(t, networkv1alpha1.EgressQoSRule{PodSelector: voice,
		Bandwidth: &networkv1alpha1.EgressQoSBandwidth{Rate: rate, Burst: burst}})
	m.ready(t, metav1.ConditionTrue, "rules in force: 1")
	bed.mustExec(t, bed.central, "ovn-nbctl", "--timeout=20", "--wait=hv", "sync")
	for _, a := range out {
		for _, p := range []*corev1.Pod{m.voice, m.plain} {
			began := time.Now()
			must(t, bed.podCaller(p).sendsStream(t, netip.AddrPortFrom(a, 7000), size))
			took, limited := time.Since(began), p == m.voice
			t.Logf("4 MB from %s to %s took %s", p.Name, a, took)
			if limited != (took > slowest) {
				t.Errorf("4 MB from %s to %s took %s; with the limit they need %s, and the pod is limited: %t", p.Name, a, took, slowest, limited)
			}
		}
	}
}

func (m *marked) rules(t *testing.T, rules ...networkv1alpha1.EgressQoSRule) {
	t.Helper()
	must(t, bed.api.Get(t.Context(), client.ObjectKeyFromObject(m.qos), m.qos))
	patch := client.MergeFrom(m.qos.DeepCopy())
	m.qos.Spec.Egress = rules
	must(t, bed.api.Patch(t.Context(), m.qos, patch))
}

// ready waits for the condition of the present generation.
func (m *marked) ready(t *testing.T, status metav1.ConditionStatus, message string) {
	t.Helper()
	eventually(t, readyTimeout, func() error {
		if err := bed.api.Get(t.Context(), client.ObjectKeyFromObject(m.qos), m.qos); err != nil {
			return err
		}
		c := meta.FindStatusCondition(m.qos.Status.Conditions, networkv1alpha1.ConditionReady)
		if c == nil || c.ObservedGeneration != m.qos.Generation || c.Status != status || !strings.Contains(c.Message, message) {
			return fmt.Errorf("conditions are %+v, want %s with %q", m.qos.Status.Conditions, status, message)
		}
		return nil
	})
}

// arrives waits until datagrams of a pod arrive with a DSCP.
func (m *marked) arrives(t *testing.T, c column, from *corev1.Pod, want int, to ...netip.Addr) {
	t.Helper()
	for _, a := range to {
		cell := dscpCell{Mode: string(c.mode), From: from.Name, To: a.String(), Want: want, DSCP: -1}
		eventually(t, recoveryTimeout, func() error {
			got, err := seenDSCP(t.Context(), from, a)
			if cell.DSCP = got; err == nil && got != want {
				err = fmt.Errorf("%s: datagrams from %s to %s arrive with DSCP %d, want %d", c.mode, from.Name, a, got, want)
			}
			return err
		})
		m.cells = append(m.cells, cell)
	}
}

// once checks a pod's first datagram to a destination.
func (m *marked) once(t *testing.T, c column, from *corev1.Pod, want int, to netip.Addr) {
	t.Helper()
	got, err := seenDSCP(t.Context(), from, to)
	if err != nil || got != want {
		t.Errorf("%s: the first datagram from %s to %s arrives with DSCP %d, %v, want %d", c.mode, from.Name, to, got, err, want)
	}
	m.cells = append(m.cells, dscpCell{string(c.mode), from.Name + " (first datagram)", to.String(), want, got})
}

func seenDSCP(ctx context.Context, from *corev1.Pod, to netip.Addr) (int, error) {
	answers, err := bed.podCaller(from).call(ctx, "udp", netip.AddrPortFrom(to, dscpPort), 1)
	if err != nil {
		return -1, err
	}
	if len(answers) != 1 || answers[0].Error != "" {
		return -1, fmt.Errorf("%s calls %s: %+v", from.Name, to, answers)
	}
	_, text, found := strings.Cut(answers[0].Client, "/")
	if !found {
		return -1, errors.New("no DSCP in " + answers[0].Client)
	}
	return strconv.Atoi(text)
}
