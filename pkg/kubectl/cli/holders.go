package cli

import (
	"context"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// holders maps the addresses in use to their holders.
type holders map[netip.Addr]holder

type holder struct {
	name  string // "demo/web-0" or "node n1"
	since time.Time
}

// readHolders reads the addresses of pods and nodes. refused lists what the user may not list; such addresses are
// shown without names.
func readHolders(ctx context.Context, api client.Client) (h holders, refused []error, err error) {
	var pods corev1.PodList
	var nodes corev1.NodeList
	var networks networkv1alpha1.NodeNetworkList
	for _, list := range []client.ObjectList{&pods, &nodes, &networks} {
		if err := api.List(ctx, list); apierrors.IsForbidden(err) {
			refused = append(refused, err)
		} else if err != nil {
			return nil, nil, err
		}
	}
	h = holders{}
	for i := range nodes.Items {
		for _, address := range nodes.Items[i].Status.Addresses {
			h.add(address.Address, "node "+nodes.Items[i].Name, time.Time{})
		}
	}
	for i := range networks.Items {
		for _, address := range networks.Items[i].Spec.ManagementPort.Addresses {
			if prefix, err := netip.ParsePrefix(string(address)); err == nil {
				h.add(prefix.Addr().String(), "node "+networks.Items[i].Name, time.Time{})
			}
		}
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed; ended || pod.Spec.HostNetwork {
			continue
		}
		for _, ip := range pod.Status.PodIPs {
			h.add(ip.IP, pod.Namespace+"/"+pod.Name, pod.CreationTimestamp.Time)
		}
	}
	return h, refused, nil
}

func (h holders) add(address, name string, since time.Time) {
	if a, err := netip.ParseAddr(address); err == nil { // a node's address may be a host name
		h[a] = holder{name, since}
	}
}

// at returns the holder of an address if it existed at that time. It returns "" if no current holder did.
func (h holders) at(address netip.Addr, when time.Time) string {
	if who, ok := h[address]; ok && !who.since.After(when) {
		return who.name
	}
	return ""
}

// line renders a decision for people.
func (d loggedDecision) line() string {
	names := map[netip.Addr]string{d.Source: d.SourceName, d.Destination: d.DestinationName}
	text := d.Text(func(a netip.Addr) string { return names[a] })
	return d.Time.UTC().Format(time.RFC3339) + " " + d.Node + " " + d.Severity + ": " + text
}
