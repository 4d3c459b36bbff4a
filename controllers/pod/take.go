package pod

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/addresses/floating"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/topology"
)

// enlargement is how long a node may take to get another subnet.
const enlargement = time.Second

// taken is what a pod has when its port is written.
type taken struct {
	assigned alloc.Assignment
	given
	// denied is why it gets no address of its IPPool besides, or nil.
	denied error
}

// take gives a pod the addresses that belong to its fate. ok is false if it gets none, and so has no port.
func (r *Reconciler) take(ctx context.Context, p *request, s *surroundings, d decision) (t taken, ok bool, err error) {
	switch d.fate {
	case follow:
		return r.takeReported(p, s), true, nil
	case keep:
		return r.takeKept(ctx, p, d)
	}
	if d.portFirst {
		if err := r.removePort(ctx, p.name); err != nil {
			return t, false, err
		}
	}
	return r.takeRequested(ctx, p)
}

// takeReported claims the addresses that a pod elsewhere reports, so that the pod has them when its node enters this zone. A port that the
// pod had here goes.
func (r *Reconciler) takeReported(p *request, s *surroundings) taken {
	r.state.unstore(p.owner)
	had := slices.Concat(ipam.Addresses(s.assigned.Addresses), s.assigned.Floating)
	if s.hasAddress && (s.on != p.node || !sameAddresses(had, p.reported)) {
		r.free(p.name, "")
	}
	r.state.add(p.owner)
	if !r.claimReported(p) {
		r.state.waiters.Wait(p.name, kind.Awaited{Node: p.node})
		r.claimReported(p)
	}
	return taken{assigned: alloc.Assignment{Addresses: wholeLength(p.reported), MAC: ipam.MAC(p.reported)}}
}

// claimReported claims what a pod elsewhere reports. It fails while this operator does not know the subnet, and while another owner has
// the address, and always for a floating address.
func (r *Reconciler) claimReported(p *request) bool {
	if _, _, known := r.Addresses.Get(p.owner); known {
		return true
	}
	err := r.claimAll(p.node, p.owner, p.reported, alloc.Assignment{Addresses: r.Addresses.InSubnets(p.node, p.reported)})
	if err == nil {
		r.counted()
	}
	return err == nil
}

// takeKept leaves a pod whose node is away what its port has. ok is false if its FloatingIPs do not give it that any more.
func (r *Reconciler) takeKept(ctx context.Context, p *request, d decision) (t taken, ok bool, err error) {
	has := func() bool { return sameAddresses(d.assigned.Floating, r.held(p, d.assigned).own) }
	if ok = has() && len(r.unnamed(p)) == 0; !ok {
		// A person may have released them: the pod gets them again, unless their pool is gone or another pod has them.
		if _, err = r.giveFloating(ctx, p); err != nil && !isDenial(err) {
			return t, false, err
		}
		if ok = has(); !ok {
			r.state.unstore(p.owner)
			return t, false, r.release(ctx, p.name, "")
		}
	}
	return taken{assigned: d.assigned, given: given{d.assigned.Floating, r.hold(p, r.held(p, d.assigned).translated)}}, true, nil
}

// takeRequested gives a pod addresses of its node and of its IPPool. A pod that gets none waits, and its condition says why.
func (r *Reconciler) takeRequested(ctx context.Context, p *request) (t taken, ok bool, err error) {
	addresses, denied := r.giveFloating(ctx, p)
	if denied != nil {
		if err := r.lack(ctx, p, denied); err != nil {
			return t, false, err
		}
		// Its port stays without the translations that the pod lost: another pod may have them now.
		if _, _, has := r.Addresses.Get(p.owner); !has {
			return t, false, r.patchConditions(ctx, p.pod, false, requestsGranted(p.pod, denied))
		}
	}
	assigned, err := r.allocate(ctx, p, addresses.own)
	if err != nil {
		return t, false, r.wait(ctx, p, err)
	}
	assigned = r.adopt(ctx, p, assigned)
	r.setLacking(p.name, "")
	return taken{assigned, given{assigned.Floating, r.hold(p, addresses.translated)}, denied}, true, nil
}

// allocate gives a pod addresses of its node, besides its floating addresses.
func (r *Reconciler) allocate(ctx context.Context, p *request, own []netip.Addr) (alloc.Assignment, error) {
	_, before, had := r.Addresses.Get(p.owner)
	if had && !sameAddresses(before.Floating, own) {
		if err := r.release(ctx, p.name, ""); err != nil {
			return alloc.Assignment{}, err
		}
		had = false
	}
	if err := p.unreadable(); err != nil && !had {
		return alloc.Assignment{}, err
	}
	request := p.addresses
	request.Floating = own
	got, err := r.Addresses.Allocate(p.node, p.owner, request)
	if err != nil {
		r.state.waiters.Wait(p.name, kind.Awaited{Node: p.node})
		for _, address := range own {
			r.state.waiters.Wait(p.name, kind.Awaited{Port: address})
		}
		got, err = r.Addresses.Allocate(p.node, p.owner, request)
	}
	if err != nil {
		r.enlarge(p.node, err)
		return got, err
	}
	r.state.add(p.owner)
	if !had {
		r.counted()
	}
	return got, nil
}

// adopt gives a pod the addresses that it reports instead of others. The pod's interface has them, for example from another zone's
// operator, if the report came only after this operator had given the pod others. While another pod has one of them, the pod waits for it.
func (r *Reconciler) adopt(ctx context.Context, p *request, got alloc.Assignment) alloc.Assignment {
	others := r.othersThanIts(p.pod)
	if len(others) == 0 || p.addressErr != nil { // the MAC of its interface is not known
		return got
	}
	err := r.Addresses.Correct(p.node, p.owner, others, p.addresses.MAC)
	if err != nil {
		r.state.waiters.Wait(p.name, kind.Awaited{Node: p.node})
		err = r.Addresses.Correct(p.node, p.owner, others, p.addresses.MAC)
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("cannot give a pod the addresses that it reports", "pod", p.name, "reason", err.Error())
		return got
	}
	r.wakeNode(p.node)
	r.counted() // the addresses may be of another network
	_, corrected, _ := r.Addresses.Get(p.owner)
	return corrected
}

// othersThanIts returns the addresses that a pod reports if they are of its node's subnets, and the pod does not have all of them.
func (r *Reconciler) othersThanIts(pod *corev1.Pod) []netip.Prefix {
	on, got, known := r.Addresses.Get(ownerOf(pod))
	if !known || on != pod.Spec.NodeName || len(got.Floating) > 0 {
		return nil
	}
	addresses := addressesOf(pod)
	reported := r.Addresses.InSubnets(on, addresses)
	has := func(a netip.Prefix) bool { return slices.Contains(got.Addresses, a) }
	if len(reported) < len(addresses) || !slices.ContainsFunc(reported, func(a netip.Prefix) bool { return !has(a) }) {
		return nil
	}
	return reported
}

// sameAddresses reports whether two lists have the same addresses, in any order.
func sameAddresses(a, b []netip.Addr) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(address netip.Addr) bool { return !slices.Contains(b, address) })
}

// wait leaves a pod that gets no address, and reports why. Without a claim on an address, all rows of the pod go: its address may belong
// to another pod, and the routes of a floating address outlive a port that was deleted while no operator ran. On a node
// whose subnets are not known yet the rows stay.
//
// A node whose subnets are exhausted may get another one in a moment, so that the condition waits for a second attempt.
func (r *Reconciler) wait(ctx context.Context, p *request, reason error) error {
	isFirst := errors.Is(reason, ipam.ErrExhausted) && !r.state.isLacking(p.name)
	if err := r.leaveWaiting(ctx, p, reason); err != nil || errors.Is(reason, alloc.ErrUnknownNode) {
		return err
	}
	if isFirst {
		r.Triggers.EnqueueAfter(topology.KindPod, p.name, enlargement)
		return nil
	}
	return r.patchConditions(ctx, p.pod, false, requestsGranted(p.pod, reason))
}

// leaveWaiting is wait without the pod's condition.
func (r *Reconciler) leaveWaiting(ctx context.Context, p *request, reason error) error {
	full := ""
	if errors.Is(reason, ipam.ErrExhausted) {
		full = p.node
	}
	r.setLacking(p.name, full)
	awaits := r.Addresses.Awaits(p.owner) // first, because an awaited claim may succeed now
	if _, _, has := r.Addresses.Get(p.owner); !has && !awaits && !errors.Is(reason, alloc.ErrUnknownNode) {
		if err := r.removePort(ctx, p.name); err != nil {
			return err
		}
		r.holdOnly(p.owner, given{})
		r.unrouted(p.node)
	}
	return r.explain(p, reason)
}

// lack leaves a pod that gets no address of its IPPool, without its condition. A port with a floating address goes, because
// another pod may have the address now.
func (r *Reconciler) lack(ctx context.Context, p *request, reason error) error {
	if !isDenial(reason) {
		return reason
	}
	if _, had, ok := r.Addresses.Get(p.owner); ok && !sameAddresses(had.Floating, r.held(p, had).own) {
		if err := r.release(ctx, p.name, ""); err != nil {
			return err
		}
		r.Triggers.Enqueue(topology.KindPod, p.name) // without an address, it may get what it could not get besides that address
	}
	return r.leaveWaiting(ctx, p, reason)
}

// isDenial reports whether an error denies a request for a floating address. Other errors are of the system.
func isDenial(err error) bool {
	return errors.As(err, new(*floating.UnavailableError)) || errors.Is(err, errRequest)
}

// explain records an event with the reason why the pod has no port. The pod waits until an address is freed, the node
// gets a subnet, or its request changes.
func (r *Reconciler) explain(p *request, err error) error {
	event := func(reason, action string) error {
		r.Events.Eventf(p.pod, nil, corev1.EventTypeWarning, reason, action, "%v", err)
		return nil
	}
	switch {
	case isDenial(err), errors.Is(err, ipam.ErrExhausted), errors.Is(err, alloc.ErrUnavailable):
		return event("FailedAddressAllocation", "AllocateAddress")
	case errors.Is(err, errBandwidth):
		return event("InvalidBandwidth", "LimitBandwidth")
	case errors.Is(err, errHostPorts):
		return event("InvalidHostPort", "MapHostPort")
	case errors.Is(err, alloc.ErrUnknownNode):
		return nil
	}
	return fmt.Errorf("pod %s: %w", p.name, err)
}
