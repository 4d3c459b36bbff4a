package lab

import (
	"context"
	"fmt"
)

// Bare says of a lab that is up whether the product brought OVN and Open vSwitch.
func (c *Cluster) Bare() (bool, error) {
	s, err := c.loadState()
	if err != nil {
		return false, err
	}
	if s.Empty() {
		return false, fmt.Errorf("lab %s is not up", c.Name)
	}
	return s.Bare, nil
}

// Central is the machine with OVN's databases and ovn-northd: ovn-nbctl and the like reach them there without being told where they are. In a
// bare lab it is the node that the product has chosen.
func (c *Cluster) Central(ctx context.Context) (machine string, err error) {
	bare, err := c.Bare()
	if err != nil {
		return "", err
	}
	if !bare {
		return ControlPlane().Name, nil
	}
	node, err := c.Kubectl(ctx, "-n", productNamespace, "get", "pod", centralPod, "-o", "jsonpath={.spec.nodeName}")
	if err == nil && len(node) == 0 {
		err = fmt.Errorf("pod %s is on no node yet", centralPod)
	}
	return string(node), err
}

// SwitchControl is, for a shell on a node, the control socket of ovs-vswitchd. ovs-appctl does not find it by the program's name in a bare lab,
// where the program has another process ID for itself than for the node.
const SwitchControl = "/run/openvswitch/ovs-vswitchd.$(cat /run/openvswitch/ovs-vswitchd.pid).ctl"

// centralPod runs the first member of the databases.
const centralPod = "weft-central-0"
