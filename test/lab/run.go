package lab

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/containernetworking/plugins/pkg/ns"
)

// environment is the environment of every program in a machine.
func (c *Cluster) environment() []string {
	path := []string{filepath.Join(c.Cache.Dir, "bin"), filepath.Join(c.Cache.Dir, "ovn", "bin"),
		"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin", appletDir}
	return []string{
		"PATH=" + strings.Join(path, ":"),
		"HOME=/root",
		"OVS_RUNDIR=/run/openvswitch", "OVN_RUNDIR=/run/ovn", "OVS_DBDIR=/run/openvswitch", "OVN_DBDIR=/run/ovn",
		"OVS_LOGDIR=/run/openvswitch", "OVN_LOGDIR=/run/ovn",
		"OVN_NB_DB=unix:/run/ovn/ovnnb_db.sock", "OVN_SB_DB=unix:/run/ovn/ovnsb_db.sock",
		"CONTAINERD_ADDRESS=/run/containerd/containerd.sock", "CONTAINERD_NAMESPACE=k8s.io",
	}
}

// Command returns a command to run inside a machine (cp, n1, ...), in all its namespaces.
func (c *Cluster) Command(ctx context.Context, machine string, argv ...string) (*exec.Cmd, error) {
	s, err := c.loadState()
	if err != nil {
		return nil, err
	}
	init, ok := s.Process(machine)
	if !ok || !init.Alive() {
		return nil, fmt.Errorf("lab %s: machine %q is not up", c.Name, machine)
	}
	args := []string{"--target", strconv.Itoa(init.PID), "--mount", "--uts", "--ipc", "--net", "--pid", "--wd=/", "env", "-i"}
	args = append(args, c.environment()...)
	args = append(args, "TERM="+os.Getenv("TERM"))
	return exec.CommandContext(ctx, "nsenter", append(args, argv...)...), nil
}

// Exec runs a program inside a machine and returns its standard output. The error contains its standard error.
func (c *Cluster) Exec(ctx context.Context, machine string, argv ...string) ([]byte, error) {
	cmd, err := c.Command(ctx, machine, argv...)
	if err != nil {
		return nil, err
	}
	return output(cmd, machine+": "+strings.Join(argv, " "))
}

// KubectlCommand returns a kubectl command with the administrator's kubeconfig. It sees this machine's files and the
// lab's network.
func (c *Cluster) KubectlCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := c.NetworkCommand(ctx, append([]string{c.Cache.Bin("kubectl")}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.KubeConfig()) // kubectl takes no flag before the name of a plugin
	return cmd
}

// NetworkCommand returns a command of this machine to run in the control plane's network.
func (c *Cluster) NetworkCommand(ctx context.Context, argv ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "nsenter", append([]string{"--net=" + c.netnsPath("cp")}, argv...)...)
}

// Kubectl runs kubectl and returns its standard output. The error contains its standard error.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) ([]byte, error) {
	return output(c.KubectlCommand(ctx, args...), "kubectl "+strings.Join(args, " "))
}

// Apply passes a manifest to kubectl apply.
func (c *Cluster) Apply(ctx context.Context, manifest string) error {
	cmd := c.KubectlCommand(ctx, "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(manifest)
	_, err := output(cmd, "kubectl apply")
	return err
}

// DialContext connects from the control plane's network. The address must be numeric, because name resolution would
// use this machine's network.
func (c *Cluster) DialContext(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = ns.WithNetNSPath(c.netnsPath("cp"), func(ns.NetNS) error {
		conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

func output(cmd *exec.Cmd, what string) ([]byte, error) {
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("%s: %w: %s", what, err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}
