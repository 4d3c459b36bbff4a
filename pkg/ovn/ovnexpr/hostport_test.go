package ovnexpr_test

import (
	"strings"
	"testing"

	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
)

func TestHostPortsSurviveText(t *testing.T) {
	const text = "tcp/:8088/8080,udp/172.18.0.11:53/5353,sctp/[fd00:18::11]:9/9"
	ports, err := ovnexpr.ParseHostPorts(text)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, p := range ports {
		texts = append(texts, p.String())
	}
	if got := strings.Join(texts, ","); got != text {
		t.Errorf("%q was read as %q", text, got)
	}
	for _, wrong := range []string{"tcp", "tcp/:8088", "tcp/8088/80", "tcp/:99999/80", "tcp/:80/x", "tcp/:80/80,"} {
		if ports, err := ovnexpr.ParseHostPorts(wrong); err == nil {
			t.Errorf("%q was read as %v", wrong, ports)
		}
	}
}
