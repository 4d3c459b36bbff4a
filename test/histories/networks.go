package histories

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
)

// podNetworks and definitions are the resources of Networks and of NetworkAttachmentDefinitions.
const (
	podNetworks = "networks"
	definitions = "network-attachment-definitions"
)

func aNetwork(r *rand.Rand) string { return fmt.Sprintf("x%d", r.IntN(3)) }

func aDefinition(r *rand.Rand) string { return oneOf(r, "a", "b") + "/" + aNetwork(r) }

// aRequest draws a number from which requestsOf derives an annotation.
func aRequest(r *rand.Rand) int { return r.IntN(10_000) }

// networkVariants are the specs of Networks. The first are small, one overlaps the pods of the cluster, and the last
// contradicts itself.
var networkVariants = map[string]networkv1alpha1.NetworkSpec{
	"tiny":        layer2("10.100.0.0/29"),
	"flat":        layer2("10.100.0.0/24"),
	"dual":        layer2("10.244.0.0/24", "fd00:100::/64"),
	"six":         layer2("fd00:100::/120"),
	"bare":        layer2(),
	"routed":      layer3(subnetOf("10.100.0.0/16", 24)),
	"routed-dual": layer3(subnetOf("10.100.0.0/22", 24), subnetOf("fd00:100::/48", 64)),
	"narrow":      layer3(subnetOf("10.100.0.0/28", 29)),
	"wrong":       layer2("10.100.0.0/24"),
}

var networkNames = []string{"tiny", "tiny", "flat", "dual", "dual", "six", "bare", "routed", "routed", "routed-dual", "narrow", "wrong"}

func layer2(cidrs ...networkv1alpha1.CIDR) networkv1alpha1.NetworkSpec {
	spec := networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLayer2, IPAM: networkv1alpha1.IPAMWeft}
	for _, cidr := range cidrs {
		spec.Subnets = append(spec.Subnets, subnetOf(cidr, 0))
	}
	if len(cidrs) == 0 {
		spec.IPAM = networkv1alpha1.IPAMNone
	}
	return spec
}

func layer3(subnets ...networkv1alpha1.NetworkSubnet) networkv1alpha1.NetworkSpec {
	return networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLayer3, IPAM: networkv1alpha1.IPAMWeft, Subnets: subnets}
}

func subnetOf(cidr networkv1alpha1.CIDR, hostPrefix int32) networkv1alpha1.NetworkSubnet {
	return networkv1alpha1.NetworkSubnet{CIDR: cidr, HostPrefix: hostPrefix}
}

// networkChoices are the steps of Networks, drawn separately from the others.
var networkChoices = []choice{
	{10, func(r *rand.Rand) Step {
		return Step{Do: "podnetwork", Name: aNetwork(r), What: oneOf(r, networkNames...), N: r.IntN(100)}
	}},
	{2, func(r *rand.Rand) Step { return Step{Do: "delete-podnetwork", Name: aNetwork(r)} }},
	{5, func(r *rand.Rand) Step {
		return Step{Do: "change-podnetwork", Name: aNetwork(r), N: r.IntN(100),
			What: oneOf(r, "exclude", "exclude", "wrong", "mtu", "namespaces", "grow", "grow")}
	}},
	{2, func(r *rand.Rand) Step {
		return Step{Do: "net-namespace", Name: oneOf(r, "a", "b"), What: oneOf(r, "yes", "yes", "no")}
	}},
	{14, func(r *rand.Rand) Step { return Step{Do: "requester", Name: aPod(r), Node: aNode(r), N: aRequest(r)} }},
	{4, func(r *rand.Rand) Step {
		return Step{Do: "renew-requester", Name: aPod(r), Node: aNode(r), N: aRequest(r)}
	}},
	{12, func(r *rand.Rand) Step { return Step{Do: "request", Name: aPod(r), N: aRequest(r)} }},
	{3, func(r *rand.Rand) Step { return Step{Do: "delete-definition", Name: aDefinition(r)} }},
	{2, func(r *rand.Rand) Step {
		return Step{Do: "definition", Name: aDefinition(r), What: oneOf(r, foreignDefinitions...), N: r.IntN(3)}
	}},
	{3, func(r *rand.Rand) Step {
		return Step{Do: "change-definition", Name: aDefinition(r), What: oneOf(r, foreignDefinitions...), N: r.IntN(3)}
	}},
	{4, func(r *rand.Rand) Step { return Step{Do: "delay", Name: oneOf(r, podNetworks, definitions, "pods")} }},
	{3, func(r *rand.Rand) Step { return Step{Do: "deliver", Name: oneOf(r, podNetworks, definitions, "pods")} }},
	{1, func(r *rand.Rand) Step { return Step{Do: "lose", Name: oneOf(r, podNetworks, definitions)} }},
	{1, func(r *rand.Rand) Step { return Step{Do: "double", Name: oneOf(r, podNetworks, definitions)} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "wire", What: oneOf(r, wireFaults...), N: r.IntN(3)} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "crash"} }},
	{3, func(r *rand.Rand) Step { return Step{Do: "wait", N: 1 + r.IntN(6)} }},
}

// withNetworks inserts steps of Networks into three of four histories. Half of these have the Networks from their start.
func withNetworks(p Plan) Plan {
	r := rand.New(rand.NewPCG(p.Seed, 9))
	if r.IntN(4) == 0 {
		return p
	}
	if r.IntN(2) == 0 {
		for i := range 1 + r.IntN(3) {
			first := Step{Do: "podnetwork", Name: fmt.Sprintf("x%d", i), What: oneOf(r, networkNames...), N: r.IntN(100)}
			p.Steps = slices.Insert(p.Steps, 0, first)
		}
	}
	return sprinkled(p, r, 8+r.IntN(24), networkChoices)
}

// doPodNetwork executes steps of Networks, of their definitions and of the pods that request them.
func (w *world) doPodNetwork(ctx context.Context, s Step) (handled bool, err error) {
	switch s.Do {
	case "podnetwork":
		return true, ignoreRefused(s, ignoreExists(w.createPodNetwork(ctx, s)))
	case "delete-podnetwork":
		return true, client.IgnoreNotFound(w.api.Delete(ctx, &networkv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Name: s.Name}}))
	case "change-podnetwork":
		n := &networkv1alpha1.Network{}
		return true, ignoreRefused(s, change(ctx, w.api, types.NamespacedName{Name: s.Name}, n, func() { changeSpec(&n.Spec, s) }))
	case "net-namespace":
		s.Name = "/" + s.Name
		return true, w.tag(ctx, s, &corev1.Namespace{}, "net")
	case "requester", "renew-requester":
		if s.Do == "renew-requester" {
			err = w.deletePod(ctx, s.Name)
		}
		return true, errors.Join(err, w.createRequester(ctx, s))
	case "request":
		return true, w.changePod(ctx, s.Name, false, func(pod *corev1.Pod) { request(pod, s.N) })
	}
	return w.doDefinition(ctx, s)
}

func (w *world) createPodNetwork(ctx context.Context, s Step) error {
	n := podNetworkOf(s)
	if err := w.api.Create(ctx, n); err != nil {
		return err
	}
	w.overlaid[n.Name] = w.overlaid[n.Name] || n.Spec.Topology != networkv1alpha1.TopologyLocalnet
	return nil
}

// noteSelected records which namespaces the Networks select now.
func (w *world) noteSelected(ctx context.Context) error {
	var all networkv1alpha1.NetworkList
	var namespaces corev1.NamespaceList
	if err := w.api.List(ctx, &all); err != nil || len(all.Items) == 0 {
		return err
	}
	if err := w.api.List(ctx, &namespaces); err != nil {
		return err
	}
	for _, n := range all.Items {
		selector, err := metav1.LabelSelectorAsSelector(n.Spec.Namespaces)
		for i := range namespaces.Items {
			if namespace := &namespaces.Items[i]; err == nil && selector.Matches(labels.Set(namespace.Labels)) {
				w.everSelected[n.Name+"/"+namespace.Name] = true
			}
		}
	}
	return nil
}

// reportNetworks writes network-status, as a node's agent does: what the ports of a pod have.
func reportNetworks(rows database, pod *corev1.Pod) {
	requests, err := networks.Parse(pod.Annotations, pod.Namespace)
	if err != nil || len(requests) == 0 {
		return
	}
	on, all := &oracle{rows: rows}, []nadv1.NetworkStatus{}
	for network := range networksOfPorts(rows) {
		for _, request := range requests {
			r := on.portOf(attachment{pod: pod, request: request}, network)
			if r == nil {
				continue
			}
			status := nadv1.NetworkStatus{Name: request.Definition().String(), Interface: request.Interface, IPs: networkAddresses(r)}
			mac, _, _ := strings.Cut(atoms(r["addresses"])[0], " ")
			status.Mac = mac
			all = append(all, status)
		}
	}
	text, _ := json.Marshal(all)
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, nadv1.NetworkStatusAnnot, string(text))
}

// networksOfPorts returns the names of the Networks that have ports.
func networksOfPorts(rows database) map[string]bool {
	found := map[string]bool{}
	for _, r := range rows["Logical_Switch_Port"] {
		if network := mapOf(r["external_ids"])[ovnexpr.NetworkKey]; network != "" {
			found[network] = true
		}
	}
	return found
}

func (w *world) createRequester(ctx context.Context, s Step) error {
	key := podKey(s.Name)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Spec: corev1.PodSpec{NodeName: s.Node, Containers: []corev1.Container{{Name: "c", Image: "none"}}}}
	request(pod, s.N)
	return ignoreExists(w.api.Create(ctx, pod))
}

// attach creates a pod that requests exactly what a step says.
func (w *world) attach(ctx context.Context, s Step) error {
	key := podKey(s.Name)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name,
		Annotations: map[string]string{networks.Annotation: s.What}},
		Spec: corev1.PodSpec{NodeName: s.Node, Containers: []corev1.Container{{Name: "c", Image: "none"}}}}
	return ignoreExists(w.api.Create(ctx, pod))
}

// ignoreRefused ignores that a real API server refuses an invalid Network, which a definition without CEL rules let through.
func ignoreRefused(s Step, err error) error {
	if s.What == "wrong" && apierrors.IsInvalid(err) {
		return nil
	}
	return err
}

// podNetworkOf returns the Network of a step. Its number selects namespaces and excluded addresses.
func podNetworkOf(s Step) *networkv1alpha1.Network {
	n := &networkv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Name: s.Name}}
	spec, ok := networkVariants[s.What]
	if !ok {
		spec = segments[s.What]
	}
	n.Spec = *spec.DeepCopy()
	n.Spec.Role, n.Spec.Namespaces = networkv1alpha1.RoleSecondary, namespacesOf(s.N)
	changeSpec(&n.Spec, Step{What: "exclude", N: s.N / 10})
	if s.What == "wrong" {
		changeSpec(&n.Spec, Step{What: "wrong"})
	}
	return n
}

// namespacesOf returns a selector: all namespaces for most numbers, labelled ones, or none.
func namespacesOf(n int) *metav1.LabelSelector {
	switch n % 6 {
	case 4:
		return &metav1.LabelSelector{MatchLabels: map[string]string{"net": "yes"}}
	case 5:
		return nil
	}
	return &metav1.LabelSelector{}
}

// changeSpec changes what the API server lets an administrator change.
func changeSpec(spec *networkv1alpha1.NetworkSpec, s Step) {
	switch s.What {
	case "exclude":
		spec.ExcludeSubnets = nil
		for _, subnet := range spec.Subnets[:min(len(spec.Subnets), s.N%3)] {
			spec.ExcludeSubnets = append(spec.ExcludeSubnets, excludedIn(subnet, s.N))
		}
	case "wrong":
		spec.ExcludeSubnets = []networkv1alpha1.CIDR{"192.0.2.0/24"}
	case "vlan":
		if spec.Topology == networkv1alpha1.TopologyLocalnet {
			spec.VLAN = []int32{0, 100, 300}[s.N%3]
		}
	case "mtu":
		spec.MTU = []int32{0, 1300, 1400}[s.N%3]
	case "namespaces":
		spec.Namespaces = namespacesOf(s.N)
	case "grow":
		grow(spec)
	}
}

// excludedIn returns one or four addresses near the start of a subnet.
func excludedIn(subnet networkv1alpha1.NetworkSubnet, n int) networkv1alpha1.CIDR {
	cidr, _ := subnet.CIDR.Prefix()
	at := cidr.Addr()
	for range n % 6 {
		at = at.Next()
	}
	excluded := netip.PrefixFrom(at, cidr.Addr().BitLen()-2*(n%2)).Masked()
	return networkv1alpha1.CIDR(excluded.String())
}

// grow gives a Network of one family the other one.
func grow(spec *networkv1alpha1.NetworkSpec) {
	if len(spec.Subnets) != 1 {
		return
	}
	second := map[networkv1alpha1.NetworkTopology][2]networkv1alpha1.NetworkSubnet{
		networkv1alpha1.TopologyLayer2:   {subnetOf("fd00:1ff::/64", 0), subnetOf("10.103.0.0/24", 0)},
		networkv1alpha1.TopologyLayer3:   {subnetOf("fd00:1ff::/48", 64), subnetOf("10.103.0.0/16", 24)},
		networkv1alpha1.TopologyLocalnet: {subnetOf("fd00:1ff::/64", 0), subnetOf("10.103.0.0/24", 0)},
	}[spec.Topology]
	if cidr, _ := spec.Subnets[0].CIDR.Prefix(); cidr.Addr().Is4() {
		spec.Subnets = append(spec.Subnets, second[0])
	} else {
		spec.Subnets = append(spec.Subnets, second[1])
	}
}

// foreignDefinitions are configurations by other authors: of another plugin, of a Network, malformed, or none.
var foreignDefinitions = []string{"macvlan", "weft", "malformed", "empty"}

func configOf(s Step) string {
	switch s.What {
	case "macvlan":
		return `{"cniVersion":"1.0.0","type":"macvlan"}`
	case "weft":
		return networks.ConfigOf(fmt.Sprintf("x%d", s.N))
	case "malformed":
		return `{"type":`
	}
	return ""
}

// doDefinition executes what users do to NetworkAttachmentDefinitions. An operator restores its own.
func (w *world) doDefinition(ctx context.Context, s Step) (handled bool, err error) {
	key := podKey(s.Name)
	definition := &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	switch s.Do {
	case "definition":
		definition.Spec.Config = configOf(s)
		return true, ignoreExists(w.api.Create(ctx, definition))
	case "delete-definition":
		return true, client.IgnoreNotFound(w.api.Delete(ctx, definition))
	case "change-definition":
		return true, change(ctx, w.api, key, definition, func() { definition.Spec.Config = configOf(s) })
	}
	return false, nil
}

// collectDefinitions deletes definitions whose Network is gone, as the garbage collector does.
func (w *world) collectDefinitions(ctx context.Context) error {
	var all nadv1.NetworkAttachmentDefinitionList
	var present networkv1alpha1.NetworkList
	if err := errors.Join(w.api.List(ctx, &all), w.api.List(ctx, &present)); err != nil {
		return err
	}
	alive := map[types.UID]bool{}
	for i := range present.Items {
		alive[present.Items[i].UID] = true
	}
	for i := range all.Items {
		nad := &all.Items[i]
		if owner := metav1.GetControllerOf(nad); owner != nil && !alive[owner.UID] {
			err := w.api.Delete(ctx, nad, client.Preconditions{UID: &nad.UID})
			if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
				return err
			}
		}
	}
	return nil
}

// request makes a pod request what a number says.
func request(pod *corev1.Pod, n int) {
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	if pod.Annotations[networks.Annotation] = requestsOf(n); requestsOf(n) == "" {
		delete(pod.Annotations, networks.Annotation)
	}
}

// badRequests are annotations that cannot be honoured as a whole.
var badRequests = []string{"x0@eth0", "x0@net2,x1", "[null]", `[{"name":"x0"`, `[{"name":"x0","mac":"zz"}]`,
	"x0@an-interface-with-a-long-name"}

// requestsOf derives the annotation of a pod from a number: none, a bad one, names, or JSON.
func requestsOf(n int) string {
	r := rand.New(rand.NewPCG(uint64(n), 10))
	switch kind := r.IntN(12); {
	case kind < 2:
		return ""
	case kind == 2:
		return oneOf(r, badRequests...)
	case kind < 7:
		return namesOf(r)
	}
	var elements []map[string]any
	for range 1 + r.IntN(3) {
		elements = append(elements, elementOf(r))
	}
	text, _ := json.Marshal(elements) // maps of texts can be encoded
	return string(text)
}

// namesOf returns the annotation's short form.
func namesOf(r *rand.Rand) (text string) {
	for i := range 1 + r.IntN(3) {
		if i > 0 {
			text += ","
		}
		text += oneOf(r, "", "", "", "a/", "b/") + aNetwork(r)
		if r.IntN(3) == 0 {
			text += fmt.Sprintf("@data%d", i)
		}
	}
	return text
}

// elementOf returns an element of the annotation's JSON form, with up to two of what can be requested.
func elementOf(r *rand.Rand) map[string]any {
	element := map[string]any{"name": aNetwork(r)}
	for range r.IntN(3) {
		switch r.IntN(8) {
		case 0, 1:
			element["ips"] = []string{fmt.Sprintf(oneOf(r, "10.100.0.%d", "10.100.0.%d", "10.100.1.%d", "10.244.0.%d"), 1+r.IntN(7))}
		case 2:
			element["ips"] = []string{fmt.Sprintf(oneOf(r, "10.100.0.%d/24", "fd00:100::%x/64", "fd00:100:0:1::%x"), 3+r.IntN(5)),
				fmt.Sprintf("fd00:100::%x", 3+r.IntN(5))}[r.IntN(2):]
		case 3, 4:
			element["mac"] = fmt.Sprintf(oneOf(r, "02:00:00:00:00:0%d", "02:00:00:00:00:0%d", "0a:58:0a:64:00:0%d"), 1+r.IntN(3))
		case 5:
			element["bandwidth"] = map[string]int{"ingressRate": 1_000_000 * (1 + r.IntN(2)), "egressRate": 2_000_000}
		case 6:
			element["default-route"] = []string{oneOf(r, "10.100.0.1", "fd00:100::1")}
		case 7:
			element["portMappings"] = []map[string]any{{"hostPort": 8080, "containerPort": 80}}
		}
	}
	if r.IntN(4) == 0 {
		element["interface"] = fmt.Sprintf("data%d", r.IntN(3))
	}
	return element
}
