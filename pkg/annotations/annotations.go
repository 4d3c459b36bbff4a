// Package annotations lists every annotation of Weft's domains, and finds mistakes among the annotations of an object: unknown keys, keys
// on an object of another kind, and values that cannot be read. A finding refuses nothing.
package annotations

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// domain is the domain of Weft. GroupName is within it.
const domain = "weft.dev"

// key is an annotation that Weft reads or writes.
type key struct {
	// kinds are the kinds of objects that have it. Empty means any: Weft writes it on its own objects.
	kinds []string
	// check reads the value among the annotations of the object. It may be nil.
	check func(annotations map[string]string) error
}

var (
	pods     = []string{"Pod"}
	services = []string{"Service"}
	logged   = []string{"Namespace", "NetworkPolicy", "MultiNetworkPolicy", "EgressFirewall", "ClusterNetworkPolicy", "AdminNetworkPolicy",
		"BaselineAdminNetworkPolicy"}
	confirmed = []string{"ClusterNetwork", "IPPool", "LoadBalancerPool", "Network"}
)

// known are the annotations of Weft's domains.
var known = map[string]key{
	networkv1alpha1.RequestedIPsAnnotation: {pods, value(networkv1alpha1.RequestedIPsAnnotation, func(text string) error {
		_, err := networkv1alpha1.ParseRequestedIPs(text)
		return err
	})},
	networkv1alpha1.RequestedMACAnnotation: {pods, value(networkv1alpha1.RequestedMACAnnotation, func(text string) error {
		_, err := networkv1alpha1.ParseRequestedMAC(text)
		return err
	})},
	networkv1alpha1.IPPoolAnnotation:           {pods, floatingRequest},
	networkv1alpha1.IPCountAnnotation:          {pods, nil}, // checked with IPPoolAnnotation, as are the next three
	networkv1alpha1.IPRangesAnnotation:         {pods, nil},
	networkv1alpha1.ReleasePolicyAnnotation:    {pods, nil},
	networkv1alpha1.IPTTLAnnotation:            {pods, nil},
	networkv1alpha1.FloatingIPsAnnotation:      {pods, nil},
	networkv1alpha1.RandomHostPortsAnnotation:  {pods, nil}, // the condition HostPortsReady reports it
	networkv1alpha1.HostPortsAnnotation:        {pods, nil},
	networkv1alpha1.PodNetworksAnnotation:      {pods, nil},
	networkv1alpha1.PodRecordAnnotation:        {[]string{"Pod", "Namespace"}, isBool(networkv1alpha1.PodRecordAnnotation)},
	networkv1alpha1.IdleAnnotation:             {services, isBool(networkv1alpha1.IdleAnnotation)},
	networkv1alpha1.LoadBalancerIPsAnnotation:  {services, nil}, // the condition LoadBalancerReady reports these
	networkv1alpha1.LoadBalancerPoolAnnotation: {services, nil},
	networkv1alpha1.AllowSharedIPAnnotation:    {services, nil},
	networkv1alpha1.SharedIPNamespacesAnnotation: {services, func(all map[string]string) error {
		_, err := networkv1alpha1.ParseSharedIPNamespaces(all)
		return err
	}},
	networkv1alpha1.EgressSourceAnnotation: {services, func(all map[string]string) error {
		_, err := networkv1alpha1.ParseEgressSource(all)
		return err
	}},
	networkv1alpha1.MulticastAnnotation: {[]string{"Namespace"}, func(all map[string]string) error {
		_, err := networkv1alpha1.ParseMulticast(all)
		return err
	}},
	networkv1alpha1.ACLLoggingAnnotation: {logged, value(networkv1alpha1.ACLLoggingAnnotation, func(text string) error {
		_, err := networkv1alpha1.ParseACLLogging(text)
		return err
	})},
	networkv1alpha1.ProbeAnnotation:            {[]string{"NodeNetwork"}, nil},
	networkv1alpha1.AcceptDifferenceAnnotation: {[]string{"ClusterNetwork"}, nil},
	networkv1alpha1.ConfirmRemovalAnnotation:   {[]string{"ClusterNetwork"}, nil},
	networkv1alpha1.ConfirmLossAnnotation:      {confirmed, nil},
}

// internal are annotations that only Weft writes, on its own workloads, their pods and the namespaces of its checks.
var internal = []string{"node", "clusters", "former-clusters", "members", "applied", "revision", "shape", "restarted", "northd",
	"check-until", "settings"}

// labels are labels of Weft. An annotation of such a key is a mistake.
var labels = []string{networkv1alpha1.EgressAssignableLabel, networkv1alpha1.ReservedLabel}

func init() {
	for _, name := range internal {
		known[networkv1alpha1.GroupName+"/"+name] = key{}
	}
}

// value returns a check of one annotation's text.
func value(name string, check func(text string) error) func(map[string]string) error {
	return func(all map[string]string) error {
		if text, ok := all[name]; ok {
			return check(text)
		}
		return nil
	}
}

func isBool(name string) func(map[string]string) error {
	return value(name, func(text string) error {
		if text != "true" && text != "false" {
			return fmt.Errorf("annotation %s: %q is neither \"true\" nor \"false\", and counts as \"false\"", name, text)
		}
		return nil
	})
}

func floatingRequest(all map[string]string) error {
	_, _, err := networkv1alpha1.ParseFloatingRequest(all)
	return err
}

// Finding is an annotation that Weft does not read.
type Finding struct {
	// Key is the annotation's key.
	Key string
	// Message says what is wrong, and names the nearest known key.
	Message string
	// Reported reports whether the reconciler that reads the value reports it, too.
	Reported bool
}

// unreported are the annotations whose reconcilers do not report a value that cannot be read.
var unreported = []string{networkv1alpha1.PodRecordAnnotation, networkv1alpha1.IdleAnnotation}

// Of returns the findings about the annotations of an object of a kind, sorted by key. They are only about Weft's domains.
func Of(kind string, all map[string]string) (found []Finding) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !isOurs(name) {
			continue
		}
		k, ok := known[name]
		switch {
		case slices.Contains(labels, name):
			found = append(found, Finding{name, fmt.Sprintf("%s is a label, not an annotation; the annotation has no effect", name), false})
		case !ok:
			found = append(found, Finding{Key: name,
				Message: fmt.Sprintf("Weft has no annotation %s, so that it has no effect%s", name, meant(kind, name))})
		case len(k.kinds) > 0 && !slices.Contains(k.kinds, kind):
			found = append(found, Finding{name, fmt.Sprintf("annotation %s has no effect on a %s, only on a %s", name, kind,
				strings.Join(k.kinds, ", ")), false})
		case k.check != nil:
			if err := k.check(all); err != nil {
				found = append(found, Finding{name, err.Error(), !slices.Contains(unreported, name)})
			}
		}
	}
	return found
}

// isOurs reports whether a key is of a domain of Weft.
func isOurs(name string) bool {
	of, _, ok := strings.Cut(name, "/")
	return ok && (of == domain || strings.HasSuffix(of, "."+domain))
}

// meant returns "; did you mean KEY?" with the nearest key for a kind, or "" if none is near.
func meant(kind, name string) string {
	_, word, _ := strings.Cut(name, "/")
	best, least := "", max(2, len(word)/3)+1
	for _, candidate := range slices.Sorted(maps.Keys(known)) {
		k := known[candidate]
		if len(k.kinds) == 0 || !slices.Contains(k.kinds, kind) {
			continue
		}
		_, other, _ := strings.Cut(candidate, "/")
		if d := distance(word, other); d < least {
			best, least = candidate, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// distance is the number of bytes to insert, delete or replace between two texts (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
