package render

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/install/member"
	"github.com/weft-network/weft/pkg/ports"
)

// LabelZone is on the workloads of a zone, and on the pods of its databases. Its value is the zone's name.
const LabelZone = "network.weft.dev/zone"

// Components of pods outside zones. A zone's pods have the component with the zone's name: "central-z".
const (
	componentCentral  = "central"
	componentOperator = "operator"
)

// CentralOf returns the name of the StatefulSet of a zone's databases.
func CentralOf(zone string) string { return Central + "-" + zone }

// OperatorOf returns the name of the Deployment of a zone's operator.
func OperatorOf(zone string) string { return Operator + "-" + zone }

// Zone is a part of the cluster with databases and an operator of its own.
type Zone struct {
	Name         string
	NodeSelector map[string]string
	// Place has the nodes of the zone's databases. It has no member if the zone never had databases.
	Place Place
	// Frozen means that the zone left the spec, or that no node can have its databases. Its workloads, if any, stay as
	// they are. Place is then where the databases were last.
	Frozen bool
}

// zoneOf returns the zone of a node: the first zone that selects it, or "".
func zoneOf(n corev1.Node, zones []networkv1alpha1.Zone) string {
	return string(networkv1alpha1.ZoneOf(zones, n.Labels))
}

// ZoneFacts are the inputs of PlaceOutside and NextZones.
type ZoneFacts struct {
	// Wanted are the zones of the spec.
	Wanted []networkv1alpha1.Zone
	// Before has the zones that have workloads.
	Before map[string]Before
	// States are the zones' states in the status.
	States []networkv1alpha1.ZoneStatus
	Nodes  []corev1.Node
	// Pods are the pods of all databases and operators, and Networks all NodeNetworks.
	Pods     []corev1.Pod
	Networks []networkv1alpha1.NodeNetwork
}

// Before is where databases are.
type Before struct {
	// Nodes are the nodes by slot. The list is empty without databases.
	Nodes []string
	// Clustered means that the databases are clusters.
	Clustered bool
}

// leaving returns the place of clusters that must end, because one member is wanted. ok is false otherwise.
func (b Before) leaving(nodes []corev1.Node, wanted int) (place Place, ok bool) {
	if wanted == 1 && b.Clustered {
		place = Remaining(b.Nodes, nodes)
	}
	return place, len(place.Members) > 0
}

// Zones is the result of NextZones.
type Zones struct {
	// Zones are the zones of the spec, and then the zones that left the spec and are still used.
	Zones []Zone
	// Status is the state of each zone of the spec.
	Status []networkv1alpha1.ZoneStatus
	// Unused are the zones whose workloads must be deleted: no node belongs to them, and no NodeNetwork names them.
	Unused []string
}

// PlaceOutside chooses the nodes of the databases of the default zone, like PlaceOf. It prefers
// nodes outside zones, and never chooses a node with a zone's databases.
func PlaceOutside(f ZoneFacts, before Before, wanted int) Place {
	if place, ok := before.leaving(f.Nodes, wanted); ok {
		return place
	}
	free := slices.DeleteFunc(slices.Clone(f.Nodes), func(n corev1.Node) bool {
		return !slices.Contains(before.Nodes, n.Name) && f.occupied(n.Name, "")
	})
	return placeBy(before.Nodes, free, wanted, func(n corev1.Node) int {
		if zoneOf(n, f.Wanted) == "" {
			return ranks + rank(n)
		}
		return rank(n)
	})
}

// NextZones chooses the nodes of each zone's databases by the rules of PlaceOf, among the zone's nodes without other
// databases. Databases stay on their nodes while these exist, even if they left the zone, because their disks hold the data.
// outside is the place of the databases of the default zone.
func NextZones(f ZoneFacts, outside Place) (next Zones) {
	chosen := outside.Nodes()
	for _, wanted := range f.Wanted {
		name := string(wanted.Name)
		zone := Zone{Name: name, NodeSelector: wanted.NodeSelector, Place: f.placeIn(wanted, chosen)}
		status := networkv1alpha1.ZoneStatus{Name: wanted.Name, Relays: f.relaysOf(name)}
		if len(zone.Place.Members) == 0 {
			zone.Frozen, zone.Place = true, f.last(name)
			status.Message = cutText(f.whyWithoutNode(wanted))
		} else {
			chosen = append(chosen, zone.Place.Nodes()...)
			f.report(zone, &status)
		}
		next.Zones, next.Status = append(next.Zones, zone), append(next.Status, status)
	}
	for _, name := range slices.Sorted(maps.Keys(f.Before)) {
		i := slices.IndexFunc(f.Wanted, func(z networkv1alpha1.Zone) bool { return string(z.Name) == name })
		switch {
		case f.inUse(name):
			if i < 0 {
				next.Zones = append(next.Zones, Zone{Name: name, Place: f.last(name), Frozen: true})
			}
		case i < 0 || !f.hasNode(name):
			next.Unused = append(next.Unused, name)
		}
	}
	return next
}

// relaysOf returns the relays that the last status has of a zone. They stay, because another step changes them, unless the zone's
// workloads are deleted.
func (f ZoneFacts) relaysOf(zone string) []networkv1alpha1.RelayStatus {
	for _, s := range f.States {
		if string(s.Name) == zone && (f.hasNode(zone) || f.inUse(zone)) {
			return s.Relays
		}
	}
	return nil
}

// placeIn chooses the nodes of a zone's databases. chosen are the nodes of other databases.
func (f ZoneFacts) placeIn(zone networkv1alpha1.Zone, chosen []string) Place {
	name, members := string(zone.Name), max(1, int(zone.Databases.Members))
	before := f.Before[name]
	if place, ok := before.leaving(f.Nodes, members); ok && f.hasNode(name) {
		return place
	}
	return PlaceOf(before.Nodes, f.candidates(name, chosen), members)
}

// candidates returns the nodes that may have a zone's databases: none for a zone without a node. chosen are the nodes of other databases.
func (f ZoneFacts) candidates(zone string, chosen []string) (found []corev1.Node) {
	if !f.hasNode(zone) {
		return nil
	}
	for _, n := range f.Nodes {
		free := zoneOf(n, f.Wanted) == zone && !f.occupied(n.Name, zone)
		if (free || slices.Contains(f.Before[zone].Nodes, n.Name)) && !slices.Contains(chosen, n.Name) {
			found = append(found, n)
		}
	}
	return found
}

// occupied reports whether a node has the databases of a zone other than this one. The databases outside zones count
// only by their pods; zone is "" for them.
func (f ZoneFacts) occupied(node, zone string) bool {
	for other, at := range f.Before {
		if other != zone && slices.Contains(at.Nodes, node) {
			return true
		}
	}
	return slices.ContainsFunc(f.Pods, func(p corev1.Pod) bool {
		return p.Spec.NodeName == node && isOfDatabases(p) && p.Labels[LabelZone] != zone &&
			p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
	})
}

func isOfDatabases(p corev1.Pod) bool {
	return p.Labels[LabelZone] != "" || p.Labels[networkv1alpha1.ComponentLabel] == componentCentral
}

// last returns the place where a zone's databases were last, on the nodes that exist.
func (f ZoneFacts) last(zone string) Place {
	place := Place{Wanted: 1}
	if f.Before[zone].Clustered {
		place.Wanted = member.Slots
	}
	for _, name := range f.Before[zone].Nodes {
		for _, n := range f.Nodes {
			if n.Name == name && len(addressesOf(n)) > 0 {
				place.Members = append(place.Members, Member{name, addressesOf(n)})
			}
		}
	}
	return place
}

// inUse reports whether a NodeNetwork names the zone.
func (f ZoneFacts) inUse(zone string) bool {
	return slices.ContainsFunc(f.Networks, func(nn networkv1alpha1.NodeNetwork) bool { return string(nn.Spec.Zone) == zone })
}

func (f ZoneFacts) hasNode(zone string) bool {
	return slices.ContainsFunc(f.Nodes, func(n corev1.Node) bool { return zoneOf(n, f.Wanted) == zone })
}

// whyWithoutNode returns why no node can have a zone's databases.
func (f ZoneFacts) whyWithoutNode(zone networkv1alpha1.Zone) string {
	var matching, own []string
	for _, n := range f.Nodes {
		if zone.Selects(n.Labels) {
			matching = append(matching, n.Name)
		}
		if zoneOf(n, f.Wanted) == string(zone.Name) && n.DeletionTimestamp == nil && len(addressesOf(n)) > 0 {
			own = append(own, n.Name)
		}
	}
	slices.Sort(own)
	switch {
	case len(matching) == 0:
		return "no node matches nodeSelector"
	case !f.hasNode(string(zone.Name)):
		return "every node that matches nodeSelector is in an earlier zone"
	case len(own) == 0:
		return "no node that matches nodeSelector has an internal address"
	}
	return "every node of the zone has other databases: " + strings.Join(own, ", ")
}

// report fills in the status of a zone whose databases have a node. A member's pod is ready only while a majority works. The state of
// the members stays, because it comes from the members themselves.
func (f ZoneFacts) report(zone Zone, status *networkv1alpha1.ZoneStatus) {
	nodes := zone.Place.Nodes()
	status.Node = nodes[0]
	for _, m := range zone.Place.Members {
		status.Addresses = append(status.Addresses, networkv1alpha1.IP(m.Addresses[0].String()))
	}
	for _, s := range f.States {
		if s.Name == status.Name && zone.Place.Clustered() {
			status.Databases = s.Databases
		}
	}
	databases, whyDatabases := podReady(f.Pods, "the databases have no pod yet", func(p *corev1.Pod) bool {
		return p.Labels[networkv1alpha1.ComponentLabel] == componentCentral+"-"+zone.Name && slices.Contains(nodes, p.Spec.NodeName)
	})
	operator, whyOperator := podReady(f.Pods, "the operator has no pod yet", func(p *corev1.Pod) bool {
		return p.Labels[networkv1alpha1.ComponentLabel] == componentOperator+"-"+zone.Name
	})
	status.Ready = databases && operator
	status.Message = cutText(cmp.Or(whyDatabases, whyOperator))
}

// podReady reports whether one of the selected pods is ready, and if not, why. missing is the reason without a pod.
func podReady(pods []corev1.Pod, missing string, selected func(*corev1.Pod) bool) (ready bool, why string) {
	why = missing
	for i := range pods {
		p := &pods[i]
		if !p.DeletionTimestamp.IsZero() || !selected(p) {
			continue
		}
		why = "pod " + p.Name + " is not ready"
		for _, c := range p.Status.ContainerStatuses {
			if w := c.State.Waiting; w != nil {
				why = "pod " + p.Name + ": " + w.Reason
			}
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				return true, ""
			}
		}
	}
	return false, why
}

// membersOfAll returns the members of all databases, including the databases of zones.
func membersOfAll(p Place) []Member {
	all := slices.Clone(p.Members)
	for _, z := range p.Zones {
		all = append(all, z.Place.Members...)
	}
	return all
}

// relaysOfAll returns the relays of all southbound databases, including the relays of zones.
func relaysOfAll(p Place) []Member {
	all := slices.Clone(p.Relays)
	for _, z := range p.Zones {
		all = append(all, z.Place.Relays...)
	}
	return all
}

// HasRelays reports whether there are relays, of any zone.
func (p Place) HasRelays() bool { return len(relaysOfAll(p)) > 0 }

// DatabaseNodes returns the nodes of all databases, including the databases of zones.
func (p Place) DatabaseNodes() []string { return nodesOf(membersOfAll(p)) }

// in returns the facts with a zone's place.
func (f Facts) in(zone Zone) Facts {
	f.Place, f.zone = zone.Place, &zone
	return f
}

// nameZone names a workload after its zone.
func nameZone(w Workload, component, zone string) {
	component += "-" + zone
	name := "weft-" + component
	w.SetName(name)
	w.GetLabels()[networkv1alpha1.ComponentLabel] = component
	w.GetLabels()[LabelZone] = zone
	Template(w).Labels[networkv1alpha1.ComponentLabel] = component
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{networkv1alpha1.ComponentLabel: component}}
	switch w := w.(type) {
	case *appsv1.StatefulSet:
		w.Spec.Selector, w.Spec.ServiceName = selector, name
	case *appsv1.Deployment:
		w.Spec.Selector = selector
	case *appsv1.DaemonSet:
		w.Spec.Selector = selector
	}
}

// relayZone binds a zone's relays to their nodes, and sourceZone their sources.
func relayZone(f Facts, w Workload) {
	relayed(f, w)
	nameZone(w, componentZoneRelays, f.zone.Name)
}

func sourceZone(f Facts, w Workload) {
	beside(f, w)
	nameZone(w, componentZoneSources, f.zone.Name)
}

// pinZone binds a zone's databases to their nodes. Their files are in a folder of their own, so that they never read
// the files of other databases that a node had before.
func pinZone(f Facts, w Workload) {
	pin(f, w)
	nameZone(w, componentCentral, f.zone.Name)
	template := Template(w)
	template.Labels[LabelZone] = f.zone.Name
	for i := range template.Spec.Volumes {
		if v := &template.Spec.Volumes[i]; v.Name == dataVolume {
			v.HostPath.Path += "/zone-" + f.zone.Name
		}
	}
	apart := func(r metav1.LabelSelectorRequirement) corev1.PodAffinityTerm {
		return corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname,
			LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{r}}}
	}
	template.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			apart(metav1.LabelSelectorRequirement{Key: networkv1alpha1.ComponentLabel, Operator: metav1.LabelSelectorOpIn,
				Values: []string{componentCentral}}),
			apart(metav1.LabelSelectorRequirement{Key: LabelZone, Operator: metav1.LabelSelectorOpExists}),
		}}
}

// operateZone makes a zone's operator of the operator's Deployment. It runs only on nodes that match the zone's selector. Its ports
// are not the operator's, because a zone with one node must be able to run both there.
func operateZone(f Facts, w Workload) {
	nameZone(w, componentOperator, f.zone.Name)
	spec := &Template(w).Spec
	for i := range spec.Containers {
		c := &spec.Containers[i]
		c.Args = append(c.Args, "--zone="+f.zone.Name, "--health-probe-bind-address="+ports.Any(ports.ZoneOperatorHealth),
			"--metrics-bind-address="+ports.Any(ports.ZoneOperatorMetrics))
		for j := range c.Ports {
			if c.Ports[j].ContainerPort == ports.OperatorHealth {
				c.Ports[j].ContainerPort = ports.ZoneOperatorHealth
			}
		}
		for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe} {
			if probe != nil && probe.HTTPGet != nil {
				probe.HTTPGet.Port = intstr.FromInt32(ports.ZoneOperatorHealth)
			}
		}
	}
	var term corev1.NodeSelectorTerm
	for _, key := range slices.Sorted(maps.Keys(f.zone.NodeSelector)) {
		term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{Key: key,
			Operator: corev1.NodeSelectorOpIn, Values: []string{f.zone.NodeSelector[key]}})
	}
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{term}}
}
