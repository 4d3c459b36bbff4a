package render

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/config"
	"github.com/weft-network/weft/pkg/install/programs"
	"github.com/weft-network/weft/pkg/ports"
)

const (
	// Central is the name of the databases' StatefulSet.
	Central = "weft-central"
	// AnnotationNode on the StatefulSet is the node of the databases, or their nodes by slot, separated by commas.
	AnnotationNode = "network.weft.dev/node"
	// AnnotationClusters on the StatefulSet holds the IDs of the databases' clusters, in JSON.
	AnnotationClusters = "network.weft.dev/clusters"
	// AnnotationFormer on the StatefulSet holds the IDs of clusters that have ended, separated by spaces.
	AnnotationFormer = "network.weft.dev/former-clusters"
	// AnnotationMembers on the pods of clustered databases is the desired number of members.
	AnnotationMembers = "network.weft.dev/members"
	AnnotationApplied = networkv1alpha1.AppliedAnnotation
	// AnnotationRevision on every pod is the digest of its essence. A pod is replaced only if its revision changes.
	AnnotationRevision = "network.weft.dev/revision"
	// AnnotationShape on every pod is the digest of its specification without images and settings. If only images changed, the pod
	// stays and gets the new images.
	AnnotationShape = "network.weft.dev/shape"
	// AnnotationRestarted on a pod whose images were changed holds the restart count of its containers at that time,
	// and the time.
	AnnotationRestarted = "network.weft.dev/restarted"
	// AnnotationNorthd on the pod of the databases is the version of its ovn-northd, if the image declares it.
	AnnotationNorthd = "network.weft.dev/northd"
	// image is the placeholder in the manifests; Facts.Image replaces it.
	image = "weft:dev"
)

// Facts are the inputs of the workloads.
type Facts struct {
	// Namespace is where the workloads run. It replaces the namespace of the manifests.
	Namespace string
	// Image is the image of the operator's own container. PullSecrets are the pull secrets of its pod.
	Image       string
	PullSecrets []corev1.LocalObjectReference
	// Version is the operator's version. Programs lists the programs of its image, or is nil if the image does not
	// declare them.
	Version  string
	Programs programs.Set
	// APIServerHost and APIServerPort are where the operator itself reaches the API server, because no cluster IP
	// works before the network does.
	APIServerHost, APIServerPort string
	Place                        Place
	// Encrypted adds the IKE daemon.
	Encrypted bool
	// Components adjusts the workloads.
	Components networkv1alpha1.Components

	zone *Zone // the zone of a zone's workload, whose place is Place
}

// IKE is the name of the IKE daemon's DaemonSet, which exists only with encryption. ikeFile is its manifest.
const (
	IKE     = "weft-ike"
	ikeFile = "operands/ike.yaml"
)

// The manifests of the workloads that zones have, too.
const (
	centralFile  = "operands/central.yaml"
	sourceFile   = "operands/relay-source.yaml"
	relayFile    = "operands/relay.yaml"
	operatorFile = "operator/deployment.yaml"
)

// The manifests of the other workloads.
const (
	switchFile     = "operands/ovs.yaml"
	controllerFile = "operands/ovn-controller.yaml"
	agentFile      = "agent/daemonset.yaml"
)

// ofZone says how a manifest becomes the workload of a zone.
var ofZone = map[string]func(Facts, Workload){
	centralFile: pinZone, sourceFile: sourceZone, relayFile: relayZone, operatorFile: operateZone,
}

// Workload is a Deployment, StatefulSet or DaemonSet.
type Workload interface {
	metav1.Object
	runtime.Object
}

// manifest is a file of config, and how it becomes a workload.
type manifest struct {
	file  string
	empty func() Workload
	fill  func(Facts, Workload)
	facts Facts
}

func statefulSet() Workload { return &appsv1.StatefulSet{} }
func daemonSet() Workload   { return &appsv1.DaemonSet{} }
func deployment() Workload  { return &appsv1.Deployment{} }

// Workloads returns the workloads in the order in which they are needed.
func Workloads(f Facts) ([]Workload, error) {
	var all []Workload
	for _, m := range manifests(f) {
		w, err := m.workload()
		if err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	return all, nil
}

// manifests returns the manifests of the wanted workloads. A zone's workloads follow the workloads with the same file.
func manifests(f Facts) (all []manifest) {
	for _, m := range []manifest{
		{centralFile, statefulSet, pin, f},
		{sourceFile, daemonSet, beside, f},
		{relayFile, daemonSet, relayed, f},
		{switchFile, daemonSet, inTurn, f},
		{controllerFile, daemonSet, inTurn, f},
		{ikeFile, daemonSet, nil, f},
		{operatorFile, deployment, nil, f},
		{agentFile, daemonSet, inTurn, f},
	} {
		if m.file == ikeFile && !f.Encrypted {
			continue
		}
		ofRelays := m.file == relayFile || m.file == sourceFile
		if !ofRelays || len(f.Place.Relays) > 0 {
			all = append(all, m)
		}
		for _, z := range f.Place.Zones {
			if fill := ofZone[m.file]; fill != nil && !z.Frozen && (!ofRelays || len(z.Place.Relays) > 0) {
				all = append(all, manifest{m.file, m.empty, fill, f.in(z)})
			}
		}
	}
	return all
}

// workload reads the manifest and fills it in.
func (m manifest) workload() (Workload, error) {
	text, err := config.Operands.ReadFile(m.file)
	if err != nil {
		return nil, err
	}
	w, f := m.empty(), m.facts
	if err := yaml.UnmarshalStrict(bytes.TrimSpace(text), w); err != nil {
		return nil, fmt.Errorf("%s: %w", m.file, err)
	}
	w.SetNamespace(f.Namespace)
	fillPod(f, Template(w))
	if m.fill != nil {
		m.fill(f, w)
	}
	shape, err := digestOf(shapeOf(Template(w)))
	if err != nil {
		return nil, err
	}
	if err := adjust(w, settingsOf(m.file, f.Components)); err != nil {
		return nil, err
	}
	if err := revise(f, Template(w), shape); err != nil {
		return nil, err
	}
	digest, err := digestOf(w)
	if err != nil {
		return nil, err
	}
	annotate(w, AnnotationApplied, digest)
	return w, nil
}

// Template returns the pod template of a workload.
func Template(w Workload) *corev1.PodTemplateSpec {
	switch w := w.(type) {
	case *appsv1.Deployment:
		return &w.Spec.Template
	case *appsv1.StatefulSet:
		return &w.Spec.Template
	case *appsv1.DaemonSet:
		return &w.Spec.Template
	}
	panic(fmt.Sprintf("%T has no pods", w)) // a programming error in Workloads, which its tests would find
}

// fillPod sets the image of all containers, and the variables that the manifests read from the ConfigMap weft-ovn.
func fillPod(f Facts, pod *corev1.PodTemplateSpec) {
	known := map[string]string{
		"WEFT_NB":                 f.Place.remote(ports.Northbound),
		"WEFT_SB":                 f.Place.remote(ports.SouthboundReader),
		"WEFT_OVN_REMOTE":         f.Place.remote(ports.Southbound),
		"WEFT_SB_SOURCE":          f.Place.remote(ports.SouthboundSource),
		"KUBERNETES_SERVICE_HOST": f.APIServerHost,
		"KUBERNETES_SERVICE_PORT": f.APIServerPort,
	}
	pod.Spec.ImagePullSecrets = f.PullSecrets
	for _, c := range containersOf(pod) {
		if c.Image == image {
			c.Image = f.Image
		}
		for j := range c.Env {
			if value, ok := known[c.Env[j].Name]; ok {
				c.Env[j] = corev1.EnvVar{Name: c.Env[j].Name, Value: value}
			}
		}
	}
}

func containersOf(pod *corev1.PodTemplateSpec) []*corev1.Container {
	var all []*corev1.Container
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			all = append(all, &list[i])
		}
	}
	return all
}

// remote returns the OVSDB remotes of a port at all members. It is empty for a removal, which connects to no
// database.
func (p Place) remote(port int) string {
	var all []string
	for _, m := range p.Members {
		all = append(all, "ssl:"+net.JoinHostPort(m.Addresses[0].String(), strconv.Itoa(port)))
	}
	return strings.Join(all, ",")
}

const (
	// memberContainer is the container that only pods of clustered databases have.
	memberContainer = "member"
	// chassisContainer is the container that keeps the chassis in the southbound database.
	chassisContainer = "chassis"
	// dataVolume is the volume of the databases' files.
	dataVolume = "data"
)

// pin binds the databases to their nodes, one pod on each.
func pin(f Facts, w Workload) {
	template := Template(w)
	template.Spec.Affinity = onlyOn(f.Place.Nodes())
	annotate(w, AnnotationNode, strings.Join(f.Place.Nodes(), ","))
	template.Spec.Containers = slices.DeleteFunc(template.Spec.Containers, func(c corev1.Container) bool {
		return c.Name == memberContainer && !f.Place.Clustered()
	})
	if f.Place.Clustered() {
		cluster(f, w)
	}
	if northd, known := f.Programs[programs.Northd]; known {
		annotate(&Template(w).ObjectMeta, AnnotationNorthd, northd.Version)
	}
}

// onlyOn returns the affinity to exactly these nodes.
func onlyOn(nodes []string) *corev1.Affinity {
	var terms []corev1.NodeSelectorTerm
	for _, node := range nodes { // a term can select only one name
		terms = append(terms, corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}})
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
}

// beside binds the source of the relays to the nodes of the databases.
func beside(f Facts, w Workload) {
	inTurn(f, w)
	Template(w).Spec.Affinity = onlyOn(f.Place.Nodes())
}

// relayed binds the relays to their nodes.
func relayed(f Facts, w Workload) {
	inTurn(f, w)
	Template(w).Spec.Affinity = onlyOn(nodesOf(f.Place.Relays))
}

// cluster configures a pod for each member. A pod may run on any of the nodes, because a member's identity is on its
// node's disk.
func cluster(f Facts, w Workload) {
	template := Template(w)
	if s, ok := w.(*appsv1.StatefulSet); ok {
		replicas := int32(len(f.Place.Members))
		s.Spec.Replicas = &replicas
	}
	template.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/component": "central"}},
			TopologyKey:   corev1.LabelHostname,
		}},
	}
	for i := range template.Spec.Containers {
		if c := &template.Spec.Containers[i]; c.Name != memberContainer && c.Name != chassisContainer {
			c.Command = append(c.Command, "--cluster")
		}
	}
	annotate(&template.ObjectMeta, AnnotationMembers, strconv.Itoa(f.Place.Wanted))
}

// inTurn leaves the replacement of pods to package rollout. The manifests keep the default strategy, because nothing
// else replaces pods when OVN runs outside the cluster.
func inTurn(_ Facts, w Workload) {
	if d, ok := w.(*appsv1.DaemonSet); ok {
		d.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}
	}
}

func annotate(w metav1.Object, key, value string) {
	annotations := w.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	w.SetAnnotations(annotations)
}

func digestOf(w any) (string, error) {
	text, err := json.Marshal(w)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8]), nil
}
