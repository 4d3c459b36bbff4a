package cli

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/trace"
)

// anybody are the addresses of "outside", which no network uses (RFC 5737, RFC 3849).
var anybody = []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}

// ends reads the objects that a question names.
type ends struct {
	api       client.Client
	namespace string // of objects that name none
	world     trace.World
	networks  map[string]*networkv1alpha1.NodeNetwork
	// problems is the list in the ClusterNetwork's status.
	problems []networkv1alpha1.Problem
	// services are the service networks.
	services []netip.Prefix
	// zoned means that the cluster has zones.
	zoned bool
	// port and protocol select among services that share an address. They may be empty.
	port, protocol string
}

// readWorld reads the nodes, and the problems of the whole network.
func (e *ends) readWorld(ctx context.Context) error {
	var nodes corev1.NodeList
	var networks networkv1alpha1.NodeNetworkList
	if err := errors.Join(e.api.List(ctx, &nodes), e.api.List(ctx, &networks)); err != nil {
		return err
	}
	var cluster networkv1alpha1.ClusterNetwork
	name := client.ObjectKey{Name: networkv1alpha1.ClusterNetworkName}
	if err := e.api.Get(ctx, name, &cluster); client.IgnoreNotFound(err) != nil {
		return err
	}
	e.problems, e.zoned = cluster.Status.Problems, len(cluster.Spec.Zones) > 0
	for _, text := range cluster.ServiceNetworks() {
		if network, err := text.Prefix(); err == nil { // the ClusterNetwork's status names others
			e.services = append(e.services, network)
		}
	}
	e.world, e.networks = trace.World{}, map[string]*networkv1alpha1.NodeNetwork{}
	for i := range networks.Items {
		nn := &networks.Items[i]
		e.zoned = e.zoned || nn.Spec.Zone != "" // a zone that was removed has nodes until they have left
		at := slices.IndexFunc(nodes.Items, func(n corev1.Node) bool { return n.Name == nn.Name })
		if at < 0 {
			continue // being removed
		}
		gateway, err := facts.ParseGateway(nn, &nodes.Items[at])
		if e.networks[nn.Name] = nn; err == nil { // a node that is being set up lacks values
			e.world[nn.Name] = gateway
		}
	}
	return nil
}

// read returns the end that an argument names.
func (e *ends) read(ctx context.Context, text string) (trace.End, error) {
	if text == "outside" {
		return trace.OutsideEnd(anybody...), nil
	}
	if address, err := netip.ParseAddr(text); err == nil {
		return e.at(ctx, address)
	}
	parts := strings.Split(text, "/")
	switch kind := strings.ToLower(parts[0]); {
	case len(parts) == 2 && slices.Contains([]string{"node", "nodes", "no"}, kind):
		if _, ok := e.world[parts[1]]; !ok {
			return trace.End{}, fmt.Errorf("there is no node %s with a NodeNetwork", parts[1])
		}
		return trace.NodeEnd(parts[1], e.world), nil
	case len(parts) > 1 && slices.Contains([]string{"service", "services", "svc"}, kind):
		return e.service(ctx, e.key(parts[1:]))
	case len(parts) > 1 && slices.Contains([]string{"pod", "pods", "po"}, kind):
		return e.pod(ctx, e.key(parts[1:]))
	case len(parts) == 1 && strings.Contains(text, "."):
		return e.dns(ctx, text)
	case len(parts) <= 2 && !slices.Contains(parts, ""):
		return e.pod(ctx, e.key(parts))
	}
	return trace.End{}, fmt.Errorf("%q: want NAMESPACE/POD, svc/NAMESPACE/NAME, node/NAME, an address or outside", text)
}

func (e *ends) key(parts []string) client.ObjectKey {
	if len(parts) == 1 {
		return client.ObjectKey{Namespace: e.namespace, Name: parts[0]}
	}
	return client.ObjectKey{Namespace: parts[0], Name: strings.Join(parts[1:], "/")}
}

func (e *ends) pod(ctx context.Context, key client.ObjectKey) (trace.End, error) {
	var pod corev1.Pod
	if err := e.api.Get(ctx, key, &pod); client.IgnoreNotFound(err) != nil {
		return trace.End{}, err
	} else if err != nil {
		return trace.End{}, noPod(key)
	}
	return e.podEnd(ctx, &pod)
}

// podEnd returns a pod as an end, with its own routers.
func (e *ends) podEnd(ctx context.Context, pod *corev1.Pod) (end trace.End, err error) {
	end = trace.PodEnd(pod)
	end.Routers, err = e.routers(ctx, pod)
	return end, err
}

// routers returns the pod's own routers that its node reaches. A user who may not read ExternalRoutes or Namespaces gets
// none.
func (e *ends) routers(ctx context.Context, pod *corev1.Pod) (found []trace.Router, err error) {
	nn := e.networks[pod.Spec.NodeName]
	if nn == nil || pod.Spec.HostNetwork {
		return nil, nil
	}
	var routes networkv1alpha1.ExternalRouteList
	if err := e.api.List(ctx, &routes); apierrors.IsForbidden(err) || meta.IsNoMatchError(err) {
		return nil, nil
	} else if err != nil || len(routes.Items) == 0 {
		return nil, err
	}
	var namespace corev1.Namespace
	if err := e.api.Get(ctx, client.ObjectKey{Name: pod.Namespace}, &namespace); apierrors.IsForbidden(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	for i := range routes.Items {
		hops := facts.NextHopsOf(routes.Items[i:i+1], namespace.Labels, pod.Labels)
		for _, hop := range facts.Reachable(hops, nn) {
			found = append(found, trace.Router{NextHop: hop, Route: routes.Items[i].Name})
		}
	}
	return found, nil
}

func (e *ends) service(ctx context.Context, key client.ObjectKey) (trace.End, error) {
	var service corev1.Service
	if err := e.api.Get(ctx, key, &service); client.IgnoreNotFound(err) != nil {
		return trace.End{}, err
	} else if err != nil {
		return trace.End{}, fmt.Errorf("there is no service %s", key)
	}
	return e.balanced(ctx, &service)
}

func (e *ends) balanced(ctx context.Context, service *corev1.Service) (trace.End, error) {
	var slices discoveryv1.EndpointSliceList
	err := e.api.List(ctx, &slices, client.InNamespace(service.Namespace),
		client.MatchingLabels{discoveryv1.LabelServiceName: service.Name})
	if err != nil {
		return trace.End{}, err
	}
	end, err := trace.ServiceEnd(service, slices.Items, e.world)
	if err != nil {
		return end, err
	}
	for address, endpoint := range end.Balanced.Pods {
		node, onNode := e.nodeOf(address)
		if endpoint.Pod != "" || !onNode {
			continue
		}
		pod, err := e.podWith(ctx, node, address) // of an EndpointSlice that a person wrote
		if err != nil {
			return end, err
		}
		endpoint.Namespace, endpoint.Pod, endpoint.Node = pod.Namespace, pod.Name, node
		end.Balanced.Pods[address] = endpoint
	}
	return end, nil
}

// nodeOf returns the node in whose subnets of the cluster network an address is.
func (e *ends) nodeOf(address netip.Addr) (node string, ok bool) {
	for name, n := range e.world {
		if slices.ContainsFunc(n.Node.Subnets, func(s netip.Prefix) bool { return s.Contains(address) }) {
			return name, true
		}
	}
	return "", false
}

// serviceParts is the number of labels of a service's name up to "svc": NAME.NAMESPACE.svc.
const serviceParts = 3

// dns returns the service that a name of the cluster's DNS belongs to. Other names are resolved by name servers that
// this program does not see as pods do.
func (e *ends) dns(ctx context.Context, name string) (trace.End, error) {
	parts := strings.Split(strings.TrimSuffix(name, "."), ".")
	if len(parts) < serviceParts || parts[2] != "svc" {
		return trace.End{}, fmt.Errorf("%q is no name of a service (NAME.NAMESPACE.svc): resolve it in the pod, and ask about the address", name)
	}
	return e.service(ctx, client.ObjectKey{Namespace: parts[1], Name: parts[0]})
}

// at returns who has an address.
func (e *ends) at(ctx context.Context, address netip.Addr) (trace.End, error) {
	for name, n := range e.world {
		if slices.Contains(n.HostAddresses, address) || slices.Contains(n.OtherAddresses, address) {
			return trace.NodeEnd(name, e.world).At(address), nil
		}
	}
	if node, ok := e.nodeOf(address); ok {
		return e.podWith(ctx, node, address)
	}
	has := func(s *corev1.Service) bool { return slices.Contains(addressesOf(s), address.String()) }
	found, err := e.serviceWith(ctx, func(s *corev1.Service) bool { return has(s) && e.hasPort(s) })
	if err == nil && found == nil {
		found, err = e.serviceWith(ctx, has)
	}
	switch {
	case err != nil:
		return trace.End{}, err
	case found != nil:
		end, err := e.balanced(ctx, found)
		return end.At(address), err
	case slices.ContainsFunc(e.services, func(p netip.Prefix) bool { return p.Contains(address) }):
		return trace.UnusedEnd(address), nil
	}
	return trace.OutsideEnd(address), nil
}

// hasPort reports whether a service has the port of the question.
func (e *ends) hasPort(s *corev1.Service) bool {
	return slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool {
		return strconv.Itoa(int(p.Port)) == e.port && strings.EqualFold(string(p.Protocol), e.protocol)
	})
}

// podWith returns the pod of a node that has an address. Without such a pod, the end is the address alone.
func (e *ends) podWith(ctx context.Context, node string, address netip.Addr) (trace.End, error) {
	var pods corev1.PodList
	if err := e.api.List(ctx, &pods, client.MatchingFields{"spec.nodeName": node}); err != nil {
		return trace.End{}, err
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		if !ended && slices.ContainsFunc(p.Status.PodIPs, func(ip corev1.PodIP) bool { return ip.IP == address.String() }) {
			return e.podEnd(ctx, p)
		}
	}
	return trace.OutsideEnd(address), nil
}

// addressesOf returns the addresses of a service.
func addressesOf(s *corev1.Service) []string {
	all := slices.Concat(s.Spec.ClusterIPs, s.Spec.ExternalIPs)
	for _, ingress := range s.Status.LoadBalancer.Ingress {
		all = append(all, ingress.IP)
	}
	return all
}

// serviceWith returns the first service for which is returns true, or nil.
func (e *ends) serviceWith(ctx context.Context, is func(*corev1.Service) bool) (*corev1.Service, error) {
	var services corev1.ServiceList
	if err := e.api.List(ctx, &services); err != nil {
		return nil, err
	}
	for i := range services.Items {
		if is(&services.Items[i]) {
			return &services.Items[i], nil
		}
	}
	return nil, nil
}

// nodePort completes a question about a node with the service whose node port it is about, or with the pod whose host port it is.
func (e *ends) nodePort(ctx context.Context, q *trace.Question) error {
	found, err := e.serviceWith(ctx, func(s *corev1.Service) bool {
		return slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool {
			return uint16(p.NodePort) == q.Port && q.Port != 0 && strings.EqualFold(string(p.Protocol), string(q.Protocol))
		})
	})
	if err != nil {
		return err
	}
	if found != nil {
		service, err := e.balanced(ctx, found)
		q.To = q.To.NodePort(service.Balanced)
		return err
	}
	var pods corev1.PodList
	if err := e.api.List(ctx, &pods, client.MatchingFields{"spec.nodeName": q.To.Name}); err != nil {
		return err
	}
	if pod, port := q.HostPort(pods.Items); pod != nil {
		q.To = q.To.HostPort(pod, port)
	}
	return nil
}

// portNumber returns the port of a flag: a number, or the only one of a service if the flag is empty.
func portNumber(text string, to trace.End, protocol trace.Protocol) (uint16, error) {
	if text != "" {
		number, err := strconv.ParseUint(text, 10, 16)
		if err != nil || number == 0 {
			return 0, fmt.Errorf("--port %q: want a number from 1 to 65535", text)
		}
		return uint16(number), nil
	}
	if protocol == trace.ICMP {
		return 0, nil
	}
	var all []string
	if to.Balanced != nil {
		for _, p := range to.Balanced.Ports {
			if strings.EqualFold(string(p.Protocol), string(protocol)) {
				all = append(all, strconv.Itoa(int(p.Number)))
			}
		}
	}
	if len(all) != 1 {
		return 0, fmt.Errorf("--port is required: %s", map[bool]string{true: "the destination has no single " + protocol.Text() + " port",
			false: to.Text("") + " has ports " + strings.Join(all, ", ")}[len(all) == 0])
	}
	return portNumber(all[0], to, protocol)
}
