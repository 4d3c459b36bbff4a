package alloc

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Owner is who has an address: the interface eth0 of a pod, "demo/web/<UID>", an attachment of a pod to a Network,
// "demo/web/<UID>/net1/<hash of its request>", or a reservation by its name. The UID makes another pod of the same name another owner,
// and the hash a changed request.
type Owner string

// PodOwner returns the owner of eth0's addresses.
func PodOwner(namespace, name, uid string) Owner { return join(namespace, name, uid) }

// AttachmentOwner returns the owner of the addresses of an attachment.
func AttachmentOwner(pod types.NamespacedName, uid, ifName, hash string) Owner {
	return join(pod.Namespace, pod.Name, uid, ifName, hash)
}

func join(parts ...string) Owner { return Owner(strings.Join(parts, "/")) }

// part returns a part of the owner, or "".
func (o Owner) part(i int) string {
	if parts := strings.Split(string(o), "/"); i < len(parts) {
		return parts[i]
	}
	return ""
}

// Pod returns the pod. It is empty for a reservation.
func (o Owner) Pod() types.NamespacedName {
	if strings.Count(string(o), "/") < 2 {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: o.part(0), Name: o.part(1)}
}

// UID returns the UID of the pod. It is empty for a reservation, and for a port whose UID another program has removed.
func (o Owner) UID() string { return o.part(2) }

// Interface returns the interface of an attachment, or "".
func (o Owner) Interface() string { return o.part(3) }

// Request returns the hash of an attachment's request, or "".
func (o Owner) Request() string { return o.part(4) }

// String names the owner in messages: "pod demo/web", or the reservation.
func (o Owner) String() string {
	if pod := o.Pod(); pod.Name != "" {
		return "pod " + pod.String()
	}
	return string(o)
}
