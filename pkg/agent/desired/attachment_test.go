package desired_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/ovn/sbdb"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
)

var compareAddresses = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

func attachment() desired.Attachment {
	return desired.Attachment{
		InterfaceID: "demo_web-0", PodUID: "6f2d", ContainerID: "c0ffee", IfName: "eth0", HostName: "weft60373cf902",
		MAC: "0a:58:0a:f4:01:05", Addresses: []netip.Addr{netip.MustParseAddr("10.244.1.5"), netip.MustParseAddr("fd00:10:244:1::5")},
	}
}

// second returns a later sandbox of the same pod.
func second() desired.Attachment {
	a := attachment()
	a.ContainerID, a.HostName = "decade", "weft0000000001"
	return a
}

func TestAttachmentUnit(t *testing.T) {
	const bridge = "b7d7a6a0-0000-4000-8000-000000000001"
	a := attachment()
	u := desired.AttachmentUnit(a, bridge, nil)
	if u.Key != "attachment/demo_web-0" {
		t.Errorf("unit %s", u.Key)
	}
	id := desired.AttachmentInterfaceUUID(a)
	want := []*vswitchdb.Interface{{UUID: id, Name: "weft60373cf902", ExternalIDs: map[string]string{
		"iface-id": "demo_web-0", "iface-id-ver": "6f2d", "attached_mac": "0a:58:0a:f4:01:05", "sandbox": "c0ffee", "pod-if-name": "eth0",
		"ip_addresses": "10.244.1.5,fd00:10:244:1::5",
	}}}
	if diff := cmp.Diff(want, rowsOf[vswitchdb.Interface](u)); diff != "" {
		t.Errorf("Interface (-want +got):\n%s", diff)
	}
	port := rowsOf[vswitchdb.Port](u)[0]
	wantPort := &vswitchdb.Port{
		UUID: port.UUID, Name: "weft60373cf902", Interfaces: []string{id},
		OtherConfig: map[string]string{"transient": "true"},
	}
	if diff := cmp.Diff(wantPort, port); diff != "" {
		t.Errorf("Port (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{bridge + " " + port.UUID}, elements(u, "Bridge", "ports")); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
}

// A mark of ovn-controller on the rows of one sandbox must not count for the next sandbox.
func TestEachSandboxHasRowsOfItsOwn(t *testing.T) {
	one, two := desired.AttachmentUnit(attachment(), "b", nil), desired.AttachmentUnit(second(), "b", nil)
	if one.Key != two.Key {
		t.Errorf("units %s and %s: the later one would not replace the earlier one", one.Key, two.Key)
	}
	seen := map[string]bool{}
	for _, id := range append(rowUUIDs(one), rowUUIDs(two)...) {
		if seen[id] {
			t.Errorf("both units have row %s", id)
		}
		seen[id] = true
	}
}

func TestAttachmentIsReadBack(t *testing.T) {
	noAddress := attachment()
	noAddress.Addresses = nil
	for name, want := range map[string]desired.Attachment{"dual stack": attachment(), "no address": noAddress} {
		u := desired.AttachmentUnit(want, "b", nil)
		row := rowsOf[vswitchdb.Interface](u)[0]
		row.ExternalIDs["weft.dev/unit"] = string(u.Key) // the engine's part
		row.ExternalIDs["ovn-installed"] = "true"        // ovn-controller's
		got, ok := desired.ParseAttachment(row)
		if diff := cmp.Diff(want, got, compareAddresses); !ok || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, ok, diff)
		}
		if !desired.Installed(row) {
			t.Errorf("%s: not installed", name)
		}
	}
}

func TestForeignInterfacesAreNoAttachments(t *testing.T) {
	for name, ids := range map[string]map[string]string{
		"without an owner":    nil,
		"of another program":  {"iface-id": "demo_web-0", "sandbox": "c0ffee"},
		"the management port": {"iface-id": "k8s-node-1", "weft.dev/unit": "node/management-port"},
		"without a sandbox":   {"iface-id": "demo_web-0", "weft.dev/unit": "attachment/demo_web-0"},
	} {
		if got, ok := desired.ParseAttachment(&vswitchdb.Interface{ExternalIDs: ids}); ok {
			t.Errorf("%s: parsed as %v", name, got)
		}
	}
}

func binding(mac ...string) *sbdb.PortBinding {
	return &sbdb.PortBinding{LogicalPort: "demo_web-0", MAC: mac, Options: map[string]string{"iface-id-ver": "6f2d"}}
}

func TestNewVIF(t *testing.T) {
	got, err := desired.NewVIF(binding("0a:58:0a:f4:01:05 10.244.1.5 fd00:10:244:1::5"), dualStackSpec())
	if err != nil {
		t.Fatal(err)
	}
	if got.MAC.String() != "0a:58:0a:f4:01:05" || got.PodUID != "6f2d" {
		t.Errorf("MAC %s, UID %s", got.MAC, got.PodUID)
	}
	wantText(t, "prefixes", got.Prefixes, "10.244.1.5/24 fd00:10:244:1::5/64")
	wantText(t, "gateways", got.Gateways, "10.244.1.1 fd00:10:244:1::1")
}

// A node may have a second subnet of a family.
func TestNewVIFTakesTheSubnetOfTheAddress(t *testing.T) {
	spec := networkv1alpha1.NodeNetworkSpec{
		PodSubnets: []networkv1alpha1.CIDR{"10.244.1.0/24", "10.250.0.0/20"}, Gateways: []networkv1alpha1.IP{"10.244.1.1", "10.250.0.1"},
	}
	got, err := desired.NewVIF(binding("0a:58:0a:fa:07:05 10.250.7.5"), spec)
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, "prefixes", got.Prefixes, "10.250.7.5/20")
	wantText(t, "gateways", got.Gateways, "10.250.0.1")
}

// A floating address is in no subnet of the node. It has the node's gateway of its family, once however many addresses
// the family has.
func TestNewVIFOfFloatingAddresses(t *testing.T) {
	for _, c := range []struct{ mac, floating, prefixes, gateways string }{
		{"0a:58:0a:f4:c8:05 10.244.200.5 fd00:10:244:c8::5", "10.244.200.5,fd00:10:244:c8::5",
			"10.244.200.5/32 fd00:10:244:c8::5/128", "10.244.1.1 fd00:10:244:1::1"},
		{"0a:58:0a:f4:c8:05 10.244.200.5 10.244.200.6 fd00:10:244:1::5", "10.244.200.5,10.244.200.6",
			"10.244.200.5/32 10.244.200.6/32 fd00:10:244:1::5/64", "10.244.1.1 fd00:10:244:1::1"},
	} {
		b := binding(c.mac)
		b.ExternalIDs = map[string]string{"weft.dev/floating": c.floating}
		got, err := desired.NewVIF(b, dualStackSpec())
		if err != nil {
			t.Fatal(err)
		}
		wantText(t, "prefixes", got.Prefixes, c.prefixes)
		wantText(t, "gateways", got.Gateways, c.gateways)
	}
	for want, floating := range map[string]string{"unable to parse IP": "nonsense", "is in none of the node's subnets": "10.244.200.9"} {
		b := binding("0a:58:0a:f4:c8:05 10.244.200.5")
		b.ExternalIDs = map[string]string{"weft.dev/floating": floating}
		if got, err := desired.NewVIF(b, dualStackSpec()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("floating %q: %v, %v, want %q", floating, got, err, want)
		}
	}
	b, spec := binding("0a:58:0a:f4:c8:05 fd00:10:244:c8::5"), dualStackSpec()
	b.ExternalIDs, spec.Gateways = map[string]string{"weft.dev/floating": "fd00:10:244:c8::5"}, spec.Gateways[:1]
	if got, err := desired.NewVIF(b, spec); err == nil || !strings.Contains(err.Error(), "no gateway of its family") {
		t.Errorf("without a gateway: %v, %v", got, err)
	}
}

// An interface on a Localnet Network has all its addresses on a segment. An interface on the cluster network has there the addresses
// to which the gateway router translates.
func TestAddressesOnSegment(t *testing.T) {
	for name, c := range map[string]struct {
		ids  map[string]string
		want string
	}{
		"cluster network":             {nil, ""},
		"cluster network, translated": {map[string]string{"weft.dev/translated": "172.18.0.9"}, "172.18.0.9"},
		"cluster network, floating":   {map[string]string{"weft.dev/floating": "10.244.1.5"}, ""},
		"Network":                     {map[string]string{"weft.dev/network": "blue", "weft.dev/request": "r"}, ""},
		"Localnet Network": {map[string]string{"weft.dev/network": "dc", "weft.dev/request": "r", "weft.dev/segment": "dc 100"},
			"10.244.1.5 fd00:10:244:1::5"},
	} {
		t.Run(name, func(t *testing.T) {
			b := binding("0a:58:0a:f4:01:05 10.244.1.5 fd00:10:244:1::5")
			b.ExternalIDs = c.ids
			vif, err := desired.NewVIF(b, dualStackSpec())
			if err != nil {
				t.Fatal(err)
			}
			wantText(t, "addresses", vif.OnSegment(), c.want)
		})
	}
}

func wantText[T interface{ String() string }](t *testing.T, what string, values []T, want string) {
	t.Helper()
	var texts []string
	for _, v := range values {
		texts = append(texts, v.String())
	}
	if got := strings.Join(texts, " "); got != want {
		t.Errorf("%s are %s, want %s", what, got, want)
	}
}

func TestNewVIFRefuses(t *testing.T) {
	broken := dualStackSpec()
	broken.PodSubnets[0] = "nonsense"
	badGateway := dualStackSpec()
	badGateway.Gateways[0] = "nonsense"
	const good = "0a:58:0a:f4:01:05 10.244.1.5"
	for name, c := range map[string]struct {
		mac  []string
		spec networkv1alpha1.NodeNetworkSpec
		want string
	}{
		"no element":        {nil, dualStackSpec(), "0 elements in mac, want 1"},
		"two elements":      {[]string{good, good}, dualStackSpec(), "2 elements in mac, want 1"},
		"unknown":           {[]string{"unknown"}, dualStackSpec(), `"unknown"`},
		"malformed MAC":     {[]string{"0a:58:0a:f4:01 10.244.1.5"}, dualStackSpec(), `"0a:58:0a:f4:01 10.244.1.5"`},
		"malformed address": {[]string{"0a:58:0a:f4:01:05 10.244.1.500"}, dualStackSpec(), "10.244.1.500"},
		"no address":        {[]string{"0a:58:0a:f4:01:05"}, dualStackSpec(), "no IP address"},
		"an address in no subnet": {
			[]string{"0a:58:0a:f4:01:05 10.245.1.5"}, dualStackSpec(),
			"address 10.245.1.5 is in none of the node's subnets [10.244.1.0/24 fd00:10:244:1::/64]",
		},
		"one of two addresses in no subnet": {[]string{good + " fd00:10:244:2::5"}, dualStackSpec(), "fd00:10:244:2::5"},
		"a node without subnets":            {[]string{good}, networkv1alpha1.NodeNetworkSpec{}, "10.244.1.5"},
		"a malformed subnet":                {[]string{good}, broken, "nonsense"},
		"a malformed gateway":               {[]string{good}, badGateway, "nonsense"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := desired.NewVIF(binding(c.mac...), c.spec)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "Port_Binding demo_web-0") {
				t.Errorf("%v, error %v, want one with %q", got, err, c.want)
			}
		})
	}
}
