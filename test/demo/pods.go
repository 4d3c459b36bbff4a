package demo

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Pod is a pod of the demo that is ready for calls.
type Pod struct {
	Name, Node string
	Addresses  []netip.Addr
}

// Family is the name of an address family.
type Family string

// Values of Family.
const (
	IPv4 Family = "IPv4"
	IPv6 Family = "IPv6"
)

var families = [...]Family{IPv4, IPv6} // the lab is dual stack

// address returns the pod's address of a family; the zero value if it has none.
func (p Pod) address(f Family) netip.Addr {
	for _, a := range p.Addresses {
		if a.Is4() == (f == IPv4) {
			return a
		}
	}
	return netip.Addr{}
}

func (d *demo) pods(ctx context.Context) ([]Pod, error) {
	text, err := d.Cluster.Kubectl(ctx, "-n", Namespace, "get", "pods", "-o", "json")
	if err != nil {
		return nil, err
	}
	pods, err := parsePods(text)
	if err != nil {
		return nil, err
	}
	if len(pods) < 2 {
		return nil, fmt.Errorf("namespace %s: %d pods are ready, too few to reach each other", Namespace, len(pods))
	}
	return pods, nil
}

// parsePods sorts the pods by node, so that neighbours in a table are neighbours in the network.
func parsePods(text []byte) ([]Pod, error) {
	var list corev1.PodList
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("pods: %w", err)
	}
	var pods []Pod
	for _, item := range list.Items {
		if item.DeletionTimestamp != nil || !ready(item) { // left over from an earlier run or rollout
			continue
		}
		pod := Pod{Name: item.Name, Node: item.Spec.NodeName}
		for _, ip := range item.Status.PodIPs {
			address, err := netip.ParseAddr(ip.IP)
			if err != nil {
				return nil, fmt.Errorf("pod %s: %w", item.Name, err)
			}
			pod.Addresses = append(pod.Addresses, address)
		}
		pods = append(pods, pod)
	}
	slices.SortFunc(pods, func(a, b Pod) int { return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Name, b.Name)) })
	return pods, nil
}

func ready(pod corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
