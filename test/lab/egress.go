package lab

import (
	"path/filepath"

	"github.com/weft-network/weft/test/lab/initd"
)

const egressConfigFile = "/etc/weft-lab/egress.yaml"

// egressConfig makes the API server reach kubelets, pods and services through a node, because its own machine is not
// a node. Clusters with an external control plane use konnectivity for that. (Version 1.36 does not accept TCP
// without TLS.)
func (c *Cluster) egressConfig() string {
	return `apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport:
      uds:
        udsName: ` + c.connectSocket() + "\n"
}

func (c *Cluster) connectProgram() string { return filepath.Join(c.Dir, "lab-connect") }

// connectSocket returns the path of the socket, which all machines see.
func (c *Cluster) connectSocket() string { return filepath.Join(c.machineDir(Node(1).Name), "connect") }

// throughNode adds the egress configuration to the control plane's spec.
func (c *Cluster) throughNode(spec initd.Spec) initd.Spec {
	spec.Files = append(spec.Files, initd.File{Path: egressConfigFile, Content: c.egressConfig()})
	for i := range spec.Steps {
		if spec.Steps[i].Name == "kube-apiserver" {
			spec.Steps[i].Argv = append(spec.Steps[i].Argv, "--egress-selector-config-file="+egressConfigFile)
		}
	}
	return spec
}

// connects runs the proxy on the first node.
func (c *Cluster) connects() initd.Step {
	return initd.Step{Name: "lab-connect", Daemon: true, Argv: []string{c.connectProgram(), c.connectSocket()}}
}
