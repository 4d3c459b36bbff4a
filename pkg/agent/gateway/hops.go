package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/neighbour"
)

// errSilent means that a changed gateway is not used, because a next hop does not answer and the former one does.
var errSilent = errors.New("it is not used")

// hops compares the next hops of a changed gateway with the former next hops.
type hops struct {
	compared string // what the last comparison was of
	at       time.Time
	outcome  error
}

// compare returns an error if a next hop of the reported gateway answers ARP or neighbour discovery and that of a changed gateway does
// not. A silent next hop in the place of a silent one is no error. The result holds for RetryMove; later enqueues a reconciliation then.
// A link of OVN's alone is not probed, because the host has no addresses there and its move is probed already.
func (h *hops) compare(ctx context.Context, w way, reported networkv1alpha1.NodeGatewayStatus, later func()) error {
	former := reported.Interface
	if reported.Bridge != "" {
		former = reported.Bridge
	}
	same := former == w.link.Name && slices.Equal(reported.NextHops, w.found.NextHops)
	if !w.spec.Gateway.Unconfirmed || same || isApart(w.spec.Gateway) || reported.Uplink == networkv1alpha1.UplinkInterface {
		return nil
	}
	what := fmt.Sprint(former, reported.NextHops, w.link.Name, w.found.NextHops)
	if h.compared == what && time.Since(h.at) < RetryMove {
		return h.outcome
	}
	h.compared, h.at, h.outcome = what, time.Now(), nil
	for _, text := range reported.NextHops {
		hop, err := text.Addr()
		if err != nil {
			continue
		}
		next, named := hopOf(w.found.NextHops, hop.Is4())
		if named && next == hop && former == w.link.Name || named && answers(ctx, w.link.Name, next) || !answers(ctx, former, hop) {
			continue
		}
		silent := fmt.Sprintf("next hop %s does not answer on link %s", next, w.link.Name)
		if !named {
			silent = fmt.Sprintf("there is no next hop on link %s", w.link.Name)
		}
		later()
		h.outcome = fmt.Errorf("%s, and the former next hop %s on link %s does: %w", silent, hop, former, errSilent)
		break
	}
	return h.outcome
}

// hopOf returns the next hop of a family.
func hopOf(all []networkv1alpha1.IP, is4 bool) (netip.Addr, bool) {
	for _, text := range all {
		if hop, err := text.Addr(); err == nil && hop.Is4() == is4 {
			return hop, true
		}
	}
	return netip.Addr{}, false
}

// answers reports whether a host answers for an address on a link. A link that cannot be probed gives no answer.
func answers(ctx context.Context, link string, hop netip.Addr) bool {
	found, err := neighbour.Answers(ctx, neighbour.Segment{Link: link}, hop)
	return err == nil && found
}
