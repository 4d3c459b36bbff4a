package crd

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/apis/network/v1alpha1"
)

// inNAT returns the spec of a NAT pool of one range.
func inNAT(addresses string) string {
	return `{location: NAT, ranges: [{addresses: "` + addresses + `"}]}`
}

func TestIPPoolIsAcceptedOrRefused(t *testing.T) {
	notAddresses := func(text string) refusal {
		return refusal{"spec.ranges[0].addresses", []string{`"` + text + `" is not an address, a CIDR, or the first and the last address`}}
	}
	for name, test := range map[string]struct {
		spec string
		want refusal
	}{
		"every field": {spec: `{location: Underlay, network: vlan7, size: 4096, namespaces: {matchLabels: {team: a}},
			ranges: [{addresses: 192.0.2.0/28, nodeSelector: {matchExpressions: [{key: rack, operator: In, values: ["1"]}]}}]}`},
		"an address":         {spec: inNAT("192.0.2.1")},
		"a CIDR":             {spec: inNAT("2001:db8::/64")},
		"two addresses":      {spec: inNAT("192.0.2.10-192.0.2.99")},
		"two with spaces":    {spec: inNAT("2001:db8:: - 2001:db8::ffff")},
		"Overlay":            {spec: `{location: Overlay, ranges: [{addresses: 10.244.0.0/24}]}`},
		"all namespaces":     {spec: `{location: Overlay, ranges: [{addresses: 10.244.0.0/24}], namespaces: {}}`},
		"text":               {inNAT("web"), notAddresses("web")},
		"an address too big": {inNAT("192.0.2.256"), notAddresses("192.0.2.256")},
		"no last address":    {inNAT("192.0.2.1-"), notAddresses("192.0.2.1-")},
		"a short last one":   {inNAT("192.0.2.1-9"), notAddresses("192.0.2.1-9")},
		"three addresses":    {inNAT("192.0.2.1-192.0.2.2-192.0.2.3"), notAddresses("192.0.2.1-192.0.2.2-192.0.2.3")},
		"two CIDRs":          {inNAT("192.0.2.0/28-192.0.2.16/28"), notAddresses("192.0.2.0/28-192.0.2.16/28")},
		"host bits":          {inNAT("192.0.2.1/28"), refusal{"spec.ranges[0].addresses", []string{"192.0.2.1/28 has host bits set"}}},
		"no range":           {`{location: NAT, ranges: []}`, refusal{"spec.ranges", []string{"at least 1"}}},
		"ranges are absent":  {`{location: NAT}`, refusal{"spec.ranges", []string{"Required"}}},
		"another location": {`{location: Moon, ranges: [{addresses: 192.0.2.1}]}`,
			refusal{"spec.location", []string{`"Overlay"`, `"Underlay"`, `"NAT"`}}},
		"Underlay without Network": {`{location: Underlay, ranges: [{addresses: 192.0.2.1}]}`,
			refusal{"spec.network", []string{"an Underlay pool needs the name of its Network"}}},
		"NAT with a Network": {`{location: NAT, network: vlan7, ranges: [{addresses: 192.0.2.1}]}`,
			refusal{"spec.network", []string{"no other pool has one"}}},
		"size below 0": {`{location: NAT, ranges: [{addresses: 192.0.2.1}], size: -1}`,
			refusal{"spec.size", []string{"greater than or equal to 0"}}},
		"size too big": {`{location: NAT, ranges: [{addresses: 192.0.2.1}], size: 4097}`,
			refusal{"spec.size", []string{"less than or equal to 4096"}}},
	} {
		t.Run(name, func(t *testing.T) {
			test.want.check(t, api.Create(t.Context(), object(t, "IPPool", "web", test.spec), client.DryRunAll))
		})
	}
}

// ordered are pairs of addresses, and why the API server refuses them as a range; "" if it does not. The status of the pool refuses
// reversed ranges of IPv6: CEL cannot compare the addresses within the budget of a CRD.
var ordered = map[string]string{
	"192.0.2.9-192.0.2.10":    "",
	"192.0.2.9-192.0.2.9":     "",
	"9.0.0.1-10.0.0.1":        "",
	"10.0.0.3 - 10.0.1.2":     "",
	"0.0.0.0-255.255.255.255": "",
	"10.0.0.9-10.0.0.3":       "the last address is before the first",
	"192.0.2.10-192.0.2.9":    "the last address is before the first",
	"10.0.1.2-10.0.0.3":       "the last address is before the first",
	"11.0.0.0 - 10.255.0.3":   "the last address is before the first",
	"2001:db8::9-2001:db8::a": "",
	"2001:db8::a-2001:db8::9": "",
	"192.0.2.1-2001:db8::1":   "of different families",
	"2001:db8::1-192.0.2.1":   "of different families",
}

func TestReversedRangesAreRefused(t *testing.T) {
	for text, why := range ordered {
		for kind, of := range map[string]struct{ field, spec string }{
			"IPPool": {"spec.ranges[0].addresses", inNAT(text)}, "LoadBalancerPool": {"spec.addresses[0]", `{addresses: ["` + text + `"]}`},
		} {
			var want refusal
			if why != "" {
				want = refusal{of.field, []string{why}}
			}
			t.Run(kind+" "+text, func(t *testing.T) {
				want.check(t, api.Create(t.Context(), object(t, kind, "web", of.spec), client.DryRunAll))
			})
		}
	}
}

func TestIPPoolChanges(t *testing.T) {
	const ranges = `ranges: [{addresses: 192.0.2.0/28}]`
	for name, test := range map[string]struct {
		from, to string
		want     refusal
	}{
		"other ranges": {from: `{location: NAT, ` + ranges + `}`, to: `{location: NAT, ranges: [{addresses: 192.0.2.64/28}], size: 2}`},
		"another location": {`{location: NAT, ` + ranges + `}`, `{location: Overlay, ` + ranges + `}`,
			refusal{"spec.location", []string{"location is immutable"}}},
		"another Network": {`{location: Underlay, network: vlan7, ` + ranges + `}`, `{location: Underlay, network: vlan8, ` + ranges + `}`,
			refusal{"spec.network", []string{"network is immutable"}}},
	} {
		t.Run(name, func(t *testing.T) {
			stored := object(t, "IPPool", "web", test.from)
			create(t, stored)
			changed := object(t, "IPPool", "web", test.to)
			changed.SetResourceVersion(stored.GetResourceVersion())
			test.want.check(t, api.Update(t.Context(), changed, client.DryRunAll))
		})
	}
}

const holder = `{apiVersion: apps/v1, kind: Deployment, namespace: demo, name: web, uid: w, pod: web-1, podUID: p, node: n1, index: 1,
	releasePolicy: Immutable, ttl: 72h, since: "2026-01-02T03:04:05Z"}`

// The name is made of the address, because two objects of one address would be two locks.
func TestFloatingIPIsAcceptedOrRefused(t *testing.T) {
	address := func(address string) string { return `{address: "` + address + `", pool: web}` }
	const notTheName = "it must be made of spec.address"
	for name, test := range map[string]struct {
		object, spec string
		want         refusal
	}{
		"free":       {object: "192.0.2.1", spec: address("192.0.2.1")},
		"held":       {object: "192.0.2.1", spec: `{address: 192.0.2.1, pool: web, holder: ` + holder + `}`},
		"IPv6":       {object: "2001-0db8-0000-0000-0000-0000-0000-000a", spec: address("2001:db8::a")},
		"a word":     {"web", address("192.0.2.1"), refusal{"<nil>", []string{notTheName}}},
		"another":    {"192.0.2.2", address("192.0.2.1"), refusal{"<nil>", []string{notTheName}}},
		"other IPv6": {"2001-0db8-0000-0000-0000-0000-0000-000b", address("2001:db8::a"), refusal{"<nil>", []string{notTheName}}},
		"short IPv6": {"2001-db8-0-0-0-0-0-a", address("2001:db8::a"), refusal{"<nil>", []string{notTheName}}},
		"no address": {"web", address("web"), refusal{"spec.address", []string{`"web" is not an IPv4 or IPv6 address`}}},
		"other form": {"2001-0db8-0000-0000-0000-0000-0000-000a", address("2001:DB8::A"), refusal{"spec.address", []string{"canonical"}}},
		"no pool":    {"192.0.2.1", `{address: 192.0.2.1}`, refusal{"spec.pool", []string{"Required"}}},
		"index of 16": {"192.0.2.1", `{address: 192.0.2.1, pool: web, holder: {apiVersion: v1, kind: Pod, namespace: demo, name: a,
			since: "2026-01-02T03:04:05Z", index: 16}}`, refusal{"spec.holder.index", []string{"less than or equal to 15"}}},
		"another policy": {"192.0.2.1", `{address: 192.0.2.1, pool: web, holder: {apiVersion: v1, kind: Pod, namespace: demo, name: a,
			since: "2026-01-02T03:04:05Z", releasePolicy: Always}}`, refusal{"spec.holder.releasePolicy", []string{`"Immutable"`}}},
		"a holder without a name": {"192.0.2.1", `{address: 192.0.2.1, pool: web, holder: {apiVersion: v1, kind: Pod, namespace: demo,
			since: "2026-01-02T03:04:05Z"}}`, refusal{"spec.holder.name", []string{"Required"}}},
	} {
		t.Run(name, func(t *testing.T) {
			test.want.check(t, api.Create(t.Context(), object(t, "FloatingIP", test.object, test.spec), client.DryRunAll))
		})
	}
}

func TestFloatingIPChanges(t *testing.T) {
	stored := object(t, "FloatingIP", "192.0.2.1", `{address: 192.0.2.1, pool: web, holder: `+holder+`}`)
	create(t, stored)
	for name, test := range map[string]struct {
		change []string
		value  any
		want   refusal
	}{
		"another pool": {[]string{"spec", "pool"}, "db", refusal{"spec.pool", []string{"pool is immutable"}}},
		"another pod":  {change: []string{"spec", "holder", "pod"}, value: "web-2"},
		"no holder":    {change: []string{"spec", "holder"}},
	} {
		t.Run(name, func(t *testing.T) {
			changed := stored.DeepCopy()
			if test.value == nil {
				unstructured.RemoveNestedField(changed.Object, test.change...)
			} else if err := unstructured.SetNestedField(changed.Object, test.value, test.change...); err != nil {
				t.Fatal(err)
			}
			test.want.check(t, api.Update(t.Context(), changed, client.DryRunAll))
		})
	}
}

func TestFloatingColumns(t *testing.T) {
	pool := object(t, "IPPool", "web", inNAT("192.0.2.0/28"))
	create(t, pool)
	pool.Object["status"] = map[string]any{"total": int64(16), "used": int64(3), "kept": int64(2), "conditions": []any{
		map[string]any{"type": v1alpha1.ConditionReady, "status": "True", "reason": v1alpha1.ReasonAsExpected, "message": "pods can",
			"lastTransitionTime": "2026-01-02T03:04:05Z"}}}
	if err := api.Status().Update(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	wantColumns(t, "ippools", map[string]string{"Name": "web", "Location": "NAT", "Total": "16", "Used": "3", "Kept": "2",
		"Ready": "True", "Message*": "pods can"})
	create(t, object(t, "FloatingIP", "192.0.2.1", `{address: 192.0.2.1, pool: web, holder: `+holder+`}`))
	got, err := columns(t.Context(), "floatingips")
	if err != nil {
		t.Fatal(err)
	}
	for column, want := range map[string]string{"Name": "192.0.2.1", "Address": "192.0.2.1", "Pool": "web", "Namespace": "demo",
		"Kind": "Deployment", "Holder": "web", "Pod": "web-1", "Node": "n1", "Policy": "Immutable"} {
		if got[column] != want {
			t.Errorf("column %s has %q, want %q", column, got[column], want)
		}
	}
}
