package prober

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// requesting returns a NodeNetwork that requests a probe.
func requesting(t *testing.T, id string, peers ...networkv1alpha1.IP) *networkv1alpha1.NodeNetwork {
	t.Helper()
	text, err := json.Marshal(networkv1alpha1.ProbeRequest{ID: id, Peers: peers})
	if err != nil {
		t.Fatal(err)
	}
	nn := &networkv1alpha1.NodeNetwork{}
	nn.Name, nn.Annotations = "n1", map[string]string{networkv1alpha1.ProbeAnnotation: string(text)}
	nn.Spec.ManagementPort.Addresses = []networkv1alpha1.InterfaceAddress{"10.0.0.2/24", "fd00::2/64"}
	return nn
}

// Status returns a result, with the ID of its request, after all peers were probed. It does not repeat a probe that already
// has a good result.
func TestProbeIsAnswered(t *testing.T) {
	changed, dialed := make(chan struct{}, 10), make(chan string, 10)
	dial := func(_ context.Context, from, to netip.Addr) error {
		dialed <- from.String() + " " + to.String()
		if to == netip.MustParseAddr("fd00:1::2") {
			return &net.OpError{Op: "dial", Err: errors.New("no route")}
		}
		return nil
	}
	p := &Prober{Running: t.Context(), Changed: func() { changed <- struct{}{} }, dial: dial}
	if got := p.Status(&networkv1alpha1.NodeNetwork{}); got != nil {
		t.Errorf("without a request, the status is %v", got)
	}
	good := requesting(t, "a", "10.0.1.2")
	if got := p.Status(good); got != nil {
		t.Errorf("before the first round ends, the status is %v", got)
	}
	<-changed
	if got := p.Status(good); got == nil || *got != (networkv1alpha1.ProbeStatus{ID: "a"}) || <-dialed != "10.0.0.2 10.0.1.2" {
		t.Errorf("the status is %v", got)
	}
	bad := requesting(t, "b", "fd00:1::2", "10.0.1.2")
	bad.Status.Probe = &networkv1alpha1.ProbeStatus{ID: "a"}
	if got := p.Status(bad); got == nil || got.ID != "a" {
		t.Errorf("before the next round ends, the status is %v", got)
	}
	<-changed
	if got := p.Status(bad); got == nil || got.ID != "b" || got.Error != "fd00:1::2 does not answer fd00::2: no route" {
		t.Errorf("the status is %v", got)
	}
	for len(dialed) > 0 {
		<-dialed
	}
	done := requesting(t, "c", "10.0.1.2")
	done.Status.Probe = &networkv1alpha1.ProbeStatus{ID: "c"}
	if got := p.Status(done); got == nil || got.ID != "c" {
		t.Errorf("the status is %v", got)
	}
	err := p.round(t.Context(), []networkv1alpha1.IP{"fd00:1::2"}, sources(networkv1alpha1.NodeNetworkSpec{}))
	if err == nil || !strings.Contains(err.Error(), "no management address of its family") {
		t.Errorf("without an address of the family: %v", err)
	}
}

// A refused connection is an answer from the node. A dial that was cancelled is not.
func TestProbeConnects(t *testing.T) {
	local := netip.MustParseAddr("127.0.0.1")
	if err := dialTCP(t.Context(), local, local); err != nil {
		t.Errorf("this machine does not answer: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := dialTCP(ctx, local, local); err == nil {
		t.Error("a cancelled dial counts as an answer")
	}
}
