package migrate

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// network is the name of a network, or of another program that a move concerns.
type network string

const (
	ovnKubernetes network = "ovn-kubernetes"
	kubeOVN       network = "kube-ovn"
	calico        network = "Calico"
	cilium        network = "Cilium"
	flannel       network = "flannel"
	metalLB       network = "MetalLB"
	multus        network = "Multus"
	kubeProxy     network = "kube-proxy"
)

// networks are the networks in the order in which they count as the cluster's own. Calico comes before flannel, but
// canal, which is both, has flannel's network.
var networks = []network{ovnKubernetes, kubeOVN, cilium, calico, flannel}

// program is a workload of a network.
type program struct {
	of network
	// node marks the program that connects the pods of each node.
	node bool
	// label is the label that a workload with such a common name must have, "app=metallb". Empty, none.
	label string
}

// programs has the workloads by name. A name ending with * is a prefix.
var programs = map[string]program{
	"ovnkube-node*": {of: ovnKubernetes, node: true}, "ovnkube-single-node-zone*": {of: ovnKubernetes, node: true},
	"ovnkube-zone-controller*": {of: ovnKubernetes}, "ovnkube-master*": {of: ovnKubernetes}, "ovnkube-db*": {of: ovnKubernetes},
	"ovnkube-control-plane*": {of: ovnKubernetes}, "ovnkube-identity*": {of: ovnKubernetes}, "ovs-node*": {of: ovnKubernetes},
	"kube-ovn-cni": {of: kubeOVN, node: true}, "kube-ovn-controller": {of: kubeOVN}, "kube-ovn-monitor": {of: kubeOVN},
	"kube-ovn-pinger": {of: kubeOVN}, "kube-ovn-webhook": {of: kubeOVN}, "ovn-central": {of: kubeOVN}, "ovs-ovn*": {of: kubeOVN},
	"calico-node": {of: calico, node: true}, "calico-typha": {of: calico}, "calico-kube-controllers": {of: calico},
	"calico-apiserver": {of: calico}, "tigera-operator": {of: calico}, "csi-node-driver": {of: calico},
	"goldmane": {of: calico}, "whisker": {of: calico}, "canal": {of: flannel, node: true}, "kube-flannel-ds*": {of: flannel, node: true},
	"kube-flannel": {of: flannel, node: true}, "cilium": {of: cilium, node: true}, "cilium-envoy": {of: cilium},
	"cilium-operator": {of: cilium}, "cilium-node-init": {of: cilium}, "hubble-relay": {of: cilium}, "hubble-ui": {of: cilium},
	"clustermesh-apiserver": {of: cilium}, "metallb-*": {of: metalLB}, "speaker": {of: metalLB, label: "app=metallb"},
	"controller": {of: metalLB, label: "app=metallb"}, "kube-multus-ds*": {of: multus}, "multus": {of: multus}, "kube-proxy": {of: kubeProxy},
}

// groups are the API groups of networks.
var groups = map[string]network{
	"k8s.ovn.org": ovnKubernetes, "kubeovn.io": kubeOVN, "crd.projectcalico.org": calico, "projectcalico.org": calico,
	"operator.tigera.io": calico, "cilium.io": cilium,
}

var (
	daemonSetKind  = schema.GroupKind{Group: "apps", Kind: "DaemonSet"}
	deploymentKind = schema.GroupKind{Group: "apps", Kind: "Deployment"}
	configMapKind  = schema.GroupKind{Kind: "ConfigMap"}
	nodeKind       = schema.GroupKind{Kind: "Node"}
	podKind        = schema.GroupKind{Kind: "Pod"}
	namespaceKind  = schema.GroupKind{Kind: "Namespace"}
	serviceKind    = schema.GroupKind{Kind: "Service"}
	serviceCIDR    = schema.GroupKind{Group: "networking.k8s.io", Kind: "ServiceCIDR"}
)

// isShared reports whether objects of a kind are used by more than networks. They have an entry only if they concern
// the network.
func isShared(k schema.GroupKind) bool {
	return slices.Contains([]schema.GroupKind{daemonSetKind, deploymentKind, configMapKind, nodeKind, podKind, namespaceKind,
		serviceKind, serviceCIDR}, k)
}

// programOf returns the program that a workload runs. ok is false for workloads that concern no network.
func programOf(o *unstructured.Unstructured) (p program, ok bool) {
	for name, p := range programs {
		prefix, isPrefix := strings.CutSuffix(name, "*")
		if isIt := o.GetName() == name || isPrefix && strings.HasPrefix(o.GetName(), prefix); !isIt {
			continue
		}
		key, value, _ := strings.Cut(p.label, "=")
		return p, p.label == "" || o.GetLabels()[key] == value
	}
	return p, false
}

// workloads returns the DaemonSets and Deployments, and their programs.
func (in *inspector) workloads(each func(*unstructured.Unstructured, program)) {
	for _, k := range []schema.GroupKind{daemonSetKind, deploymentKind} {
		for _, o := range in.byKind[k] {
			if p, ok := programOf(o); ok {
				each(o, p)
			}
		}
	}
}

// detect finds the cluster's network: by the program that runs on each node, or else by its objects.
func (in *inspector) detect() {
	running, present := map[network][]string{}, map[network][]string{}
	in.workloads(func(o *unstructured.Unstructured, p program) {
		if p.node {
			running[p.of] = append(running[p.of], nameOf(o))
		}
		present[p.of] = append(present[p.of], nameOf(o))
	})
	for _, o := range sorted(in.cluster.Objects) {
		if of, ok := groups[o.GroupVersionKind().Group]; ok {
			present[of] = append(present[of], nameOf(o))
		}
	}
	s := &in.report.Source
	for _, found := range []map[network][]string{running, present} {
		for _, n := range networks {
			if len(found[n]) > 0 && in.network == "" {
				in.network, s.Network = n, string(n)
				s.Evidence = found[n][:min(len(found[n]), 3)]
			}
		}
	}
	for _, n := range slices.Concat(networks, []network{metalLB, multus, kubeProxy}) {
		if n != in.network && len(present[n]) > 0 {
			s.Besides = append(s.Besides, string(n))
		}
	}
	s.Version = in.version()
	in.describePrograms()
}

// describePrograms gives the workloads of networks their outcome.
func (in *inspector) describePrograms() {
	proxied := false
	in.workloads(func(o *unstructured.Unstructured, p program) {
		e := in.entry(nameOf(o))
		e.Outcome, e.Reason = NotNeeded, "a program of "+string(p.of)+", which Weft replaces"
		switch p.of {
		case kubeProxy:
			proxied = true
			e.Outcome, e.Reason = Kept, "Weft serves Services without kube-proxy, and beside it"
			e.Next = "remove it when Weft works, if nothing else needs it"
		case multus:
			e.Reason = "Weft's agents attach secondary networks"
			e.Next = "remove it with the old network, or keep it with spec.attachmentProvider: Multus in the ClusterNetwork"
		case metalLB:
			e.Reason = "a program of MetalLB, which LoadBalancerPools replace"
			e.Next = "remove it before the LoadBalancerPools are created"
		}
	})
	if in.network != "" && !proxied && len(in.byKind[daemonSetKind]) > 0 {
		in.step("the cluster has no kube-proxy: kubectl -n weft-system create configmap weft-apiserver " +
			"--from-literal=host=ADDRESS --from-literal=port=6443, with the API server's own address")
	}
}

var tag = regexp.MustCompile(`:([A-Za-z0-9_.-]+)(@.*)?$`)

// version returns the tag of the image of the network's program on each node.
func (in *inspector) version() (version string) {
	in.workloads(func(o *unstructured.Unstructured, p program) {
		if p.of != in.network || !p.node || version != "" {
			return
		}
		for _, c := range containers(o) {
			if found := tag.FindStringSubmatch(c.Image); found != nil {
				version = cmp.Or(version, found[1])
			}
		}
	})
	return version
}

// containers returns the containers of a workload or pod, the ordinary ones first.
func containers(o *unstructured.Unstructured) []corev1.Container {
	tree, found, err := unstructured.NestedMap(o.Object, "spec", "template", "spec")
	if !found || err != nil {
		tree, _, _ = unstructured.NestedMap(o.Object, "spec")
	}
	var spec corev1.PodSpec
	if runtime.DefaultUnstructuredConverter.FromUnstructured(tree, &spec) != nil {
		return nil
	}
	return slices.Concat(spec.Containers, spec.InitContainers)
}

// option returns the value of an environment variable or a flag of the containers of a network's workloads. A flag is
// found in commands, arguments and scripts, as "--name=value" or "--name value".
func (in *inspector) option(of network, env, flag string) (value string) {
	pattern := regexp.MustCompile(`(?:^|\s)--?` + regexp.QuoteMeta(flag) + `(?:=|\s+)"?([^\s"]+)`)
	in.workloads(func(o *unstructured.Unstructured, p program) {
		if p.of != of {
			return
		}
		for _, c := range containers(o) {
			for _, e := range c.Env {
				if env != "" && e.Name == env {
					value = cmp.Or(value, e.Value)
				}
			}
			if flag == "" {
				continue
			}
			if found := pattern.FindStringSubmatch(strings.Join(slices.Concat(c.Command, c.Args), " ")); found != nil {
				value = cmp.Or(value, found[1])
			}
		}
	})
	return strings.Trim(value, `"'`)
}

// hasFlag reports whether a network's workloads have a boolean flag.
func (in *inspector) hasFlag(of network, flag string) (is bool) {
	pattern := regexp.MustCompile(`(?:^|\s)--?` + regexp.QuoteMeta(flag) + `(?:=true)?(?:\s|$)`)
	in.workloads(func(o *unstructured.Unstructured, p program) {
		for _, c := range containers(o) {
			is = is || p.of == of && pattern.MatchString(strings.Join(slices.Concat(c.Command, c.Args), " "))
		}
	})
	return is
}

// configMap returns a ConfigMap of one of these names, in any namespace, and its data, or nil.
func (in *inspector) configMap(names ...string) (*item, map[string]string) {
	for _, o := range in.byKind[configMapKind] {
		if slices.Contains(names, o.GetName()) {
			data, _, _ := unstructured.NestedStringMap(o.Object, "data")
			return &item{in: in, Unstructured: o, fields: newFields("", nil), entry: in.entry(nameOf(o))}, data
		}
	}
	return nil, nil
}

// Namespaces lists the namespaces that may have ConfigMaps of networks.
func Namespaces(objects []*unstructured.Unstructured) []string {
	names := []string{"kube-system", "kube-flannel"}
	for _, o := range objects {
		if k := o.GroupVersionKind().GroupKind(); k != daemonSetKind && k != deploymentKind {
			continue
		}
		if _, ok := programOf(o); ok && !slices.Contains(names, o.GetNamespace()) {
			names = append(names, o.GetNamespace())
		}
	}
	return names
}
