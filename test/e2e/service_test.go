//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weft-network/weft/test/lab/tools"
)

// whoPort is the port of the peer that tells who answers.
const whoPort = 7001

// service selects pods by their label app, over both protocols and families.
func service(name, app string, change ...func(*corev1.ServiceSpec)) *corev1.Service {
	policy := corev1.IPFamilyPolicyRequireDualStack
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": app}, IPFamilyPolicy: &policy,
		Ports: []corev1.ServicePort{
			{Name: "t", Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(whoPort)},
			{Name: "u", Port: 80, Protocol: corev1.ProtocolUDP, TargetPort: intstr.FromInt32(whoPort)},
		},
	}}
	for _, c := range change {
		c(&s.Spec)
	}
	return s
}

// labelled gives a pod the label app.
func labelled(p *corev1.Pod, app string) *corev1.Pod {
	p.Labels = map[string]string{"app": app}
	return p
}

// called is what peer call prints of one call.
type called struct {
	Server, Client, Error string
	Refused               bool
}

// caller is who calls: a pod, or a node itself.
type caller struct {
	name string
	run  func(ctx context.Context, argv ...string) ([]byte, error)
}

func (b *testbed) podCaller(p *corev1.Pod) caller {
	return caller{p.Name, func(ctx context.Context, argv ...string) ([]byte, error) {
		return b.in(ctx, p, append([]string{peerPath}, argv...)...)
	}}
}

func (b *testbed) hostCaller(node string) caller {
	return caller{"host " + node, func(ctx context.Context, argv ...string) ([]byte, error) {
		return b.Exec(ctx, node, append([]string{filepath.Join(b.peerDir, "peer")}, argv...)...)
	}}
}

// call asks who answers at an address, count times.
func (c caller) call(ctx context.Context, protocol string, to netip.AddrPort, count int, more ...string) (all []called, err error) {
	out, err := c.run(ctx, append([]string{"call", "--protocol=" + protocol, "--to=" + to.String(), "--count=" + strconv.Itoa(count)}, more...)...)
	if err != nil {
		return nil, err
	}
	return all, json.Unmarshal(out, &all)
}

// cell is one element of the matrix that is written to _out/services.json.
type cell struct {
	From     string   `json:"from"`
	Relation string   `json:"relation"` // same node, other node, host, hairpin
	Address  string   `json:"address"`  // ClusterIP, ExternalIP
	Protocol string   `json:"protocol"`
	Family   string   `json:"family"`
	To       string   `json:"to"`
	Servers  []string `json:"servers"` // who answered
	OK       bool     `json:"ok"`
	Error    string   `json:"error,omitempty"`
}

// TestServices calls services from everywhere, over both protocols and families.
func TestServices(t *testing.T) {
	b1, b2, alone := labelled(bed.peerPod("svc-b1", "n1"), "svc"), labelled(bed.peerPod("svc-b2", "n2"), "svc"), labelled(bed.peerPod("svc-alone", "n1"), "svc-alone")
	near := bed.peerPod("svc-client", "n1")
	external := []string{"192.0.2.77", "2001:db8::77"}
	both := service("svc", "svc", func(s *corev1.ServiceSpec) { s.ExternalIPs = external })
	single := service("svc-alone", "svc-alone")
	bed.create(t, both, single)
	bed.run(t, b1, b2, alone, near)

	var cells []cell
	try := func(relation, kind string, from caller, addresses []string, want ...string) {
		for _, text := range addresses {
			for _, protocol := range []string{"tcp", "udp"} {
				cells = append(cells, bed.tryService(t, cell{From: from.name, Relation: relation, Address: kind, Protocol: protocol}, from, netip.MustParseAddr(text), want))
			}
		}
	}
	for _, kind := range []struct {
		name      string
		addresses []string
	}{{"ClusterIP", both.Spec.ClusterIPs}, {"ExternalIP", external}} {
		try("same and other node", kind.name, bed.podCaller(near), kind.addresses, b1.Name, b2.Name)
		try("same and other node, hairpin", kind.name, bed.podCaller(b1), kind.addresses, b1.Name, b2.Name)
	}
	for _, node := range []string{"n1", "n2"} {
		try("host", "ClusterIP", bed.hostCaller(node), both.Spec.ClusterIPs, b1.Name, b2.Name)
	}
	try("hairpin", "ClusterIP", bed.podCaller(alone), single.Spec.ClusterIPs, alone.Name)
	try("other node", "ClusterIP", bed.podCaller(b2), single.Spec.ClusterIPs, alone.Name)
	writeCells(t, cells)
	for _, c := range cells {
		if !c.OK {
			t.Errorf("%+v", c)
		}
	}
}

// tryService calls until every backend has answered, and each call was answered by one of them.
func (b *testbed) tryService(t *testing.T, c cell, from caller, address netip.Addr, want []string) cell {
	t.Helper()
	const calls, attempts = 12, 5 // all of twelve calls go to one of two backends once in 2,048 times
	to := netip.AddrPortFrom(address, 80)
	c.To, c.Family = to.String(), "IPv4"
	if address.Is6() {
		c.Family = "IPv6"
	}
	for range attempts {
		all, err := from.call(t.Context(), c.Protocol, to, calls)
		if err != nil {
			c.Error = err.Error()
			continue
		}
		if c.Servers, err = answered(all, want); err == nil {
			c.OK, c.Error = true, ""
			return c
		}
		c.Error = err.Error()
	}
	return c
}

// answered lists who answered; an error says which call failed, or who never did.
func answered(all []called, want []string) (servers []string, err error) {
	count := map[string]int{}
	for _, one := range all {
		if one.Error != "" {
			return nil, fmt.Errorf("call: %s", one.Error)
		}
		count[one.Server]++
	}
	for _, server := range want {
		if count[server] == 0 {
			return nil, fmt.Errorf("%s never answered: %v", server, count)
		}
		delete(count, server)
	}
	if len(count) > 0 {
		return nil, fmt.Errorf("others answered: %v", count)
	}
	return want, nil
}

func writeCells(t *testing.T, cells []cell) {
	t.Helper()
	root, err := tools.SourceRoot()
	must(t, err)
	text, err := json.MarshalIndent(cells, "", "  ")
	must(t, err)
	must(t, os.MkdirAll(filepath.Join(root, "_out"), 0o755))
	must(t, os.WriteFile(filepath.Join(root, "_out", "services.json"), append(text, '\n'), 0o644))
}

// A service without endpoints refuses at once, whatever the protocol and family, and works as soon as there is one. A UDP client
// that keeps its port is no exception.
func TestServiceWithoutEndpoints(t *testing.T) {
	client := bed.peerPod("svc-empty-client", "n2")
	empty := service("svc-empty", "svc-empty")
	bed.create(t, empty)
	bed.run(t, client)
	from := func(protocol string, to netip.AddrPort) ([]called, error) {
		var more []string
		if protocol == "udp" { // the connection tracker's entry outlives the backends
			more = append(more, "--from=40077")
		}
		return bed.podCaller(client).call(t.Context(), protocol, to, 1, more...)
	}
	each := func(check func(protocol string, to netip.AddrPort) error) {
		t.Helper()
		for _, text := range empty.Spec.ClusterIPs {
			for _, protocol := range []string{"tcp", "udp"} {
				eventually(t, 20*time.Second, func() error { return check(protocol, netip.AddrPortFrom(netip.MustParseAddr(text), 80)) })
			}
		}
	}
	refused := func(protocol string, to netip.AddrPort) error {
		all, err := from(protocol, to)
		if err != nil {
			return err
		}
		if !all[0].Refused {
			return fmt.Errorf("%s %s: %+v", protocol, to, all[0])
		}
		return nil
	}
	each(refused)
	server := labelled(bed.peerPod("svc-empty-server", "n1"), "svc-empty")
	bed.run(t, server)
	each(func(protocol string, to netip.AddrPort) error {
		all, err := from(protocol, to)
		if err != nil {
			return err
		}
		_, err = answered(all, []string{server.Name})
		return err
	})
	bed.remove(t, server)
	each(refused)
}

// A client with affinity stays with its backend.
func TestServiceAffinity(t *testing.T) {
	b1, b2 := labelled(bed.peerPod("svc-aff-1", "n1"), "svc-aff"), labelled(bed.peerPod("svc-aff-2", "n2"), "svc-aff")
	client := bed.peerPod("svc-aff-client", "n1")
	affine := service("svc-aff", "svc-aff", func(s *corev1.ServiceSpec) { s.SessionAffinity = corev1.ServiceAffinityClientIP })
	bed.create(t, affine)
	bed.run(t, b1, b2, client)
	for _, text := range affine.Spec.ClusterIPs {
		to := netip.AddrPortFrom(netip.MustParseAddr(text), 80)
		eventually(t, 20*time.Second, func() error {
			all, err := bed.podCaller(client).call(t.Context(), "tcp", to, 20)
			if err != nil {
				return err
			}
			_, err = answered(all, []string{all[0].Server})
			return err
		})
	}
}
