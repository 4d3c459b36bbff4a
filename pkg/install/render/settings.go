package render

import (
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// AnnotationSettings on a workload and its pods is the digest of what ClusterNetwork's spec.components sets for them. It is absent if
// nothing is set.
const AnnotationSettings = "network.weft.dev/settings"

// settings are what is set for a workload.
type settings struct {
	networkv1alpha1.Component
	Format networkv1alpha1.LogFormat
	Args   []string
	Paths  networkv1alpha1.AgentPaths
}

// SettingsDigest identifies what is set. It is empty if nothing is.
func SettingsDigest(c networkv1alpha1.Components) (string, error) {
	if reflect.ValueOf(c).IsZero() {
		return "", nil
	}
	return digestOf(c)
}

// settingsOf returns what is set for the workload of a manifest.
func settingsOf(file string, c networkv1alpha1.Components) settings {
	switch file {
	case operatorFile:
		return settings{Component: c.Operator.Component, Format: c.Operator.LogFormat, Args: probeArgs(c.Operator.EgressIPProbes)}
	case agentFile:
		return settings{Component: c.Agent.Component, Format: c.Agent.LogFormat, Args: agentArgs(c.Agent), Paths: c.Agent.Paths}
	}
	return settings{Component: map[string]networkv1alpha1.Component{
		centralFile: c.Central, sourceFile: c.Relay, relayFile: c.Relay, controllerFile: c.OVNController,
		switchFile: c.OpenVSwitch, ikeFile: c.IKE,
	}[file]}
}

func probeArgs(p networkv1alpha1.EgressIPProbes) (args []string) {
	if p.Interval != nil {
		args = append(args, "--egressip-probe-interval="+p.Interval.Duration.String())
	}
	if p.Misses > 0 {
		args = append(args, "--egressip-probe-misses="+strconv.Itoa(int(p.Misses)))
	}
	if p.Disabled {
		args = append(args, "--egressip-probe-port=0")
	}
	return args
}

func agentArgs(a networkv1alpha1.AgentComponent) (args []string) {
	if a.Delegates != nil {
		args = append(args, "--delegates="+strconv.FormatBool(*a.Delegates))
	}
	for _, p := range []struct {
		flag  string
		value networkv1alpha1.HostPath
	}{{"cni-conf-dir", a.Paths.CNIConfDir}, {"cni-bin-dir", a.Paths.CNIBinDir}, {"cri-socket", a.Paths.CRISocket},
		{"pod-resources", a.Paths.PodResources}} {
		if p.value != "" {
			args = append(args, "--"+p.flag+"="+string(p.value))
		}
	}
	return args
}

// adjust applies what is set to a workload.
func adjust(w Workload, s settings) error {
	if reflect.ValueOf(s).IsZero() {
		return nil
	}
	digest, err := digestOf(s)
	if err != nil {
		return err
	}
	pod := Template(w)
	annotate(w, AnnotationSettings, digest)
	annotate(&pod.ObjectMeta, AnnotationSettings, digest)
	for _, c := range containersOf(pod) {
		for _, of := range s.Containers {
			if of.Name != c.Name {
				continue
			}
			if err := adjustContainer(c, of); err != nil {
				return err
			}
		}
		setVariable(c, "WEFT_LOG_LEVEL", string(s.LogLevel))
		setVariable(c, "WEFT_LOG_FORMAT", string(s.Format))
		for _, arg := range s.Args { // the manifests set some of them
			name, _, _ := strings.Cut(arg, "=")
			c.Args = slices.DeleteFunc(c.Args, func(a string) bool { return strings.HasPrefix(a, name+"=") })
			c.Args = append(c.Args, arg)
		}
	}
	moveMounts(pod, s.Paths)
	return nil
}

func adjustContainer(c *corev1.Container, s networkv1alpha1.ContainerSettings) (err error) {
	if c.Resources.Requests, err = amounts(c.Resources.Requests, s.Resources.Requests); err != nil {
		return fmt.Errorf("container %s: requests: %w", s.Name, err)
	}
	if c.Resources.Limits, err = amounts(c.Resources.Limits, s.Resources.Limits); err != nil {
		return fmt.Errorf("container %s: limits: %w", s.Name, err)
	}
	for name, limit := range c.Resources.Limits {
		if request, ok := c.Resources.Requests[name]; ok && request.Cmp(limit) > 0 {
			c.Resources.Requests[name] = limit
		}
	}
	for _, v := range s.Env {
		setVariable(c, v.Name, v.Value)
	}
	return nil
}

// setVariable sets an environment variable that the manifest lacks. It leaves a variable without a value away.
func setVariable(c *corev1.Container, name, value string) {
	if value != "" {
		c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: value})
	}
}

// amounts returns a list with the amounts that are set in it. The error is of an amount that the API server accepted and that cannot be
// read.
func amounts(list corev1.ResourceList, set networkv1alpha1.ResourceAmounts) (corev1.ResourceList, error) {
	merged := maps.Clone(list)
	for name, text := range map[corev1.ResourceName]string{corev1.ResourceCPU: set.CPU, corev1.ResourceMemory: set.Memory} {
		if text == "" {
			continue
		}
		amount, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", name, text, err)
		}
		if merged == nil {
			merged = corev1.ResourceList{}
		}
		merged[name] = amount
	}
	return merged, nil
}

// moveMounts mounts the nodes' directories at their paths on the nodes, where the flags name them.
func moveMounts(pod *corev1.PodTemplateSpec, p networkv1alpha1.AgentPaths) {
	to := map[string]string{"cni-conf": string(p.CNIConfDir), "cni-bin": string(p.CNIBinDir)}
	if p.CRISocket != "" {
		to["containerd"] = path.Dir(string(p.CRISocket))
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if dir := to[v.Name]; dir != "" && v.HostPath != nil {
			v.HostPath.Path = dir
		}
	}
	for _, c := range containersOf(pod) {
		for i := range c.VolumeMounts {
			if dir := to[c.VolumeMounts[i].Name]; dir != "" {
				c.VolumeMounts[i].MountPath = dir
			}
		}
	}
}

// removalPaths lets the removal find what the agents wrote into directories that are set.
func removalPaths(w *appsv1.DaemonSet, p networkv1alpha1.AgentPaths) {
	args := agentArgs(networkv1alpha1.AgentComponent{Paths: networkv1alpha1.AgentPaths{CNIConfDir: p.CNIConfDir, CNIBinDir: p.CNIBinDir}})
	moveMounts(&w.Spec.Template, p)
	for _, c := range containersOf(&w.Spec.Template) {
		if c.Command[0] == "/usr/bin/weft-agent" {
			c.Command = append(c.Command, args...)
		}
	}
}
