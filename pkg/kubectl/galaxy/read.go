// Package galaxy converts the addresses of TKEStack Galaxy to IPPools and FloatingIPs. It is pure: it reads nothing from
// the API server and writes nothing.
package galaxy

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating"
)

// Kinds of Galaxy, and the names of its configuration.
var (
	FloatingIPKind = schema.GroupVersionKind{Group: "galaxy.k8s.io", Version: "v1alpha1", Kind: "FloatingIP"}
	PoolKind       = schema.GroupVersionKind{Group: "galaxy.k8s.io", Version: "v1alpha1", Kind: "Pool"}
	ConfigMapKind  = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
)

const (
	// ConfigMapName is the ConfigMap with Galaxy's ranges.
	ConfigMapName = "floatingip-config"
	// ConfigMapKey is the key of the ranges in the ConfigMap.
	ConfigMapKey = "floatingips"
	// reservedLabel on Galaxy's FloatingIP keeps its address from pods.
	reservedLabel = "reserved"
)

// Source is what Galaxy has.
type Source struct {
	segments []segment
	ips      []address
	// sizes has the size of each Pool.
	sizes map[string]int
	notes []string
}

// segment is an element of the ConfigMap.
type segment struct {
	nodes   []netip.Prefix
	ranges  []networkv1alpha1.AddressRange
	subnet  string
	gateway string
	vlan    int
}

// address is a FloatingIP of Galaxy.
type address struct {
	address netip.Addr
	// pool is empty for an address outside of Galaxy's pools.
	pool     string
	workload floating.Workload
	pod      string
	podUID   types.UID
	node     string
	policy   networkv1alpha1.ReleasePolicy
	since    time.Time
	reserved bool
	// other is a key that names no workload that Weft recognizes.
	other string
}

// Read reads Galaxy's objects. Other objects are an error, because they were not meant.
func Read(objects []*unstructured.Unstructured) (s Source, err error) {
	s.sizes = map[string]int{}
	for _, o := range objects {
		switch o.GroupVersionKind() {
		case FloatingIPKind:
			err = s.readFloatingIP(o)
		case PoolKind:
			size, _, wrong := unstructured.NestedInt64(o.Object, "size")
			s.sizes[o.GetName()], err = int(size), wrong
		case ConfigMapKind:
			err = s.readConfig(o)
		default:
			err = fmt.Errorf("it is neither Galaxy's FloatingIP or Pool nor ConfigMap %s", ConfigMapName)
		}
		if err != nil {
			return s, fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	if len(s.segments) == 0 {
		return s, fmt.Errorf("no ranges: ConfigMap %s is missing or empty", ConfigMapName)
	}
	slices.SortFunc(s.ips, func(a, b address) int { return a.address.Compare(b.address) })
	return s, nil
}

// readConfig reads the ranges.
func (s *Source) readConfig(o *unstructured.Unstructured) error {
	text, ok, err := unstructured.NestedString(o.Object, "data", ConfigMapKey)
	if err != nil || !ok {
		return fmt.Errorf("data.%s is missing", ConfigMapKey)
	}
	var elements []struct {
		NodeSubnets    []string `json:"nodeSubnets"`
		RoutableSubnet string   `json:"routableSubnet"`
		IPs            []string `json:"ips"`
		Subnet         string   `json:"subnet"`
		Gateway        string   `json:"gateway"`
		VLAN           int      `json:"vlan"`
	}
	if err := json.Unmarshal([]byte(text), &elements); err != nil {
		return fmt.Errorf("data.%s: %w", ConfigMapKey, err)
	}
	for i, e := range elements {
		read := segment{subnet: e.Subnet, gateway: e.Gateway, vlan: e.VLAN}
		if e.RoutableSubnet != "" { // the older name
			e.NodeSubnets = append(e.NodeSubnets, e.RoutableSubnet)
		}
		for _, text := range e.NodeSubnets {
			prefix, err := netip.ParsePrefix(text)
			if err != nil {
				return fmt.Errorf("data.%s[%d].nodeSubnets: %w", ConfigMapKey, i, err)
			}
			read.nodes = append(read.nodes, prefix.Masked())
		}
		for _, text := range e.IPs {
			one, err := networkv1alpha1.ParseAddressRange(strings.Replace(text, "~", "-", 1))
			if err != nil {
				return fmt.Errorf("data.%s[%d].ips: %w", ConfigMapKey, i, err)
			}
			read.ranges = append(read.ranges, one)
		}
		s.segments = append(s.segments, read)
	}
	return nil
}

// policies are Galaxy's release policies by their numbers.
var policies = []networkv1alpha1.ReleasePolicy{
	networkv1alpha1.ReleaseWithPod, networkv1alpha1.ReleaseImmutable, networkv1alpha1.ReleaseNever,
}

// readFloatingIP reads a FloatingIP, whose name is the address.
func (s *Source) readFloatingIP(o *unstructured.Unstructured) (err error) {
	var read address
	if read.address, err = parseName(o.GetName()); err != nil {
		return err
	}
	key, _, err := unstructured.NestedString(o.Object, "spec", "key")
	if err != nil {
		return err
	}
	read.readKey(key)
	policy, _, err := unstructured.NestedInt64(o.Object, "spec", "policy")
	if err != nil {
		return err
	}
	if policy < 0 || int(policy) >= len(policies) {
		return fmt.Errorf("spec.policy %d is not 0, 1 or 2", policy)
	}
	read.policy = policies[policy]
	_, read.reserved = o.GetLabels()[reservedLabel]
	if text, _, _ := unstructured.NestedString(o.Object, "spec", "updateTime"); text != "" {
		if read.since, err = time.Parse(time.RFC3339, text); err != nil {
			return fmt.Errorf("spec.updateTime: %w", err)
		}
	}
	if err := read.readAttribute(o); err != nil {
		return err
	}
	s.ips = append(s.ips, read)
	return nil
}

// parseName reads the address of a name: "192.0.2.10", or its number in old versions of Galaxy.
func parseName(name string) (netip.Addr, error) {
	if number, err := strconv.ParseUint(name, 10, 32); err == nil {
		return netip.AddrFrom4([4]byte{byte(number >> 24), byte(number >> 16), byte(number >> 8), byte(number)}), nil
	}
	a, err := netip.ParseAddr(name)
	if err != nil {
		return a, fmt.Errorf("its name is not an address: %w", err)
	}
	return a.Unmap(), nil
}

// readAttribute reads the node and the UID of the pod, which are JSON in a string, or an object.
func (a *address) readAttribute(o *unstructured.Unstructured) error {
	value, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "attribute")
	text, ok := value.(string)
	if !ok {
		encoded, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("spec.attribute: %w", err)
		}
		text = string(encoded)
	}
	if text == "" {
		return nil
	}
	var read struct {
		NodeName string
		UID      types.UID `json:"Uid"`
	}
	if err := json.Unmarshal([]byte(text), &read); err != nil {
		return fmt.Errorf("spec.attribute: %w", err)
	}
	a.node, a.podUID = read.NodeName, read.UID
	return nil
}

// kinds are the workloads by the prefixes of Galaxy's keys.
var kinds = map[string]floating.Workload{
	"dp":   {APIVersion: "apps/v1", Kind: "Deployment"},
	"sts":  {APIVersion: "apps/v1", Kind: "StatefulSet"},
	"tapp": {APIVersion: "apps.tkestack.io/v1", Kind: "TApp"},
}

// keyParts is the number of parts of a workload's key: "sts_demo_db_db-0".
const keyParts = 4

// readKey reads who has an address: "sts_demo_db_db-0" for a pod, "dp_demo_web_" for a workload without a pod, both also
// after "pool__blue_" for an address of the pool blue.
func (a *address) readKey(key string) {
	rest := key
	if inPool, ok := strings.CutPrefix(key, "pool__"); ok {
		a.pool, rest, _ = strings.Cut(inPool, "_")
	}
	if rest == "" {
		return
	}
	parts := strings.Split(rest, "_")
	kind, known := kinds[parts[0]]
	if !known || len(parts) != keyParts || parts[1] == "" || parts[2] == "" {
		a.other = key
		return
	}
	a.workload, a.pod = kind, parts[3]
	a.workload.Namespace, a.workload.Name = parts[1], parts[2]
}
