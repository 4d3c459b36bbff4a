package networks

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	nadutils "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/utils"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Annotation is the annotation of a pod that requests networks.
const Annotation = nadv1.NetworkAttachmentAnnot

// hashLength is the number of hexadecimal digits of a hash: 64 bits.
const hashLength = 16

// Request is one element of a pod's annotation, validated.
type Request struct {
	// Element is the element as the pod's author wrote it, with its namespace filled in.
	Element nadv1.NetworkSelectionElement
	// Interface is the name of the link in the pod: the requested name, or net1, net2, ... by the element's position.
	Interface string
	// Addresses are the requested addresses. A request without a prefix length has that of a host.
	Addresses []netip.Prefix
	// MAC is the requested MAC; nil if none is requested.
	MAC net.HardwareAddr
	// DefaultRoute are the requested next hops of the pod's default routes, at most one per family.
	DefaultRoute []netip.Addr
}

// Definition returns the name of the NetworkAttachmentDefinition.
func (r Request) Definition() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Element.Namespace, Name: r.Element.Name}
}

// String names the element for events and errors: "demo/blue@net1".
func (r Request) String() string { return r.Definition().String() + "@" + r.Interface }

// Hash changes with whatever is requested of the attachment, so that two requests with the same hash need no
// replacement.
func (r Request) Hash() string {
	element := r.Element
	element.InterfaceRequest = r.Interface
	text, err := json.Marshal(element)
	if err != nil {
		return "" // a decoded element can be encoded
	}
	return hash(string(text))
}

// Generation returns a short text that changes with the annotations Annotation and DefaultAnnotation; empty without
// them. It is the value that the operator puts into the pod's port, so that the pod's node notices a change without
// watching pods.
func Generation(annotations map[string]string) string {
	switch further, main := annotations[Annotation], annotations[DefaultAnnotation]; {
	case main != "":
		return hash(further + "\x00" + main)
	case further != "":
		return hash(further)
	}
	return ""
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:hashLength]
}

// Parse reads a pod's annotation; without one it returns nothing. namespace is the pod's. The error names the element
// that cannot be honoured, and why; then none is.
func Parse(annotations map[string]string, namespace string) ([]Request, error) {
	text := strings.TrimSpace(annotations[Annotation])
	if text == "" {
		return nil, nil
	}
	elements, err := parseElements(text, namespace)
	if err != nil {
		return nil, fmt.Errorf("annotation %s: %w", Annotation, err)
	}
	requests := make([]Request, 0, len(elements))
	interfaces := map[string]string{networkv1alpha1.DefaultInterfaceName: "the cluster network", "lo": "the loopback"}
	for i, element := range elements {
		r, err := parseElement(element, i)
		if err != nil {
			return nil, fmt.Errorf("annotation %s: element %d %q: %w", Annotation, i, element.Namespace+"/"+element.Name, err)
		}
		if other, taken := interfaces[r.Interface]; taken {
			return nil, fmt.Errorf("annotation %s: element %d %q: interface %s is already of %s", Annotation, i,
				r.Definition(), r.Interface, other)
		}
		interfaces[r.Interface] = r.Definition().String()
		requests = append(requests, r)
	}
	return requests, oneDefaultRoute(requests)
}

// parseElements reads either form of the annotation, and fills in the namespace. The library's function panics on a
// null element.
func parseElements(text, namespace string) (elements []nadv1.NetworkSelectionElement, err error) {
	if strings.ContainsAny(text, "[{\"") {
		var pointers []*nadv1.NetworkSelectionElement
		if err := json.Unmarshal([]byte(text), &pointers); err != nil {
			return nil, err
		}
		if i := slices.Index(pointers, nil); i >= 0 {
			return nil, fmt.Errorf("element %d is null", i)
		}
	}
	if text == "[]" {
		return nil, nil
	}
	parsed, err := nadutils.ParseNetworkAnnotation(text, "")
	if err != nil {
		return nil, err
	}
	for _, element := range parsed {
		if element.Namespace == "" {
			if slices.Contains(galaxyNetworks, element.Name) {
				continue
			}
			element.Namespace = namespace
		}
		elements = append(elements, *element)
	}
	return elements, nil
}

// galaxyNetworks are the names of TKEStack Galaxy's networks. Without a namespace they mean the cluster network, where
// a pod gets its address from an IPPool if it requests one. With a namespace they are ordinary names.
var galaxyNetworks = []string{
	"galaxy-bridge", "galaxy-flannel", "galaxy-k8s-pure", "galaxy-k8s-sriov", "galaxy-k8s-vlan", "galaxy-underlay-veth",
	"galaxy-veth", "tke-route-eni",
}

// oneDefaultRoute returns an error if several elements request a default route of a family.
func oneDefaultRoute(requests []Request) error {
	by := map[bool]string{} // is IPv4 -> element
	for _, r := range requests {
		for _, gateway := range r.DefaultRoute {
			if other, taken := by[gateway.Is4()]; taken {
				return fmt.Errorf("annotation %s: element %q: default-route %s: %s requests a default route of the family too",
					Annotation, r, gateway, other)
			}
			by[gateway.Is4()] = r.String()
		}
	}
	return nil
}

func parseElement(element nadv1.NetworkSelectionElement, position int) (Request, error) {
	r := Request{Element: element, Interface: element.InterfaceRequest}
	if r.Interface == "" {
		r.Interface = fmt.Sprintf("net%d", position+1)
	}
	for field, value := range map[string]string{"name": element.Name, "namespace": element.Namespace} {
		if problems := validation.IsDNS1123Subdomain(value); len(problems) > 0 {
			return r, fmt.Errorf("%s %q: %s", field, value, problems[0])
		}
	}
	if err := checkInterface(r.Interface); err != nil {
		return r, err
	}
	if element.MacRequest != "" {
		mac, err := net.ParseMAC(element.MacRequest)
		if err != nil || len(mac) != ethernet || mac[0]&1 != 0 {
			return r, fmt.Errorf("mac %q is not an Ethernet address of a single interface", element.MacRequest)
		}
		r.MAC = mac
	}
	for _, text := range element.IPRequest {
		address, err := ParseAddress(text)
		if err != nil {
			return r, fmt.Errorf("ips: %w", err)
		}
		r.Addresses = append(r.Addresses, address)
	}
	return r, r.parseRest()
}

// ethernet is the length of a MAC in bytes.
const ethernet = 6

// parseRest reads what few pods request.
func (r *Request) parseRest() error {
	for _, ip := range r.Element.GatewayRequest {
		gateway, ok := netip.AddrFromSlice(ip)
		if !ok {
			return fmt.Errorf("default-route %q is not an IP address", ip)
		}
		r.DefaultRoute = append(r.DefaultRoute, gateway.Unmap())
	}
	if b := r.Element.BandwidthRequest; b != nil && (b.IngressRate < 0 || b.EgressRate < 0 || b.IngressBurst < 0 || b.EgressBurst < 0) {
		return fmt.Errorf("bandwidth %+v has a negative limit", *b)
	}
	for _, m := range r.Element.PortMappingsRequest {
		const ports = 1 << 16
		if m == nil || m.HostPort <= 0 || m.HostPort >= ports || m.ContainerPort <= 0 || m.ContainerPort >= ports {
			return fmt.Errorf("portMappings: a hostPort or containerPort is not within 1..65535")
		}
	}
	return nil
}

// ParseAddress reads an IP address with or without a prefix length. Without one, the length is that of a host.
func ParseAddress(text string) (netip.Prefix, error) {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return prefix, nil
	}
	address, err := netip.ParseAddr(text)
	if err != nil || address.Zone() != "" {
		return netip.Prefix{}, fmt.Errorf("%q is not an IP address, with or without a prefix length", text)
	}
	return netip.PrefixFrom(address, address.BitLen()), nil
}

// reservedNames are names of other files in the kernel's folders of links, /proc/sys/net/ipv4/conf and /sys/class/net.
var reservedNames = []string{"all", "default", "bonding_masters"}

// checkInterface returns why the kernel would refuse a name of a link, or why tools could not name it.
func checkInterface(name string) error {
	const longest = 15
	odd := func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("/:%", r) }
	switch {
	case len(name) > longest:
		return fmt.Errorf("interface %q is longer than %d characters", name, longest)
	case name == "." || name == ".." || strings.ContainsFunc(name, odd):
		return fmt.Errorf("interface %q is not a name of a link", name)
	case slices.Contains(reservedNames, name):
		return fmt.Errorf("interface %q is a name that the kernel reserves", name)
	}
	return nil
}
