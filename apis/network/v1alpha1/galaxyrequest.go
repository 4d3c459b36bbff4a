package v1alpha1

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Requests in the format of TKEStack Galaxy. Weft reads them beside its own annotations, so that workloads can move
// without a change of their manifests.
const (
	// GalaxyPoolAnnotation is the name of an IPPool.
	GalaxyPoolAnnotation = "tke.cloud.tencent.com/eni-ip-pool"
	// GalaxyPolicyAnnotation is a release policy: "", immutable or never.
	GalaxyPolicyAnnotation = "k8s.v1.cni.galaxy.io/release-policy"
	// GalaxyArgsAnnotation is a JSON object. Its request_ip_range is like IPRangesAnnotation, with "~" in ranges. Without
	// it, common.ipinfos has the addresses.
	GalaxyArgsAnnotation = "k8s.v1.cni.galaxy.io/args"
	// GalaxyResource is the extended resource that a container of the pod requests.
	GalaxyResource = "tke.cloud.tencent.com/eni-ip"
	// GalaxyPool is the IPPool of pods that request an address in Galaxy's format without a pool.
	GalaxyPool = "galaxy"
)

// FloatingAnnotations lists the annotations that FloatingRequestOf reads.
func FloatingAnnotations() []string {
	return []string{IPPoolAnnotation, IPCountAnnotation, IPRangesAnnotation, ReleasePolicyAnnotation, IPTTLAnnotation,
		GalaxyPoolAnnotation, GalaxyPolicyAnnotation, GalaxyArgsAnnotation}
}

// FloatingRequestOf returns what a pod requests of an IPPool, in Weft's annotations or in Galaxy's format. ok is false
// for a pod without a request. The error names the annotation, or two that differ.
//
// In Galaxy's format a pod requests addresses by GalaxyResource, by GalaxyPoolAnnotation, or by addresses in
// GalaxyArgsAnnotation. A release policy alone requests nothing.
func FloatingRequestOf(pod *corev1.Pod) (r FloatingRequest, ok bool, err error) {
	galaxy, err := parseGalaxy(pod)
	if err != nil {
		return r, true, err
	}
	annotations := pod.Annotations
	own, has := annotations[IPPoolAnnotation]
	switch {
	case !has && galaxy.requests:
		annotations = withPool(annotations, galaxy.pool)
	case has && galaxy.named && strings.TrimSpace(own) != galaxy.pool:
		return r, true, contradiction(IPPoolAnnotation, own, GalaxyPoolAnnotation, galaxy.pool)
	}
	if r, ok, err = ParseFloatingRequest(annotations); err != nil || !ok {
		return r, ok, err
	}
	return r, true, galaxy.addTo(&r, annotations)
}

func withPool(annotations map[string]string, pool string) map[string]string {
	with := map[string]string{IPPoolAnnotation: pool}
	for _, key := range FloatingAnnotations() {
		if value, ok := annotations[key]; ok {
			with[key] = value
		}
	}
	return with
}

func contradiction(own, is, galaxys, other string) error {
	return fmt.Errorf("annotation %s is %q, but annotation %s is %q: remove one", own, is, galaxys, other)
}

// galaxyRequest is a request in Galaxy's format.
type galaxyRequest struct {
	// requests reports that the pod requests addresses, named that it names the pool.
	requests, named bool
	pool            string
	ranges          [][]AddressRange
	// policy is empty without GalaxyPolicyAnnotation.
	policy ReleasePolicy
}

// addTo adds the ranges and the release policy to a request, unless the pod's own annotations say something else.
func (g galaxyRequest) addTo(r *FloatingRequest, annotations map[string]string) error {
	if len(g.ranges) > 0 {
		count, counted := annotations[IPCountAnnotation]
		limits, limited := annotations[IPRangesAnnotation]
		switch {
		case limited && !slices.EqualFunc(r.Ranges, g.ranges, slices.Equal):
			return contradiction(IPRangesAnnotation, limits, GalaxyArgsAnnotation, annotations[GalaxyArgsAnnotation])
		case counted && r.Count != len(g.ranges):
			return contradiction(IPCountAnnotation, count, GalaxyArgsAnnotation, annotations[GalaxyArgsAnnotation])
		}
		r.Ranges, r.Count = g.ranges, len(g.ranges)
	}
	if g.policy == "" {
		return nil
	}
	if own, has := annotations[ReleasePolicyAnnotation]; has && r.Policy != g.policy {
		return contradiction(ReleasePolicyAnnotation, own, GalaxyPolicyAnnotation, annotations[GalaxyPolicyAnnotation])
	}
	r.Policy = g.policy
	return nil
}

// parseGalaxy reads the request in Galaxy's format.
func parseGalaxy(pod *corev1.Pod) (g galaxyRequest, err error) {
	g.requests, g.pool = requestsGalaxy(pod), GalaxyPool
	if text := strings.TrimSpace(pod.Annotations[GalaxyPoolAnnotation]); text != "" { // Galaxy ignores an empty one
		g.requests, g.named, g.pool = true, true, text
	}
	if text, ok := pod.Annotations[GalaxyPolicyAnnotation]; ok {
		if g.policy, err = ParseReleasePolicy(text); err != nil {
			return g, fmt.Errorf("annotation %s: %w", GalaxyPolicyAnnotation, err)
		}
	}
	if text := pod.Annotations[GalaxyArgsAnnotation]; text != "" {
		if g.ranges, err = parseGalaxyArgs(text); err != nil {
			return g, fmt.Errorf("annotation %s: %w", GalaxyArgsAnnotation, err)
		}
		g.requests = g.requests || len(g.ranges) > 0
	}
	return g, nil
}

// requestsGalaxy reports whether a container of the pod requests GalaxyResource.
func requestsGalaxy(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		quantity, ok := c.Resources.Requests[GalaxyResource]
		return ok && !quantity.IsZero()
	})
}

// parseGalaxyArgs returns the ranges of each address.
func parseGalaxyArgs(text string) (ranges [][]AddressRange, err error) {
	var args struct {
		Ranges [][]string `json:"request_ip_range"`
		Common struct {
			Infos []struct {
				IP string `json:"ip"`
			} `json:"ipinfos"`
		} `json:"common"`
	}
	if err := json.Unmarshal([]byte(text), &args); err != nil {
		return nil, fmt.Errorf("not a JSON object with request_ip_range or common.ipinfos: %w", err)
	}
	if n := max(len(args.Ranges), len(args.Common.Infos)); n > MaxFloatingIPs {
		return nil, fmt.Errorf("%d addresses; 1 to %d are possible", n, MaxFloatingIPs)
	}
	for i, texts := range args.Ranges {
		of := []AddressRange{}
		for _, text := range texts {
			one, err := ParseAddressRange(strings.Replace(text, "~", "-", 1))
			if err != nil {
				return nil, fmt.Errorf("request_ip_range[%d]: %w", i, err)
			}
			of = append(of, one)
		}
		ranges = append(ranges, of)
	}
	if len(ranges) > 0 {
		return ranges, nil // ipinfos are what Galaxy chose of them
	}
	for i, info := range args.Common.Infos {
		one, err := parseGalaxyIP(info.IP)
		if err != nil {
			return nil, fmt.Errorf("common.ipinfos[%d].ip: %w", i, err)
		}
		ranges = append(ranges, []AddressRange{one})
	}
	return ranges, nil
}

// parseGalaxyIP reads an address with the length of its network's prefix, "192.0.2.10/24", or without.
func parseGalaxyIP(text string) (AddressRange, error) {
	address := text
	if prefix, err := netip.ParsePrefix(text); err == nil {
		address = prefix.Addr().String()
	} else if _, err := netip.ParseAddr(text); err != nil {
		return AddressRange{}, fmt.Errorf("%q is not an address", text)
	}
	return ParseAddressRange(address)
}
