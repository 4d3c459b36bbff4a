package facts_test

import (
	"strings"
	"testing"

	"github.com/weft-network/weft/pkg/facts"
)

// test/crd submits the same names to the API server.
func TestCheckDNSName(t *testing.T) {
	label := strings.Repeat("a", 63)
	longest := strings.Repeat(label+".", 3) + label[:61]
	for name, want := range map[string]string{
		"www.example.com": "", "A-1.Example.org.": "", "1.2.0x7f.4.4a": "", label + ".example.org": "", longest: "",
		longest + ".": "", "xn--bcher-kva.example": "", "*.example.org": "", "*.Example.org.": "",
		"1.2.3.4": "use cidrSelector 1.2.3.4/32", "2001:db8::1": "use cidrSelector 2001:db8::1/128",
		"1.2.3.4.": "last label is a number", "10.1": "last label is a number",
		"a.0x7F": "last label is a number", "a.0x": "last label is a number",
		"": "two labels", "localhost": "two labels", longest + "a": "at most 253", "a..example.org": `label ""`,
		".example.org": `label ""`, "example.org..": `label ""`,
		label + "a.example.org": "1 to 63", "*.org": "two labels", "a.*.example.org": `label "*"`,
		"*a.example.org": `label "*a"`, "*.*.example.org": `label "*"`,
		"a_b.example.org": `label "a_b"`,
		"-a.example.org":  `label "-a"`, "a-.example.org": `label "a-"`,
	} {
		switch err := facts.CheckDNSName(name); {
		case want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
}
