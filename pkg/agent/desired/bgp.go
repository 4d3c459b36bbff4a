package desired

import (
	"fmt"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// SessionsDown returns the first session that has failed, of BGP before BFD. A session without a message has only been
// started.
func SessionsDown(sessions []networkv1alpha1.NodeBGPSession) (reason string, err error) {
	for _, s := range sessions {
		if s.State != networkv1alpha1.BGPEstablished && s.Message != "" {
			return networkv1alpha1.ReasonSessionsDown, fmt.Errorf("BGPPeer %s: %s", s.Peer, s.Message)
		}
	}
	for _, s := range sessions {
		if s.BFD != nil && s.BFD.State != networkv1alpha1.BFDUp && s.BFD.Message != "" {
			return networkv1alpha1.ReasonBFDDown, fmt.Errorf("BGPPeer %s: BFD is not up: %s", s.Peer, s.BFD.Message)
		}
	}
	return "", nil
}
