package render

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/process/options"
)

// everySetting sets each field of spec.components.
func everySetting() networkv1alpha1.Components {
	of := func(containers ...string) (c networkv1alpha1.Component) {
		c.LogLevel = networkv1alpha1.LogDebug
		for _, name := range containers {
			c.Containers = append(c.Containers, networkv1alpha1.ContainerSettings{Name: name,
				Resources: networkv1alpha1.ContainerResources{Requests: networkv1alpha1.ResourceAmounts{CPU: "0.3"},
					Limits: networkv1alpha1.ResourceAmounts{Memory: "20Mi"}},
				Env: []networkv1alpha1.EnvironmentVariable{{Name: "GOGC", Value: "50"}}})
		}
		return c
	}
	return networkv1alpha1.Components{
		Operator: networkv1alpha1.OperatorComponent{Component: of("operator"), LogFormat: networkv1alpha1.LogText,
			EgressIPProbes: networkv1alpha1.EgressIPProbes{Interval: &metav1.Duration{Duration: 2 * time.Second}, Misses: 5, Disabled: true}},
		Agent: networkv1alpha1.AgentComponent{Component: of("agent"), LogFormat: networkv1alpha1.LogText, Delegates: new(false),
			Paths: networkv1alpha1.AgentPaths{CNIConfDir: "/var/lib/k3s/net.d", CNIBinDir: "/var/lib/k3s/bin",
				CRISocket: "/run/k3s/containerd/containerd.sock", PodResources: "/var/lib/k3s/pod-resources/kubelet.sock"}},
		Central: of("nb", "sb", "northd", "chassis"), OVNController: of("controller", "identity"), OpenVSwitch: of("ovsdb", "vswitchd"),
		Relay: of("relay", "source"), IKE: of("charon"),
	}
}

// withEverything are facts whose workloads are all that there can be.
func withEverything() Facts {
	f := facts()
	f.Encrypted, f.Place.Relays = true, f.Place.Members
	return f
}

// Each setting reaches the workload, and the programs accept it.
func TestEverySetting(t *testing.T) {
	f := withEverything()
	f.Components = everySetting()
	var have bytes.Buffer
	for _, w := range workloads(t, f) {
		pod := Template(w)
		digest := w.GetAnnotations()[AnnotationSettings]
		if digest == "" || digest != pod.Annotations[AnnotationSettings] {
			t.Errorf("%s: settings %q and %q of its pods", w.GetName(), digest, pod.Annotations[AnnotationSettings])
		}
		for _, c := range containersOf(pod) {
			set := map[string]string{}
			for _, v := range c.Env {
				set[v.Name] = v.Value
			}
			if set["WEFT_LOG_LEVEL"] != "Debug" || set["GOGC"] != "50" && c.Name != memberContainer {
				t.Errorf("%s: container %s has the variables %v", w.GetName(), c.Name, set)
			}
			if cpu := c.Resources.Requests[corev1.ResourceCPU]; cpu.String() != "300m" {
				t.Errorf("%s: container %s requests %s CPUs", w.GetName(), c.Name, cpu.String())
			}
			request, limit := c.Resources.Requests[corev1.ResourceMemory], c.Resources.Limits[corev1.ResourceMemory]
			if limit.String() != "20Mi" || request.Cmp(limit) > 0 {
				t.Errorf("%s: container %s requests %s of memory, of at most %s", w.GetName(), c.Name, request.String(), limit.String())
			}
			switch c.Name {
			case "agent":
				o, err := options.ParseAgent(append(c.Args, "--node-name=n1", "--sb=tcp:192.0.2.1:6642"))
				want := [5]string{"/var/lib/k3s/net.d", "/var/lib/k3s/bin", "/run/k3s/containerd/containerd.sock",
					"/var/lib/k3s/pod-resources/kubelet.sock", "/host/root"}
				if have := [5]string{o.ConfDir, o.BinDir, o.CRISocket, o.PodResources, o.Root}; err != nil || have != want || o.Delegates {
					t.Errorf("the agent reads %v, delegates %t, %v", have, o.Delegates, err)
				}
			case "operator":
				o, err := options.ParseOperator(append(c.Args, "--nb=tcp:192.0.2.1:6641"))
				if err != nil || o.ProbeInterval != 2*time.Second || o.ProbeMisses != 5 || o.ProbePort != 0 {
					t.Errorf("the operator reads %+v, %v", o, err)
				}
			}
		}
		text, err := yaml.Marshal(pod.Spec)
		if err != nil {
			t.Fatal(err)
		}
		have.Write(text)
	}
	// in a flag, a mount and a volume
	for dir, times := range map[string]int{"/var/lib/k3s/net.d": 3, "/var/lib/k3s/bin": 3, "path: /run/k3s/containerd\n": 1} {
		if n := strings.Count(have.String(), dir); n != times {
			t.Errorf("%s is in the pods %d times", strings.TrimSpace(dir), n)
		}
	}
	for _, dir := range []string{"/etc/cni/net.d", "/opt/cni/bin", "/run/containerd"} {
		if strings.Contains(have.String(), dir) {
			t.Errorf("the pods still have %s", dir)
		}
	}
	removal, err := Removal(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range containersOf(&removal.Spec.Template) {
		uninstalls := c.Command[0] == "/usr/bin/weft-agent"
		o, err := options.ParseUninstall(c.Command[min(2, len(c.Command)):])
		if uninstalls && (err != nil || o.ConfDir != "/var/lib/k3s/net.d" || o.BinDir != "/var/lib/k3s/bin") {
			t.Errorf("the removal's container %s reads %+v, %v", c.Name, o, err)
		}
	}
}

// A setting changes the pods of its component alone, and never the shape of Open vSwitch's pods, whose images alone can be replaced.
func TestASettingIsOfItsComponent(t *testing.T) {
	revisions := func(c networkv1alpha1.Components) (of, shapes map[string]string) {
		f := withEverything()
		f.Components = c
		of, shapes = map[string]string{}, map[string]string{}
		for _, w := range workloads(t, f) {
			of[w.GetName()] = Template(w).Annotations[AnnotationRevision]
			shapes[w.GetName()] = Template(w).Annotations[AnnotationShape]
		}
		return of, shapes
	}
	before, shapes := revisions(networkv1alpha1.Components{})
	every := everySetting()
	for want, set := range map[string]networkv1alpha1.Components{
		"weft-operator": {Operator: every.Operator}, "weft-agent": {Agent: every.Agent}, "weft-central": {Central: every.Central},
		"weft-ovn-controller": {OVNController: every.OVNController}, "weft-ovs": {OpenVSwitch: every.OpenVSwitch}, "weft-ike": {IKE: every.IKE},
		"weft-relay weft-relay-source": {Relay: every.Relay},
	} {
		after, shapesNow := revisions(set)
		var changed []string
		for _, name := range slices.Sorted(maps.Keys(after)) {
			if after[name] != before[name] {
				changed = append(changed, name)
			}
		}
		if have := strings.Join(changed, " "); have != want {
			t.Errorf("settings of %s change %s", want, have)
		}
		if shapesNow[Switches] != shapes[Switches] {
			t.Errorf("settings of %s change the shape of %s", want, Switches)
		}
		one, err := SettingsDigest(set)
		if all, failed := SettingsDigest(every); err != nil || failed != nil || one == "" || one == all {
			t.Errorf("the digests are %q and %q", one, all)
		}
	}
	if none, err := SettingsDigest(networkv1alpha1.Components{}); none != "" || err != nil {
		t.Errorf("without settings the digest is %q, %v", none, err)
	}
}

// An amount that cannot be read is named with its container.
func TestAnAmountThatCannotBeRead(t *testing.T) {
	f := facts()
	f.Components.Agent.Containers = []networkv1alpha1.ContainerSettings{{Name: "agent",
		Resources: networkv1alpha1.ContainerResources{Limits: networkv1alpha1.ResourceAmounts{Memory: "much"}}}}
	_, err := Workloads(f)
	if err == nil || !strings.Contains(err.Error(), `container agent: limits: memory "much"`) {
		t.Errorf("error %v", err)
	}
}
