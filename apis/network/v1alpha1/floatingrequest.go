package v1alpha1

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"go4.org/netipx"
)

// Annotations with which a pod requests floating addresses. They are read when the pod gets its addresses, except the
// release policy and the TTL, which may change while it runs.
const (
	// IPPoolAnnotation is the name of an IPPool.
	IPPoolAnnotation = GroupName + "/ip-pool"
	// IPCountAnnotation is how many addresses of each family of the pool the pod gets, 1..16. Omitted, 1.
	IPCountAnnotation = GroupName + "/ip-count"
	// IPRangesAnnotation limits the addresses: a JSON list that has a list of ranges for each address of the pod,
	// [["192.0.2.10-192.0.2.19", "2001:db8::10"], ["192.0.2.32/28"]]. Its length is the number of addresses.
	IPRangesAnnotation = GroupName + "/ip-ranges"
	// ReleasePolicyAnnotation says when the addresses become free: Pod, Immutable or Never. Omitted, Pod.
	ReleasePolicyAnnotation = GroupName + "/ip-release-policy"
	// IPTTLAnnotation is how long an address is kept without a pod, "72h".
	IPTTLAnnotation = GroupName + "/ip-ttl"
)

// MaxFloatingIPs is how many addresses of a family a pod can have from a pool.
const MaxFloatingIPs = 16

// FloatingRequest is what a pod requests of an IPPool.
//
// +kubebuilder:object:generate=false
type FloatingRequest struct {
	Pool  string
	Count int
	// Ranges has the ranges of each address; empty: any address of the pool.
	Ranges [][]AddressRange
	Policy ReleasePolicy
	TTL    time.Duration // 0: no limit
}

// ParseFloatingRequest reads the request of a pod's annotations. ok is false for a pod without one. The error names
// the annotation.
func ParseFloatingRequest(annotations map[string]string) (r FloatingRequest, ok bool, err error) {
	if r.Pool, ok = annotations[IPPoolAnnotation]; !ok {
		for _, other := range []string{IPCountAnnotation, IPRangesAnnotation, ReleasePolicyAnnotation, IPTTLAnnotation} {
			if _, has := annotations[other]; has {
				return r, false, fmt.Errorf("annotation %s: it needs %s", other, IPPoolAnnotation)
			}
		}
		return r, false, nil
	}
	if r.Pool = strings.TrimSpace(r.Pool); r.Pool == "" {
		return r, true, fmt.Errorf("annotation %s: it is empty, not the name of an IPPool", IPPoolAnnotation)
	}
	if err := r.parseAddresses(annotations); err != nil {
		return r, true, err
	}
	if r.Policy, err = ParseReleasePolicy(annotations[ReleasePolicyAnnotation]); err != nil {
		return r, true, fmt.Errorf("annotation %s: %w", ReleasePolicyAnnotation, err)
	}
	if text, has := annotations[IPTTLAnnotation]; has {
		if r.TTL, err = time.ParseDuration(text); err != nil || r.TTL <= 0 {
			return r, true, fmt.Errorf("annotation %s: %q is not a duration above zero such as 72h", IPTTLAnnotation, text)
		}
	}
	return r, true, nil
}

func (r *FloatingRequest) parseAddresses(annotations map[string]string) (err error) {
	r.Count = 1
	text, counted := annotations[IPCountAnnotation]
	if counted {
		if r.Count, err = strconv.Atoi(text); err != nil || r.Count < 1 || r.Count > MaxFloatingIPs {
			return fmt.Errorf("annotation %s: %q is not a number from 1 to %d", IPCountAnnotation, text, MaxFloatingIPs)
		}
	}
	limits, ok := annotations[IPRangesAnnotation]
	if !ok {
		return nil
	}
	var lists [][]string
	if err := json.Unmarshal([]byte(limits), &lists); err != nil {
		return fmt.Errorf("annotation %s: not a JSON list of lists of ranges: %w", IPRangesAnnotation, err)
	}
	if len(lists) < 1 || len(lists) > MaxFloatingIPs {
		return fmt.Errorf("annotation %s: %d addresses; 1 to %d are possible", IPRangesAnnotation, len(lists), MaxFloatingIPs)
	}
	if counted && r.Count != len(lists) {
		return fmt.Errorf("annotation %s: ranges of %d addresses, but %s is %d", IPRangesAnnotation, len(lists), IPCountAnnotation, r.Count)
	}
	r.Count = len(lists)
	for i, texts := range lists {
		var ranges []AddressRange
		for _, text := range texts {
			one, err := ParseAddressRange(text)
			if err != nil {
				return fmt.Errorf("annotation %s: address %d: %w", IPRangesAnnotation, i, err)
			}
			ranges = append(ranges, one)
		}
		r.Ranges = append(r.Ranges, ranges)
	}
	return nil
}

// ParseReleasePolicy parses a release policy, in Weft's words or in Galaxy's.
func ParseReleasePolicy(text string) (ReleasePolicy, error) {
	switch strings.ToLower(text) {
	case "", "pod":
		return ReleaseWithPod, nil
	case "immutable":
		return ReleaseImmutable, nil
	case "never":
		return ReleaseNever, nil
	}
	return "", fmt.Errorf("%q is not a release policy: Pod, Immutable or Never", text)
}

// AddressRange is the addresses of one family from First to Last.
//
// +kubebuilder:object:generate=false
type AddressRange struct{ First, Last netip.Addr }

// ParseAddressRange parses an address, a CIDR, or two addresses with a dash between, "192.0.2.10-192.0.2.19".
func ParseAddressRange(text string) (AddressRange, error) {
	text = strings.TrimSpace(text)
	first, last, dashed := strings.Cut(text, "-")
	if !dashed && strings.Contains(text, "/") {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return AddressRange{}, err
		}
		if prefix != prefix.Masked() {
			return AddressRange{}, fmt.Errorf("CIDR %q has host bits, write %s", text, prefix.Masked())
		}
		return plain(AddressRange{prefix.Addr(), netipx.PrefixLastIP(prefix)})
	}
	if !dashed {
		last = first
	}
	var r AddressRange
	var err error
	if r.First, err = netip.ParseAddr(strings.TrimSpace(first)); err != nil {
		return r, err
	}
	if r.Last, err = netip.ParseAddr(strings.TrimSpace(last)); err != nil {
		return r, err
	}
	switch {
	case r.First.Is4() != r.Last.Is4():
		return r, fmt.Errorf("range %q: the first and the last address are of different families", text)
	case r.Last.Less(r.First):
		return r, fmt.Errorf("range %q: the last address is before the first", text)
	}
	return plain(r)
}

// unusable are the blocks that no pod can have addresses of.
var unusable = []AddressRange{
	{netip.MustParseAddr("0.0.0.0"), netip.MustParseAddr("0.255.255.255")},
	{netip.MustParseAddr("127.0.0.0"), netip.MustParseAddr("127.255.255.255")},
	{netip.MustParseAddr("169.254.0.0"), netip.MustParseAddr("169.254.255.255")},
	{netip.MustParseAddr("224.0.0.0"), netip.MustParseAddr("239.255.255.255")},
	{netip.MustParseAddr("255.255.255.255"), netip.MustParseAddr("255.255.255.255")},
	{netip.MustParseAddr("::"), netip.MustParseAddr("::1")},
	{netip.MustParseAddr("::ffff:0.0.0.0"), netip.MustParseAddr("::ffff:255.255.255.255")},
	{netip.MustParseAddr("fe80::"), netip.MustParseAddr("febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff")},
	{netip.MustParseAddr("ff00::"), netip.MustParseAddr("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")},
}

// plain refuses a range with an address that no pod can have.
func plain(r AddressRange) (AddressRange, error) {
	for _, block := range unusable {
		switch {
		case r.First.Zone() != "" || r.Last.Zone() != "" || block.Contains(r.First):
			return r, fmt.Errorf("%s is not a unicast address that a pod can have", r.First)
		case r.Overlaps(block):
			return r, fmt.Errorf("range %s has %s, which is not a unicast address that a pod can have", r, block.First)
		}
	}
	return r, nil
}

// Contains reports whether the range has an address.
func (r AddressRange) Contains(a netip.Addr) bool {
	return r.First.Is4() == a.Is4() && r.First.Compare(a) <= 0 && a.Compare(r.Last) <= 0
}

// Overlaps reports whether two ranges have an address in common.
func (r AddressRange) Overlaps(o AddressRange) bool {
	return r.First.Is4() == o.First.Is4() && r.First.Compare(o.Last) <= 0 && o.First.Compare(r.Last) <= 0
}

// String renders the range as ParseAddressRange reads it.
func (r AddressRange) String() string {
	if r.First == r.Last {
		return r.First.String()
	}
	return r.First.String() + "-" + r.Last.String()
}

// FloatingIPName returns the name of an address' FloatingIP: the address itself for IPv4, and all eight groups with
// dashes between for IPv6, because a name has no colons.
func FloatingIPName(address netip.Addr) string {
	if address.Is4() {
		return address.String()
	}
	return strings.ReplaceAll(address.StringExpanded(), ":", "-")
}
