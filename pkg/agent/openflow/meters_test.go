package openflow_test

import (
	"strings"
	"testing"

	"github.com/weft-network/weft/pkg/agent/openflow"
)

// The bridge counts the packets of a flow with a meter, including packets that the meter's band drops.
func TestMeterPackets(t *testing.T) {
	s := newSwitch(t)
	got, err := openflow.MeterPackets(t.Context(), s.RunDir(), bridgeName)
	if err != nil || len(got) != 0 {
		t.Fatalf("without meters: %v, %v", got, err)
	}
	for _, meter := range []string{"1", "1001", "2001"} {
		ofctl(t, s, "add-meter", "meter="+meter+" pktps stats bands=type=drop rate=1", "-OOpenFlow15")
	}
	ofctl(t, s, "add-flow", "ip,actions=meter:1001,local", "-OOpenFlow15")
	const packet = "0a580af401030a580af401010800450000140000000040000000c0000201c0000202"
	for range 7 {
		ofctl(t, s, "packet-out", "in_port=local packet="+packet+" actions=table")
	}
	got, err = openflow.MeterPackets(t.Context(), s.RunDir(), bridgeName)
	if err != nil || len(got) != 3 || got[1001] != 7 || got[1] != 0 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := openflow.MeterPackets(t.Context(), s.RunDir(), "none"); err == nil || !strings.Contains(err.Error(), "none.mgmt") {
		t.Errorf("a bridge that does not exist: %v", err)
	}
}
