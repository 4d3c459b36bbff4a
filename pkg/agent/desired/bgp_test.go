package desired_test

import (
	"fmt"
	"testing"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
)

func TestSessionsDown(t *testing.T) {
	up := networkv1alpha1.NodeBGPSession{Peer: "up", State: networkv1alpha1.BGPEstablished,
		BFD: &networkv1alpha1.NodeBFDSession{State: networkv1alpha1.BFDUp}}
	fresh := networkv1alpha1.NodeBGPSession{Peer: "fresh", State: networkv1alpha1.BGPConnecting,
		BFD: &networkv1alpha1.NodeBFDSession{State: networkv1alpha1.BFDDown}}
	unwatched := networkv1alpha1.NodeBGPSession{Peer: "unwatched", State: networkv1alpha1.BGPEstablished,
		BFD: &networkv1alpha1.NodeBFDSession{State: networkv1alpha1.BFDDown, Message: "the router sends no packets"}}
	down := networkv1alpha1.NodeBGPSession{Peer: "down", State: networkv1alpha1.BGPConnecting, Message: "BFD down: silence"}
	for _, c := range []struct {
		sessions []networkv1alpha1.NodeBGPSession
		want     string
	}{
		{nil, " <nil>"},
		{[]networkv1alpha1.NodeBGPSession{up, fresh}, " <nil>"},
		{[]networkv1alpha1.NodeBGPSession{up, unwatched}, "BFDDown BGPPeer unwatched: BFD is not up: the router sends no packets"},
		{[]networkv1alpha1.NodeBGPSession{unwatched, down}, "SessionsDown BGPPeer down: BFD down: silence"},
	} {
		reason, err := desired.SessionsDown(c.sessions)
		if have := fmt.Sprint(reason, " ", err); have != c.want {
			t.Errorf("%q, want %q", have, c.want)
		}
	}
}
