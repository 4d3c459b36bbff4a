package v1alpha1

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var compareAddresses = cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})

func defaultPodNetwork() PodNetwork {
	return PodNetwork{
		Name:        "default",
		Default:     true,
		Interface:   DefaultInterfaceName,
		InterfaceID: "demo_web-0",
		PodUID:      "3f0c1d9e-7a38-4d3f-8f0f-0a3f4a4d6b11",
		MACAddress:  "0a:58:0a:f4:07:05",
		Addresses:   []netip.Prefix{netip.MustParsePrefix("10.244.7.5/24"), netip.MustParsePrefix("fd00:10:244:7::5/64")},
		Gateways:    []netip.Addr{netip.MustParseAddr("10.244.7.1"), netip.MustParseAddr("fd00:10:244:7::1")},
		Routes: []PodRoute{{
			Destination: netip.MustParsePrefix("192.0.2.0/24"), Gateway: netip.MustParseAddr("10.244.7.9"),
		}},
		MTU: 1400,
		DNS: &PodDNS{
			Nameservers: []netip.Addr{netip.MustParseAddr("10.96.0.10")},
			Searches:    []string{"demo.svc.cluster.local"}, Options: []string{"ndots:5"},
		},
	}
}

func secondPodNetwork() PodNetwork {
	network := defaultPodNetwork()
	network.Name, network.Default, network.Interface, network.InterfaceID = "storage", false, "net1", "demo_web-0_net1"
	return network
}

func TestPodNetworksRoundTrip(t *testing.T) {
	want := []PodNetwork{defaultPodNetwork(), secondPodNetwork()}
	text, err := MarshalPodNetworks(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParsePodNetworks(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, compareAddresses); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Other programs read the annotation, so its text is a contract.
func TestPodNetworksText(t *testing.T) {
	got, err := MarshalPodNetworks([]PodNetwork{defaultPodNetwork()})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"version":"v1","networks":[{"name":"default","default":true,"interface":"eth0","interfaceID":"demo_web-0",` +
		`"podUID":"3f0c1d9e-7a38-4d3f-8f0f-0a3f4a4d6b11","macAddress":"0a:58:0a:f4:07:05",` +
		`"addresses":["10.244.7.5/24","fd00:10:244:7::5/64"],"gateways":["10.244.7.1","fd00:10:244:7::1"],` +
		`"routes":[{"destination":"192.0.2.0/24","gateway":"10.244.7.9"}],"mtu":1400,` +
		`"dns":{"nameservers":["10.96.0.10"],"searches":["demo.svc.cluster.local"],"options":["ndots:5"]}}]}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestParsePodNetworksIgnoresFieldsAddedLater(t *testing.T) {
	text, err := MarshalPodNetworks([]PodNetwork{defaultPodNetwork()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParsePodNetworks(strings.Replace(text, `"mtu"`, `"vlan":7,"mtu"`, 1)); err != nil {
		t.Error(err)
	}
}

func TestParsePodNetworksNamesTheInvalidField(t *testing.T) {
	valid, err := MarshalPodNetworks([]PodNetwork{defaultPodNetwork()})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ old, new, message string }{
		"not JSON":            {valid, `eth0`, "invalid character"},
		"empty":               {valid, ``, "unexpected end"},
		"no version":          {valid, `{}`, `version "" is not "v1"`},
		"later version":       {valid, `{"version":"v2","networks":{}}`, `version "v2" is not "v1"`},
		"no networks":         {valid, `{"version":"v1"}`, "networks is empty"},
		"networks of a map":   {valid, `{"version":"v1","networks":{}}`, "networks"},
		"no name":             {`"name":"default"`, `"name":""`, "name is empty"},
		"no interface":        {`"eth0"`, `""`, `networks[0] "default": interface is empty`},
		"no interfaceID":      {`"demo_web-0"`, `""`, "interfaceID is empty"},
		"no podUID":           {`"podUID"`, `"uid"`, "podUID is empty"},
		"malformed MAC":       {"0a:58:0a:f4:07:05", "0a:58", `macAddress "0a:58"`},
		"MAC of InfiniBand":   {"0a:58:0a:f4:07:05", "02:00:5e:10:00:00:00:01", `macAddress "02:00:5e:10:00:00:00:01"`},
		"malformed address":   {"10.244.7.5/24", "10.244.7.5", "10.244.7.5"},
		"empty address":       {"10.244.7.5/24", "", "addresses[0] is empty"},
		"no addresses":        {`"addresses"`, `"ips"`, "addresses is empty"},
		"empty gateway":       {`"fd00:10:244:7::1"`, `""`, "gateways[1] is empty"},
		"empty route gateway": {`"10.244.7.9"`, `""`, "routes[0]"},
		"empty route":         {`"192.0.2.0/24"`, `""`, "routes[0]"},
		"no mtu":              {`"mtu":1400`, `"mtu":0`, "mtu 0"},
		"no default":          {`"default":true,`, ``, "0 networks are marked as default"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(valid, test.old, test.new, 1)
			_, err := ParsePodNetworks(text)
			if err == nil || !strings.HasPrefix(err.Error(), "VIF record: ") || !strings.Contains(err.Error(), test.message) {
				t.Errorf("error %v, want %q", err, test.message)
			}
		})
	}
}

func TestMarshalPodNetworksRefusesWhatParseWouldRefuse(t *testing.T) {
	sameInterface := secondPodNetwork()
	sameInterface.Interface = DefaultInterfaceName
	twoDefaults := secondPodNetwork()
	twoDefaults.Default = true
	for name, test := range map[string]struct {
		networks []PodNetwork
		message  string
	}{
		"none": {nil, "networks is empty"},
		"same interface": {[]PodNetwork{defaultPodNetwork(), sameInterface},
			`interface eth0 belongs to both network "default" and network "storage"`},
		"two defaults": {[]PodNetwork{defaultPodNetwork(), twoDefaults}, "2 networks are marked as default"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := MarshalPodNetworks(test.networks); err == nil || !strings.Contains(err.Error(), test.message) {
				t.Errorf("error %v, want %q", err, test.message)
			}
		})
	}
}
