package histories

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam/reserved"
	"github.com/weft-network/weft/pkg/topology"
)

const (
	serviceCount = 4 // in each of two namespaces
	sliceCount   = 3 // names of slices for each service
)

func aService(r *rand.Rand) string {
	return fmt.Sprintf("%c/s%d", 'a'+rune(r.IntN(2)), r.IntN(serviceCount))
}

func aSlice(r *rand.Rand) string { return fmt.Sprintf("%s-%d", aService(r), r.IntN(sliceCount)) }

var serviceVariants = []string{"", "", "", "headless", "external-name", "dns", "affine", "external", "node-port",
	"local", "near", "idle", "thief", "contest"}

// serviceChoices are the steps of services. They are drawn separately, so that a seed keeps its meaning for pods and
// nodes.
var serviceChoices = []choice{
	{8, func(r *rand.Rand) Step {
		return Step{Do: "service", Name: aService(r), What: oneOf(r, serviceVariants...), N: 1 + r.IntN(200)}
	}},
	{3, func(r *rand.Rand) Step { return Step{Do: "delete-service", Name: aService(r)} }},
	{4, func(r *rand.Rand) Step {
		return Step{Do: "change-service", Name: aService(r), What: oneOf(r, serviceVariants...), N: 1 + r.IntN(200)}
	}},
	{10, func(r *rand.Rand) Step {
		return Step{Do: "slice", Name: aSlice(r), What: oneOf(r, "", "", "6", "unready", "ending"), N: r.IntN(4)}
	}},
	{3, func(r *rand.Rand) Step { return Step{Do: "delete-slice", Name: aSlice(r)} }},
	{1, func(r *rand.Rand) Step { return Step{Do: "move-slice", Name: aSlice(r), N: r.IntN(serviceCount)} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "delay", Name: oneOf(r, "services", "endpointslices")} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "deliver", Name: oneOf(r, "services", "endpointslices")} }},
	{1, func(r *rand.Rand) Step { return Step{Do: "lose", Name: oneOf(r, "services", "endpointslices")} }},
	{1, func(r *rand.Rand) Step { return Step{Do: "double", Name: oneOf(r, "services", "endpointslices")} }},
	{2, func(r *rand.Rand) Step {
		return Step{Do: "vandal", What: oneOf(r, "delete-balancer", "spoil-balancer"), N: r.IntN(100)}
	}},
}

// withServices inserts steps of services into two of three histories.
func withServices(p Plan) Plan {
	r := rand.New(rand.NewPCG(p.Seed, 1))
	if r.IntN(3) == 0 {
		return p
	}
	for range 4 + r.IntN(12) {
		p.Steps = slices.Insert(p.Steps, r.IntN(len(p.Steps)+1), draw(r, serviceChoices))
	}
	return p
}

// doService executes steps of users and of the controllers of EndpointSlices.
func (w *world) doService(ctx context.Context, s Step) (handled bool, err error) {
	key := podKey(s.Name)
	switch s.Do {
	case "service":
		return true, ignoreExists(w.api.Create(ctx, serviceOf(key, s)))
	case "delete-service":
		return true, client.IgnoreNotFound(w.api.Delete(ctx,
			&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}))
	case "change-service":
		service := &corev1.Service{}
		return true, change(ctx, w.api, key, service, func() {
			made := serviceOf(key, s)
			service.Spec, service.Annotations = made.Spec, made.Annotations
		})
	case "slice":
		slice := sliceOf(key, s)
		err := w.api.Create(ctx, slice)
		if !apierrors.IsAlreadyExists(err) {
			return true, err
		}
		have := &discoveryv1.EndpointSlice{}
		return true, change(ctx, w.api, key, have, func() { have.Endpoints = slice.Endpoints })
	case "delete-slice":
		return true, client.IgnoreNotFound(w.api.Delete(ctx,
			&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}))
	case "move-slice":
		slice, to := &discoveryv1.EndpointSlice{}, s.What
		if to == "" {
			to = fmt.Sprintf("s%d", s.N)
		}
		return true, change(ctx, w.api, key, slice, func() { slice.Labels[discoveryv1.LabelServiceName] = to })
	}
	return false, nil
}

// change patches an object if it exists.
func change(ctx context.Context, api client.Client, key types.NamespacedName, object client.Object, do func()) error {
	if err := api.Get(ctx, key, object); err != nil {
		return client.IgnoreNotFound(err)
	}
	before, _ := object.DeepCopyObject().(client.Object)
	do()
	return client.IgnoreNotFound(api.Patch(ctx, object, client.MergeFrom(before)))
}

// serviceOf derives a service's addresses from the step's number.
func serviceOf(key types.NamespacedName, s Step) *corev1.Service {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, ClusterIPs: []string{fmt.Sprintf("10.96.0.%d", s.N), fmt.Sprintf("fd00:10:96::%x", s.N)},
		Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}},
	}}
	spec := &service.Spec
	switch s.What {
	case "headless":
		spec.ClusterIPs = []string{corev1.ClusterIPNone}
	case "external-name":
		spec.Type, spec.ExternalName, spec.ClusterIPs, spec.Ports = corev1.ServiceTypeExternalName, "example.org", nil, nil
	case "dns":
		spec.Ports = append(spec.Ports, corev1.ServicePort{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP})
	case "affine":
		spec.SessionAffinity = corev1.ServiceAffinityClientIP
		if s.N%2 == 1 {
			spec.Type, spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, 30300+int32(s.N)
		}
		if s.N%4 == 1 {
			spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		}
	case "external":
		spec.ExternalIPs = []string{fmt.Sprintf("192.0.2.%d", s.N), fmt.Sprintf("2001:db8::%x", s.N)}
	case "node-port":
		spec.Type, spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, 30000+int32(s.N)
	case "local":
		local := corev1.ServiceInternalTrafficPolicyLocal
		spec.Type, spec.Ports[0].NodePort, spec.InternalTrafficPolicy = corev1.ServiceTypeLoadBalancer, 30000+int32(s.N), &local
		spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		spec.ExternalIPs = []string{fmt.Sprintf("192.0.2.%d", s.N)}
	case "thief": // a node's address, with kubelet's port and with a free port
		spec.ExternalIPs = []string{fmt.Sprintf("172.18.1.1%d", s.N%3), fmt.Sprintf("fd00:18::2:%d", s.N%3)}
		spec.Ports = append(spec.Ports, corev1.ServicePort{Name: "kubelet", Port: 10250, Protocol: corev1.ProtocolTCP})
		spec.Type, spec.Ports[1].NodePort = corev1.ServiceTypeNodePort, 10250
	case "contest": // the host port of a pod
		spec.Type, spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, 8000+int32('a')+int32(s.N%2)
	case "idle":
		service.Annotations = map[string]string{networkv1alpha1.IdleAnnotation: "true"}
	case "near":
		near := corev1.ServiceTrafficDistributionPreferSameNode
		spec.TrafficDistribution = &near
	}
	return service
}

// sliceOf returns a slice of the service that begins the slice's name.
func sliceOf(key types.NamespacedName, s Step) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{discoveryv1.LabelServiceName: key.Name[:len("s0")]}}}
	for i, name := range []string{"http", "dns"} {
		number, protocol := int32(8080+i), []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP}[i]
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &name, Port: &number, Protocol: &protocol})
	}
	yes, no := true, false
	for n := range s.N {
		node := fmt.Sprintf("n%d", n)
		endpoint := discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.244.0.%d", 3+n)}, NodeName: &node,
			Hints: &discoveryv1.EndpointHints{ForNodes: []discoveryv1.ForNode{{Name: node}}}}
		switch s.What {
		case "6":
			slice.AddressType, endpoint.Addresses = discoveryv1.AddressTypeIPv6, []string{fmt.Sprintf("fd00:10:244::%x", 3+n)}
		case "unready":
			endpoint.Conditions.Ready = &no
		case "ending":
			endpoint.Conditions = discoveryv1.EndpointConditions{Ready: &no, Serving: &yes, Terminating: &yes}
		}
		slice.Endpoints = append(slice.Endpoints, endpoint)
	}
	return slice
}

// expectServices expects the load balancers of each service.
func (o *oracle) expectServices() {
	for i := range o.services {
		service := &o.services[i]
		var endpoints []discoveryv1.EndpointSlice
		for _, slice := range o.slices {
			if slice.Namespace == service.Namespace && slice.Labels[discoveryv1.LabelServiceName] == service.Name {
				endpoints = append(endpoints, slice)
			}
		}
		parsed, problems := facts.ParseService(service, endpoints, o.serviceNodes(service))
		parsed.Turn, _ = facts.AffinityTurn(service, time.Now().UnixNano())
		for _, problem := range problems {
			o.complain("service %s/%s: %s", service.Namespace, service.Name, problem)
		}
		parsed.Refuse(service, o.reserved())
		parsed.YieldTo(service, func(a netip.Addr) string {
			if o.yields(service, a) {
				return "another object"
			}
			return ""
		})
		parsed.Yield(service, o.services)
		if u := topology.ServiceUnit(parsed); !u.Empty() {
			o.units = append(o.units, u)
		}
	}
}

// reserved returns the nodes' reserved destinations.
func (o *oracle) reserved() reserved.Table {
	table := reserved.Table{Ports: reserved.Defaults(), Nodes: map[netip.Addr]string{},
		Networks: o.asked.Reserved(), Services: o.asked.Services}
	for name, node := range o.nodes {
		for _, address := range facts.InternalIPs(node) {
			table.Nodes[address] = name
		}
	}
	for name, nn := range o.networks {
		for _, address := range facts.ReportedAddresses(nn) {
			table.Nodes[address] = name
		}
	}
	return table
}

// hostPortsOf returns the host ports that a pod gets.
func (o *oracle) hostPortsOf(pod *corev1.Pod) []facts.HostPort {
	ports, problems := facts.HostPorts(pod)
	for _, problem := range problems {
		o.complain("pod %s/%s: %s", pod.Namespace, pod.Name, problem)
	}
	services := map[string]string{}
	for i := range o.services {
		for _, port := range facts.NodePorts(&o.services[i]) {
			services[port] = o.services[i].Name
		}
	}
	kept, _ := facts.RefuseHostPorts(pod.Spec.NodeName, ports, o.reserved(), func(port facts.HostPort) string {
		holder := facts.NodePortHolder(port, services)
		for i := range o.pods {
			holder = cmp.Or(holder, facts.HostPortHolder(pod, &o.pods[i], port))
		}
		return holder
	})
	return kept
}

// serviceNodes returns the nodes' facts for a service.
func (o *oracle) serviceNodes(service *corev1.Service) []facts.ServiceNode {
	var nodes []corev1.Node
	var networks []networkv1alpha1.NodeNetwork
	for _, node := range o.nodes {
		nodes = append(nodes, *node)
	}
	for _, nn := range o.networks {
		if !o.elsewhere(nn.Name) {
			networks = append(networks, *nn)
		}
	}
	return facts.ServiceNodes(service, nodes, networks)
}

// vandaliseBalancer deletes a load balancer, or removes its backends.
func (w *world) vandaliseBalancer(what string, n int) error {
	id, _, ok := w.pick("Load_Balancer", n)
	if !ok {
		return nil
	}
	if what == "delete-balancer" {
		return w.mirror.transact(operation{"op": "delete", "table": "Load_Balancer", "where": where(id)})
	}
	return w.mirror.transact(operation{"op": "update", "table": "Load_Balancer", "where": where(id), "row": operation{"vips": ovsMap()}})
}
