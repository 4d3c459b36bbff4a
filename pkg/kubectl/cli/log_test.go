package cli

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/weft-network/weft/pkg/acllog"
)

const loggedLine = `{"level":"info","ts":"2026-11-22T05:13:14Z","logger":"policy","msg":"…","decision":{"time":"2026-11-22T05:13:13Z",` +
	`"policy":"NetworkPolicy demo/web","rule":"ingress isolation","verdict":"drop","severity":"warning","ingress":true,"protocol":"tcp",` +
	`"source":"10.244.0.5","destination":"10.244.1.3","sourcePort":40152,"destinationPort":80}}`

func TestLogOfDecisions(t *testing.T) {
	then := time.Date(2026, 11, 22, 5, 0, 0, 0, time.UTC)
	known := holders{}
	known.add("10.244.0.5", "other/client", then)
	known.add("10.244.1.3", "demo/web-1", then)
	known.add("10.244.1.4", "demo/web-2", then.Add(time.Hour)) // after the decision
	known.add("192.0.2.1", "node n1", time.Time{})
	write := func(o logOptions, lines ...string) string {
		t.Helper()
		var out bytes.Buffer
		w := &logWriter{out: &out, holders: known, options: o}
		for _, line := range lines {
			if d, ok := decisionIn(line); ok {
				w.add("n2", d)
			}
		}
		if err := w.flush(); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	const dropped = "2026-11-22T05:13:13Z n2 warning: NetworkPolicy demo/web ingress isolation dropped TCP other/client → demo/web-1:80\n"
	allowed := strings.NewReplacer(`"drop"`, `"allow"`, "ingress isolation", "ingress[0]", "10.244.0.5", "192.0.2.1",
		"05:13:13Z", "05:13:12Z").Replace(loggedLine)
	const allowedText = "2026-11-22T05:13:12Z n2 warning: NetworkPolicy demo/web ingress[0] allowed TCP node n1 → demo/web-1:80\n"
	reused := strings.Replace(loggedLine, "10.244.1.3", "10.244.1.4", 1)
	for _, test := range []struct {
		options logOptions
		lines   []string
		want    string
	}{
		{logOptions{}, []string{loggedLine, "not a decision", `{"decision": 7}`, allowed}, allowedText + dropped},
		{logOptions{follow: true}, []string{loggedLine, allowed}, dropped + allowedText},
		{logOptions{denied: true}, []string{loggedLine, allowed}, dropped},
		{logOptions{about: []string{"other"}}, []string{loggedLine, allowed}, dropped},
		{logOptions{about: []string{"demo/web-1"}}, []string{loggedLine}, dropped},
		{logOptions{about: []string{"demo/web"}}, []string{loggedLine}, dropped}, // a policy
		{logOptions{about: []string{"dem"}}, []string{loggedLine}, ""},
		{logOptions{}, []string{reused}, strings.Replace(dropped, "demo/web-1:80", "10.244.1.4:80", 1)},
	} {
		if got := write(test.options, test.lines...); got != test.want {
			t.Errorf("%+v:\n%s\nwant\n%s", test.options, got, test.want)
		}
	}
	const named = `"node":"n2","sourceName":"other/client","destinationName":"demo/web-1"`
	if got := write(logOptions{format: formatJSON}, loggedLine); !strings.Contains(got, named) {
		t.Error(got)
	}
}

// The command parses the format that the agent logs.
func TestDecisionAsJSON(t *testing.T) {
	d, ok := decisionIn(loggedLine)
	if !ok || d.Source != netip.MustParseAddr("10.244.0.5") || d.DestinationPort != 80 || acllog.Key != "decision" {
		t.Errorf("%+v, %v", d, ok)
	}
}
