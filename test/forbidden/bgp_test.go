package forbidden

import (
	"context"
	"testing"
)

const (
	bgpPeers = "/apis/network.weft.dev/v1alpha1/bgppeers"
	peerBody = `{"apiVersion":"network.weft.dev/v1alpha1","kind":"BGPPeer","metadata":{"name":"rack"},
"spec":{"peerAddress":"192.0.2.1","peerASN":64512,"myASN":64513}}`
)

// People write BGPPeers, and the operator their status. Agents read neither.
func TestTheOperatorReportsBGPPeers(t *testing.T) {
	w := newWorld(t)
	user := person(t, "network-team", "", rule("network.weft.dev", "bgppeers bgppeers/status", "*"))
	must(t, user, request{"POST", bgpPeers, peerBody})
	t.Cleanup(func() {
		_ = identityOf(t, restConfig).do(context.Background(), request{"DELETE", bgpPeers + "/rack", ""}) // the test may have failed before
	})
	allowed(t, w.operator, []attempt{
		{"a peer's counts", request{"PATCH", bgpPeers + "/rack/status", status(`"nodes":2,"established":1`)}, nil},
	})
	refused(t, w.operator, []attempt{
		{"a peer", request{"POST", bgpPeers, peerBody}, []string{"bgppeers"}},
		{"a peer's address", request{"PATCH", bgpPeers + "/rack", `{"spec":{"peerAddress":"192.0.2.9"}}`}, []string{`"rack"`}},
	})
	refused(t, user, []attempt{
		{"a peer's status", request{"PATCH", bgpPeers + "/rack/status", status(`"established":0`)},
			[]string{"BGPPeer rack", "only the Weft operator writes status"}},
	})
	refused(t, w.agent["n1"], []attempt{
		{"an agent reads a peer", request{"GET", bgpPeers + "/rack", ""}, []string{"bgppeers"}},
		{"an agent reads the passwords", request{"GET", "/api/v1/namespaces/weft-system/secrets/weft-bgp", ""}, []string{"secrets"}},
	})
}
