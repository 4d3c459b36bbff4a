// Package hostports gives pods random ports of their node.
//
//	ADD ─▶ the binding requests ports ─▶ Claim: choose, bind sockets ─▶ annotation ─▶ operator ─▶ rows ─▶ the binding has them
//
// A port is free if no binding, no attachment and no other ADD of the node has it, nothing reserves it, no service has
// it as node port, and the kernel lets the agent bind it. The agent keeps it bound, so that no process of the node
// takes it. There is no state but the sockets: bindings and the record of attachments say which ports are in use.
package hostports

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/attach"
	"github.com/weft-network/weft/pkg/agent/bindings"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/podapi"
	"github.com/weft-network/weft/pkg/cni/cniwire"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/ovn/sbdb"
)

// Options are the parts that Ports uses.
type Options struct {
	API         client.Client // reads past the cache
	Bindings    *bindings.Bindings
	Attachments *attach.Attachments
	// Owner returns who has a port of the node although no pod has it: a reservation, or a service's node port.
	Owner func(protocol string, port uint16) (owner string, ok bool)
	// Range returns the ports to choose from.
	Range func() networkv1alpha1.PortRange
	Log   logr.Logger
}

// errBusy means that another process of the node has bound a port.
var errBusy = errors.New("another process of the node has bound it")

// Ports chooses the node's random host ports and keeps them bound.
type Ports struct {
	Options
	mu      sync.Mutex
	claims  map[string][]ovnexpr.HostPort // logical port -> ports of its ADD under way
	sockets map[desired.NodePort]*socket
	ended   bool // no port is bound any more
}

// New returns the ports of a node. Its Sync must be called after each change of the attachments.
func New(o Options) *Ports {
	return &Ports{Options: o, claims: map[string][]ovnexpr.HostPort{}, sockets: map[desired.NodePort]*socket{}}
}

// Claim implements attach.HostPorts.
func (p *Ports) Claim(ctx context.Context, sandbox attach.Sandbox, binding *sbdb.PortBinding,
	addresses []netip.Addr) (given []ovnexpr.HostPort, err error) {
	request, err := desired.RandomHostPorts(binding)
	if err != nil || len(request.Wanted) == 0 {
		return nil, err
	}
	pod, err := podapi.Read(ctx, p.API, sandbox)
	if err != nil {
		return nil, err
	}
	if given, err = p.choose(pod, binding.LogicalPort, request); err != nil {
		return nil, err
	}
	if err := p.publish(ctx, pod, given, addresses); err != nil {
		p.Release(binding.LogicalPort)
		return nil, fmt.Errorf("write the host ports to the pod: %w", err)
	}
	return given, nil
}

// choose claims the ports of a request. The ports that the pod has stay if they are free.
func (p *Ports) choose(pod *corev1.Pod, port string, request desired.HostPortRequest) (given []ovnexpr.HostPort, err error) {
	first, last, err := p.Range().Bounds()
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return nil, cniwire.Errorf(cniwire.CodeTryAgainLater, "the agent is ending")
	}
	defer p.sync() // closes what a failure leaves
	taken := p.taken(port)
	for _, fixed := range fixedPorts(pod) {
		taken[fixed] = true
	}
	avoid := unmapped(pod, request.Has)
	for _, want := range request.Wanted {
		for candidate := range desired.HostPortCandidates(request, want, string(pod.UID), first, last) {
			at := desired.NodePort{Protocol: want.Protocol, Port: candidate}
			if taken[at] || avoid[at] || p.owned(at) {
				continue
			}
			held, err := p.hold(at)
			if err != nil {
				return nil, err
			}
			if held {
				taken[at], want.Port = true, candidate
				break
			}
		}
		if want.Port == 0 {
			return nil, cniwire.Errorf(cniwire.CodeTryAgainLater,
				"container port %s/%d: no %[1]s port of %[3]d-%d is free on the node for a random host port (ClusterNetwork's spec.hostPorts.range)",
				strings.ToUpper(want.Protocol), want.Target, first, last)
		}
		given = append(given, want)
	}
	p.claims[port] = given
	return given, nil
}

// taken returns the ports that other logical ports of the node have.
func (p *Ports) taken(port string) map[desired.NodePort]bool {
	taken := map[desired.NodePort]bool{}
	add := func(of string, ports []ovnexpr.HostPort) {
		for _, have := range ports {
			if of != port {
				taken[desired.NodePort{Protocol: have.Protocol, Port: have.Port}] = true
			}
		}
	}
	for _, binding := range p.Bindings.Exposed() {
		ports, _ := ovnexpr.ParseHostPorts(binding.ExternalIDs[ovnexpr.HostPortsKey]) // the operator writes them
		add(binding.LogicalPort, ports)
	}
	for _, have := range p.Attachments.All() {
		add(have.InterfaceID, have.HostPorts)
	}
	for of, ports := range p.claims {
		add(of, ports)
	}
	return taken
}

func (p *Ports) owned(at desired.NodePort) bool {
	_, ok := p.Owner(at.Protocol, at.Port)
	return ok
}

// hold binds a port, and reports whether this process has it. It is no error if another process has it.
func (p *Ports) hold(at desired.NodePort) (bool, error) {
	if s := p.sockets[at]; s != nil && s.bound {
		return true, nil
	}
	s, err := bind(at)
	if errors.Is(err, unix.EADDRINUSE) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	p.sockets[at] = s
	return true, nil
}

// Run releases all ports when the agent ends.
func (p *Ports) Run(ctx context.Context) error {
	<-ctx.Done()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	for at, s := range p.sockets {
		s.close()
		delete(p.sockets, at)
	}
	return nil
}

// Release ends the claim of an ADD. The attachment, if the ADD has made one, keeps the ports.
func (p *Ports) Release(port string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.claims, port)
	p.sync()
}

// Sync binds the ports of the attachments and releases all others.
func (p *Ports) Sync() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sync()
}

func (p *Ports) sync() {
	if p.ended {
		return
	}
	wanted := map[desired.NodePort]string{} // -> logical port
	for _, have := range p.Attachments.All() {
		for _, port := range have.HostPorts {
			wanted[desired.NodePort{Protocol: port.Protocol, Port: port.Port}] = have.InterfaceID
		}
	}
	for of, ports := range p.claims {
		for _, port := range ports {
			wanted[desired.NodePort{Protocol: port.Protocol, Port: port.Port}] = of
		}
	}
	for at, s := range p.sockets {
		if _, ok := wanted[at]; !ok {
			s.close()
			delete(p.sockets, at)
		}
	}
	for at, of := range wanted {
		tried := p.sockets[at] != nil
		held, err := p.hold(at)
		if held || tried {
			continue
		}
		err = cmp.Or(err, errBusy)
		p.sockets[at] = &socket{} // reported once
		p.Log.Info("cannot bind a pod's random host port; packets to it go to the pod", "port", of, "hostPort", at.String(),
			"reason", err.Error())
	}
}

// publish writes the pod's host ports into its annotations, unless they have them.
func (p *Ports) publish(ctx context.Context, pod *corev1.Pod, given []ovnexpr.HostPort, addresses []netip.Addr) error {
	texts, err := desired.HostPortAnnotations(pod, given, addresses)
	if err != nil {
		return err
	}
	patched, differs := pod.DeepCopy(), false
	for key, text := range texts {
		differs = differs || pod.Annotations[key] != text
		metav1.SetMetaDataAnnotation(&patched.ObjectMeta, key, text)
	}
	if !differs {
		return nil
	}
	return podapi.Patch(ctx, p.API, pod, patched)
}

// unmapped returns the ports that the pod's annotation has and the operator has not mapped: it may refuse them. An
// annotation that cannot be read has none, and is replaced.
func unmapped(pod *corev1.Pod, mapped []ovnexpr.HostPort) map[desired.NodePort]bool {
	ports, _ := networkv1alpha1.ParseHostPorts(pod.Annotations[networkv1alpha1.HostPortsAnnotation])
	avoid := map[desired.NodePort]bool{}
	for _, port := range ports {
		at := desired.NodePort{Protocol: strings.ToLower(string(port.Protocol)), Port: port.HostPort}
		avoid[at] = !slices.ContainsFunc(mapped, func(h ovnexpr.HostPort) bool {
			return h.Protocol == at.Protocol && h.Port == at.Port
		})
	}
	return avoid
}

// fixedPorts returns the host ports that a pod names.
func fixedPorts(pod *corev1.Pod) (found []desired.NodePort) {
	for container := range facts.Containers(pod) {
		for _, port := range container.Ports {
			if port.HostPort != 0 {
				found = append(found, desired.NodePort{Protocol: strings.ToLower(string(port.Protocol)), Port: uint16(port.HostPort)})
			}
		}
	}
	return found
}
