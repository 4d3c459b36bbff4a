package lab

import (
	"fmt"
	"path/filepath"

	"github.com/weft-network/weft/pkg/acllog"
	"github.com/weft-network/weft/test/lab/initd"
)

const (
	containerdSocket = "/run/containerd/containerd.sock"
	containerdConfig = "/etc/weft-lab/containerd.toml"
	kubeletConfig    = "/etc/weft-lab/kubelet.yaml"
	registryConfigs  = "/etc/containerd/certs.d"
)

// nodeSpec describes a machine that runs pods. A tainted node runs no pods before the product is ready. kubelet
// comes last because it needs the node's addresses and the runtime.
func (c *Cluster) nodeSpec(m Machine, tainted bool) initd.Spec {
	dir := c.machineDir(m.Name)
	spec := c.baseSpec(m)
	spec.Sysctls = kubeletSysctls()
	spec.Binds = []initd.Bind{
		{Source: filepath.Join(dir, "kubelet"), Target: "/var/lib/kubelet"},
		{Source: filepath.Join(dir, "containerd"), Target: "/var/lib/containerd"},
		{Source: filepath.Join(dir, "pods"), Target: "/var/log/pods"},
	}
	spec.Files = append(spec.Files,
		initd.File{Path: containerdConfig, Content: c.containerdConfig(!mayRaiseOOMScore())},
		initd.File{Path: kubeletConfig, Content: c.kubeletConfig(m, tainted)},
		initd.File{Path: "/etc/weft-lab/README", Content: "Files of this lab node; gone with it.\n"})
	if !m.Bare {
		spec.Steps = append(spec.Steps, c.openVSwitch(m)...)
	}
	spec.Steps = append(spec.Steps, addressSteps(m)...)
	if !m.Bare {
		spec.Steps = append(spec.Steps, c.ovnController(m))
	}
	spec.Steps = append(spec.Steps, c.containerd(), c.kubelet(m))
	return spec
}

// openVSwitch starts the switch and, unless the node is plain, creates br-ex. That is the only configuration of the
// switch that the product does not own.
func (c *Cluster) openVSwitch(m Machine) []initd.Step {
	db := filepath.Join(c.machineDir(m.Name), "conf.db")
	vsctl := []string{c.Cache.OVN("ovs-vsctl"), "--timeout=60"}
	datapath := "netdev"
	if kernelDatapath() {
		datapath = "system"
	}
	steps := []initd.Step{
		{Name: "ovs-create", Unless: db, Argv: []string{c.Cache.OVN("ovsdb-tool"), "create", db, c.Cache.Schema("vswitch")}},
		{Name: "ovsdb-server", Daemon: true, Ready: "unix:/run/openvswitch/db.sock", Argv: []string{c.Cache.OVN("ovsdb-server"), db,
			logToConsole, noSyslog, "--remote=punix:/run/openvswitch/db.sock", "--pidfile"}},
		// With two threads each for handling and revalidation, a small machine would have too many. The datapath
		// type must be the host's: ovn-controller creates br-int immediately. If it could not, it would back off and
		// answer no neighbour solicitation for up to 8 s after the product corrected the bridge.
		{Name: "ovs-init", Argv: append(vsctl, "--no-wait", "--", "init", "--", "set", "Open_vSwitch", ".",
			"other_config:n-handler-threads=1", "other_config:n-revalidator-threads=1",
			"external_ids:ovn-bridge-datapath-type="+datapath)},
		{Name: "ovs-vswitchd", Daemon: true, Argv: []string{c.Cache.OVN("ovs-vswitchd"), "unix:/run/openvswitch/db.sock",
			logToConsole, noSyslog, "--pidfile"}},
	}
	if m.Plain {
		return steps
	}
	return append(steps, initd.Step{Name: "br-ex", Argv: append(vsctl, "--may-exist", "add-br", "br-ex",
		"--", "set", "Bridge", "br-ex", "datapath_type="+datapath, "fail_mode=standalone",
		fmt.Sprintf("other_config:hwaddr=%q", m.MAC),
		"--", "--may-exist", "add-port", "br-ex", uplink)})
}

// addressSteps add the node's addresses to br-ex, or to eth0 without br-ex. The device is persistent, so the
// addresses survive ovs-vswitchd.
func addressSteps(m Machine) []initd.Step {
	device := "br-ex"
	if m.Plain {
		device = uplink
	}
	calls := [][]string{
		{"link", "set", device, "mtu", fmt.Sprint(fabricMTU), "up"},
		{"address", "replace", m.IPv4.String(), "dev", device},
		{"address", "replace", m.IPv6.String(), "dev", device, "nodad"},
	}
	for _, gateway := range m.gateways() {
		calls = append(calls, []string{"route", "replace", "default", "via", gateway.Addr().String()})
	}
	var steps []initd.Step
	for _, args := range calls {
		// env searches for ip, because its folder differs between distributions.
		steps = append(steps, initd.Step{Name: "addresses", Argv: append([]string{"/usr/bin/env", "ip"}, args...)})
	}
	return steps
}

func (c *Cluster) ovnController(m Machine) initd.Step {
	argv := []string{c.Cache.OVN("ovn-controller"), "unix:/run/openvswitch/db.sock", logToConsole, noSyslog, "--pidfile",
		"-vacl_log:console:off", "-vfile:off", "-vacl_log:file:dbg", "--log-file=/run/ovn/" + acllog.File}
	return initd.Step{Name: "ovn-controller", Daemon: true, Argv: append(argv, c.ControllerTLS(m)...)}
}

func (c *Cluster) containerd() initd.Step {
	return initd.Step{Name: "containerd", Daemon: true, Ready: "unix:" + containerdSocket,
		Argv: []string{c.Cache.Bin("containerd"), "--config", containerdConfig}}
}

func (c *Cluster) kubelet(m Machine) initd.Step {
	return initd.Step{Name: "kubelet", Daemon: true, Argv: []string{c.Cache.Bin("kubelet"),
		"--config", kubeletConfig,
		"--kubeconfig", filepath.Join(c.pkiDir(), m.Name+".kubeconfig"),
		"--hostname-override", m.Name,
		"--node-ip", m.IPv4.Addr().String() + "," + m.IPv6.Addr().String(),
		"--v=2",
	}}
}

// containerdConfig is for containerd 2. restrictOOM is needed without CAP_SYS_RESOURCE: runc could not lower scores.
func (c *Cluster) containerdConfig(restrictOOM bool) string {
	return fmt.Sprintf(`version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = %q
[plugins.'io.containerd.cri.v1.images']
  snapshotter = "overlayfs"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = %q
[plugins.'io.containerd.cri.v1.images'.registry]
  config_path = %q
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = %t
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ["/opt/cni/bin"]
  conf_dir = "/etc/cni/net.d"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
  BinaryName = %q
  SystemdCgroup = false
`, containerdSocket, PauseRef, registryConfigs, restrictOOM, c.Cache.Bin("runc"))
}

// kubeletConfig accepts version 1 control groups. It never collects images, because they could not be pulled again.
// A full disk of the host evicts no pod, and a node accepts more pods than it has addresses.
func (c *Cluster) kubeletConfig(m Machine, tainted bool) string {
	taints := "[]"
	if tainted {
		taints = `[{key: network.weft.dev/agent-not-ready, value: "true", effect: NoExecute}]` // docs/user/install.md
	}
	pki := func(file string) string { return filepath.Join(c.pkiDir(), file) }
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: "::"
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: %s
containerRuntimeEndpoint: unix://%s
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: %s}
authorization: {mode: Webhook}
tlsCertFile: %s
tlsPrivateKeyFile: %s
clusterDomain: cluster.local
clusterDNS: [%s]
failSwapOn: false
makeIPTablesUtilChains: false
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
evictionHard: {memory.available: 100Mi, nodefs.available: "0%%", imagefs.available: "0%%", nodefs.inodesFree: "0%%"}
enforceNodeAllocatable: [pods]
maxPods: 400
nodeStatusUpdateFrequency: 5s
syncFrequency: 10s
registerWithTaints: %s
`, c.cgroupOf(m.Name), containerdSocket, pki("ca.crt"), pki(m.Name+".crt"), pki(m.Name+".key"), DNSv4, taints)
}
