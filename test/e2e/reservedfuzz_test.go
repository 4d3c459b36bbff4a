//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam/reserved"
	"github.com/weft-network/weft/test/lab"
)

// TestReservedFuzz creates WEFT_FUZZ_N random pods and services with the cluster's own addresses and ports, in
// batches, while it probes each part of the control plane. No probe may fail. Exactly the objects that request a
// reserved destination must report the refusal.
func TestReservedFuzz(t *testing.T) {
	seed := numberOf(t, "WEFT_FUZZ_SEED", int(time.Now().UnixNano()%1_000_000))
	count := numberOf(t, "WEFT_FUZZ_N", 30)
	t.Logf("WEFT_FUZZ_SEED=%d WEFT_FUZZ_N=%d", seed, count)
	f := &fuzz{T: t, random: rand.New(rand.NewPCG(uint64(seed), 0)), node: addressesAt(0, lab.Node(1), lab.Node(2))}
	before := restartCounts(t)
	stop := f.probe()
	const batch = 30
	for done := 0; done < count; done += batch {
		f.batch(done, min(batch, count-done))
	}
	probes, lost := stop()
	t.Logf("%d objects, %d of them refused; %d probes of the control plane, %d lost", count, f.refused, probes, len(lost))
	for _, one := range lost[:min(10, len(lost))] {
		t.Errorf("lost: %s", one)
	}
	if f.refused == 0 || f.refused == count {
		t.Errorf("%d of %d objects are refused, so the fuzz shows nothing", f.refused, count)
	}
	if after := restartCounts(t); after != before {
		t.Errorf("containers of the product restarted: restart counts %s, before %s", after, before)
	}
	bed.awaitConsistent(t)
}

func numberOf(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	must(t, err)
	return n
}

// fuzz creates random objects.
type fuzz struct {
	*testing.T
	random  *rand.Rand
	node    []netip.AddrPort // the nodes' addresses, with port 0
	refused int
}

// batch creates objects, waits until each reports its refused parts, and removes them.
func (f *fuzz) batch(first, size int) {
	f.Helper()
	refused := map[string]bool{} // by kind and name
	var objects []client.Object
	for i := range size {
		object, isReserved := f.object(first + i)
		objects = append(objects, object)
		refused[nameOf(object)] = isReserved
		if isReserved {
			f.refused++
		}
	}
	ctx := cleanup()
	for _, o := range objects {
		must(f.T, bed.api.Create(ctx, o))
		if service, ok := o.(*corev1.Service); ok && service.Spec.Type == corev1.ServiceTypeLoadBalancer {
			f.balance(service)
		}
	}
	eventually(f.T, 2*readyTimeout, func() error { return f.checkRefusals(objects, refused) })
	var group errgroup.Group
	for _, o := range objects {
		group.Go(func() error { bed.remove(f.T, o); return nil })
	}
	_ = group.Wait()
}

func nameOf(o client.Object) string {
	if _, ok := o.(*corev1.Pod); ok {
		return "Pod/" + namespace + "/" + o.GetName()
	}
	return "Service/" + namespace + "/" + o.GetName()
}

// object creates a pod (every tenth time) or a service, and reports whether it requests a reserved destination.
func (f *fuzz) object(n int) (client.Object, bool) {
	port, protocol := f.port()
	if n%10 == 0 {
		if isReservedPort(protocol, port) { // kubelet gives each port of a node to one pod
			all := reserved.Defaults()
			port, protocol = all[n/10%len(all)].Number, corev1.Protocol(strings.ToUpper(all[n/10%len(all)].Protocol))
		}
		pod := bed.peerPod(fmt.Sprint("fuzz-", n), fmt.Sprint("n", 1+f.random.IntN(2)))
		hostIP := []string{"", "0.0.0.0", "::", "127.0.0.1", f.address().String()}[f.random.IntN(5)]
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: whoPort, HostPort: int32(port),
			HostIP: hostIP, Protocol: protocol},
			{ContainerPort: whoPort, HostPort: 20000 + int32(n), Protocol: protocol}}
		return pod, isReservedPort(protocol, port)
	}
	s := service(fmt.Sprint("fuzz-", n), "fuzz", func(s *corev1.ServiceSpec) {
		s.Ports = []corev1.ServicePort{{Name: "a", Port: int32(port), Protocol: protocol, TargetPort: intstr.FromInt32(whoPort)},
			{Name: "b", Port: 20000 + int32(n), Protocol: protocol, TargetPort: intstr.FromInt32(whoPort)}}
		s.SessionAffinity = []corev1.ServiceAffinity{corev1.ServiceAffinityNone, corev1.ServiceAffinityClientIP}[f.random.IntN(2)]
	})
	address := f.address()
	if f.random.IntN(2) == 0 {
		s.Spec.Type, s.Annotations = corev1.ServiceTypeLoadBalancer, map[string]string{"e2e/address": address.String()}
		s.Spec.ExternalTrafficPolicy = []corev1.ServiceExternalTrafficPolicy{
			corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal}[f.random.IntN(2)]
	} else {
		s.Spec.ExternalIPs = []string{address.String()}
	}
	return s, f.isReserved(address, protocol, port)
}

// balance acts as the controller of a load balancer.
func (f *fuzz) balance(s *corev1.Service) {
	before := s.DeepCopy()
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: s.Annotations["e2e/address"]}}
	must(f.T, bed.api.Status().Patch(cleanup(), s, client.MergeFrom(before)))
}

// address returns an address of the cluster or an unrelated address.
func (f *fuzz) address() netip.Addr {
	own := []netip.Addr{apiServer(), netip.MustParseAddr("10.244.0.1"), netip.MustParseAddr("10.244.1.2"),
		netip.MustParseAddr("fd00:10:244:1::2"),
		netip.MustParseAddr("203.0.113.9"), netip.MustParseAddr("2001:db8:9::9")}
	for _, node := range f.node {
		own = append(own, node.Addr())
	}
	return own[f.random.IntN(len(own))]
}

// port returns a reserved port most of the time.
func (f *fuzz) port() (uint16, corev1.Protocol) {
	if f.random.IntN(4) == 0 {
		return uint16(21000 + f.random.IntN(1000)), []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP}[f.random.IntN(2)]
	}
	all := reserved.Defaults()
	p := all[f.random.IntN(len(all))]
	return p.Number, corev1.Protocol(strings.ToUpper(p.Protocol))
}

func isReservedPort(protocol corev1.Protocol, port uint16) bool {
	return slices.ContainsFunc(reserved.Defaults(), func(p reserved.Port) bool {
		return p.Number == port && strings.EqualFold(p.Protocol, string(protocol))
	})
}

func (f *fuzz) isReserved(address netip.Addr, protocol corev1.Protocol, port uint16) bool {
	for _, pods := range []string{"10.244.0.0/16", "fd00:10:244::/48"} {
		if netip.MustParsePrefix(pods).Contains(address) {
			return true
		}
	}
	ours := address == apiServer() || slices.ContainsFunc(f.node, func(n netip.AddrPort) bool { return n.Addr() == address })
	return ours && isReservedPort(protocol, port)
}

// checkRefusals returns nil if the conditions of all objects and ClusterNetwork's list match the expected refusals.
func (f *fuzz) checkRefusals(objects []client.Object, refused map[string]bool) error {
	want := 0
	for _, o := range objects {
		if err := bed.api.Get(cleanup(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		isRefused, shares := false, false
		switch o := o.(type) {
		case *corev1.Pod:
			if err := notReady(o); err != nil {
				return err
			}
			isRefused = slices.ContainsFunc(o.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == networkv1alpha1.PodHostPortsReady && c.Status == corev1.ConditionFalse
			})
		case *corev1.Service:
			c := meta.FindStatusCondition(o.Status.Conditions, networkv1alpha1.ServiceAddressesReady)
			isRefused = c != nil && c.Status == metav1.ConditionFalse
			shares = isRefused && c.Reason == networkv1alpha1.ReasonAddressConflict // two have drawn the same destination
		}
		if name := nameOf(o); isRefused != refused[name] && !shares {
			return fmt.Errorf("%s refused: %t, want %t: %+v", name, isRefused, refused[name], o)
		}
		if isRefused {
			want++
		}
	}
	var cn networkv1alpha1.ClusterNetwork
	if err := bed.api.Get(cleanup(), types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, &cn); err != nil {
		return err
	}
	have := 0
	if cn.Status.Refused != nil {
		have = int(cn.Status.Refused.Total)
	}
	if ready := meta.FindStatusCondition(cn.Status.Conditions, networkv1alpha1.ConditionReady); have != want ||
		ready == nil || ready.Status != metav1.ConditionTrue {
		return fmt.Errorf("the status counts %d refused, want %d; Ready is %+v", have, want, ready)
	}
	return nil
}

// probe probes each part of the control plane repeatedly, from the control plane's machine, until stop is called.
func (f *fuzz) probe() (stop func() (probes int, lost []string)) {
	ctx, cancel := context.WithCancel(cleanup())
	var mu sync.Mutex
	var done sync.WaitGroup
	probes, lost := 0, []string(nil)
	for name, one := range f.probes() {
		done.Go(func() {
			for ticker := time.NewTicker(250 * time.Millisecond); ctx.Err() == nil; <-ticker.C {
				err := one(ctx)
				mu.Lock()
				probes++
				if err != nil && ctx.Err() == nil {
					lost = append(lost, fmt.Sprintf("%s: %v", name, err))
				}
				mu.Unlock()
			}
		})
	}
	return func() (int, []string) {
		cancel()
		done.Wait()
		return probes, lost
	}
}

// probes covers the API server, kubelets, agents and databases.
func (f *fuzz) probes() map[string]func(context.Context) error {
	probes := map[string]func(context.Context) error{"the API server": func(ctx context.Context) error {
		return bed.api.Get(ctx, types.NamespacedName{Name: "kube-system"}, &corev1.Namespace{})
	}}
	for i, node := range f.node {
		machine := fmt.Sprint("n", 1+i/2)
		probes["kubelet at "+node.Addr().String()] = certified(netip.AddrPortFrom(node.Addr(), 10250))
		probes["agent at "+node.Addr().String()] = answersHealth(netip.AddrPortFrom(node.Addr(), 9442))
		if machine == bed.central {
			for _, port := range []uint16{6641, 6642, 16642} {
				to := netip.AddrPortFrom(node.Addr(), port)
				probes["database at "+to.String()] = certified(to)
			}
		}
	}
	return probes
}

// probeTimeout is long because the machine has two cores. A destination that a pod took over never sends the right
// answer, however long the wait.
const probeTimeout = 15 * time.Second

// certified requires a server with a certificate. A pod of the fuzz has none.
func certified(to netip.AddrPort) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		conn, err := bed.DialContext(ctx, "tcp", to.String())
		if err != nil {
			return err
		}
		defer conn.Close()
		seen := false
		// The probe needs only the server's certificate. The databases also require a client certificate from our
		// authority, so the handshake fails afterwards.
		err = tls.Client(conn, &tls.Config{InsecureSkipVerify: true,
			VerifyConnection: func(tls.ConnectionState) error { seen = true; return nil }}).HandshakeContext(ctx)
		if !seen {
			return fmt.Errorf("the server shows no certificate: %w", err)
		}
		return nil
	}
}

// answersHealth requires an agent's health endpoint.
func answersHealth(to netip.AddrPort) func(context.Context) error {
	doer := &http.Client{Timeout: probeTimeout, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return bed.DialContext(ctx, network, address)
		}}}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+to.String()+"/healthz", nil)
		if err != nil {
			return err
		}
		response, err := doer.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s", response.Status)
		}
		return nil
	}
}

// restartCounts returns the restart count of each pod of the product.
func restartCounts(t *testing.T) string {
	t.Helper()
	var pods corev1.PodList
	must(t, bed.api.List(t.Context(), &pods, client.InNamespace(product)))
	var counts []string
	for _, p := range pods.Items {
		n := int32(0)
		for _, s := range p.Status.ContainerStatuses {
			n += s.RestartCount
		}
		counts = append(counts, fmt.Sprint(p.Name, ":", n))
	}
	slices.Sort(counts)
	return strings.Join(counts, " ")
}
