package agent

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

func asking(t *testing.T, id string, peers ...networkv1alpha1.IP) *networkv1alpha1.NodeNetwork {
	t.Helper()
	text, err := json.Marshal(networkv1alpha1.ProbeRequest{ID: id, Peers: peers})
	if err != nil {
		t.Fatal(err)
	}
	nn := &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{networkv1alpha1.ProbeAnnotation: string(text)}}}
	nn.Spec.ManagementPort.Addresses = []networkv1alpha1.InterfaceAddress{"10.0.0.2/24", "fd00::2/64"}
	return nn
}

// A request is answered when all peers were asked, under its own name; one that somebody answered well already is not looked at again.
func TestProbeIsAnswered(t *testing.T) {
	news, dialed := make(chan struct{}, 10), make(chan string, 10)
	p := &prober{running: t.Context(), changed: func() { news <- struct{}{} }, dial: func(_ context.Context, from, to netip.Addr) error {
		dialed <- from.String() + " " + to.String()
		if to == netip.MustParseAddr("fd00:1::2") {
			return &net.OpError{Op: "dial", Err: errors.New("no route")}
		}
		return nil
	}}
	if got := p.answer(&networkv1alpha1.NodeNetwork{}); got != nil {
		t.Errorf("nobody asked, and the answer is %v", got)
	}
	good := asking(t, "a", "10.0.1.2")
	if got := p.answer(good); got != nil {
		t.Errorf("before anybody was asked: %v", got)
	}
	<-news
	if got := p.answer(good); got == nil || *got != (networkv1alpha1.ProbeStatus{ID: "a"}) || <-dialed != "10.0.0.2 10.0.1.2" {
		t.Errorf("answer %v", got)
	}
	bad := asking(t, "b", "fd00:1::2", "10.0.1.2")
	bad.Status.Probe = &networkv1alpha1.ProbeStatus{ID: "a"}
	if got := p.answer(bad); got == nil || got.ID != "a" {
		t.Errorf("until there is another answer: %v", got)
	}
	<-news
	if got := p.answer(bad); got == nil || got.ID != "b" || got.Error != "fd00:1::2 does not answer fd00::2: no route" {
		t.Errorf("answer %v", got)
	}
	for len(dialed) > 0 {
		<-dialed
	}
	done := asking(t, "c", "10.0.1.2")
	done.Status.Probe = &networkv1alpha1.ProbeStatus{ID: "c"}
	if got := p.answer(done); got == nil || got.ID != "c" {
		t.Errorf("answer %v", got)
	}
	if got := p.round(t.Context(), []networkv1alpha1.IP{"fd00:1::2"}, sources(networkv1alpha1.NodeNetworkSpec{})); got == nil || !strings.Contains(got.Error(), "no management address of its family") {
		t.Errorf("without an address of the family: %v", got)
	}
}

// A closed port is an answer of the node behind it; an address that nobody has is none.
func TestProbeConnects(t *testing.T) {
	local := netip.MustParseAddr("127.0.0.1")
	if err := dialTCP(t.Context(), local, local); err != nil {
		t.Errorf("this machine does not answer: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := dialTCP(ctx, local, local); err == nil {
		t.Error("an attempt that was given up is an answer")
	}
}
