package gateway

import (
	"context"
	"slices"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/hostnet"
	"github.com/weft-network/weft/pkg/ovn/names"
)

// applyLocal applies Local mode, in which egress goes through the host and needs no bridge.
func (r *Gateway) applyLocal(ctx context.Context, w way, ids map[string]string, status *networkv1alpha1.NodeNetworkStatus) (
	string, error) {
	link, spec, found := w.link, w.spec, w.found
	if row, err := r.bridgeOf(ctx, link.Name); err == nil {
		r.outside.bridge(row.Name) // may still have flows of Shared mode
	}
	if err := r.forward(link.Name, families(spec)); err != nil {
		return networkv1alpha1.ReasonHostError, err
	}
	if reason, err := r.leaveBridge(ctx, ids, ""); err != nil {
		return reason, err
	}
	if err := r.relayTooBig(externalBridge{}, found); err != nil {
		return networkv1alpha1.ReasonHostError, err
	}
	found.Interface, found.AnswersForAddresses = link.Name, true
	var further []desired.Link
	if r.outside.egress {
		var err error
		if further, err = hostnet.OtherLinks(link.Name, names.ManagementInterface, names.EgressInterface); err != nil {
			return networkv1alpha1.ReasonHostError, err
		}
		found.FurtherLinks = desired.FurtherLinks(further)
	}
	status.Gateway = &found
	if err := r.giveBack(spec.Gateway); err != nil {
		return networkv1alpha1.ReasonHostError, err
	}
	waits, err := r.applyAnswers(ctx, spec, link, further)
	if err != nil {
		return networkv1alpha1.ReasonHostError, err
	}
	if waits != nil {
		return networkv1alpha1.ReasonWaitingForTopology, waits
	}
	return "", nil
}

// applyAnswers makes the host answer for the addresses that this node answers for, and leads the packets of pods that have such a
// source through the host. waits says what is not there yet.
func (r *Gateway) applyAnswers(ctx context.Context, spec networkv1alpha1.NodeNetworkSpec, link desired.Link,
	further []desired.Link) (waits, err error) {
	links := append([]desired.Link{link}, further...)
	want := desired.LinksOf(slices.Concat(r.outside.carried, r.outside.balanced), links)
	if err := r.endAnswers(ctx, want); err != nil {
		return nil, err
	}
	if waits, err = r.applyEgress(ctx, spec, link, want); err != nil {
		return nil, err
	}
	if err := r.answer(want, nil); err != nil {
		return nil, err
	}
	var named []string
	for _, l := range further {
		named = append(named, l.Name)
	}
	r.outside.further.Store(named)
	return waits, r.announceFromHost(links, want)
}
