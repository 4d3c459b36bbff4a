package lab

import (
	"context"
	"fmt"
)

// Bare reports for a running lab whether the product brought OVN and Open vSwitch.
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

// Central returns the machine with OVN's databases and ovn-northd, where ovn-nbctl and similar programs find them by
// default. In a bare lab the product has chosen the node.
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

// SwitchControl is the control socket of ovs-vswitchd, for a shell on a node. In a bare lab ovs-appctl does not find
// it by the program's name, because the program's process ID differs between its namespace and the node's.
const SwitchControl = "/run/openvswitch/ovs-vswitchd.$(cat /run/openvswitch/ovs-vswitchd.pid).ctl"

// centralPod is the first database member's pod.
const centralPod = "weft-central-0"
