package v1alpha1

import (
	"net/netip"
	"strings"
	"testing"
)

func TestCIDRPrefix(t *testing.T) {
	for text, message := range map[CIDR]string{
		"10.244.0.0/16":    "",
		"fd00:10:244::/48": "",
		"10.244.0.0":       `CIDR "10.244.0.0": `,
		"":                 `CIDR "": `,
		"10.244.1.0/16":    "has host bits, write 10.244.0.0/16",
	} {
		prefix, err := text.Prefix()
		checkParsed(t, string(text), prefix.String(), err, message)
	}
}

func TestInterfaceAddressPrefixKeepsHostBits(t *testing.T) {
	for text, message := range map[InterfaceAddress]string{
		"10.244.1.2/24":       "",
		"fd00:10:244:1::2/64": "",
		"10.244.1.2":          `address "10.244.1.2": `,
	} {
		prefix, err := text.Prefix()
		checkParsed(t, string(text), prefix.String(), err, message)
	}
}

func TestIPAddr(t *testing.T) {
	for text, message := range map[IP]string{
		"10.244.1.1":       "",
		"fd00:10:244:1::1": "",
		"10.244.1.1/24":    `IP "10.244.1.1/24": `,
	} {
		addr, err := text.Addr()
		checkParsed(t, string(text), addr.String(), err, message)
	}
}

func checkParsed(t *testing.T, text, parsed string, err error, message string) {
	t.Helper()
	switch {
	case message == "" && err != nil:
		t.Error(err)
	case message == "" && parsed != text:
		t.Errorf("%s became %s", text, parsed)
	case message != "" && (err == nil || !strings.Contains(err.Error(), message)):
		t.Errorf("%q: error %v, want %q", text, err, message)
	}
}

func TestAnErrorComesWithTheZeroValue(t *testing.T) {
	if prefix, err := CIDR("10.244.1.0/16").Prefix(); err == nil || prefix != (netip.Prefix{}) {
		t.Errorf("got %v, %v", prefix, err)
	}
}
