package rollout

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/version"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/install/programs"
)

const (
	// oldestOVN is the version whose schemas Weft's database models were generated from.
	oldestOVN = "24.03"
	// oldestKernel supports everything that agents use: nftables' inet tables with NAT, and link aliases by netlink.
	oldestKernel = "5.4"
	// maxApart is how many minor versions agents and operator may differ, because both work together during a
	// rollout.
	maxApart = 1
)

// preflight returns why nothing may be replaced, or nil if the rollout may begin.
func (v *view) preflight() *wait {
	for _, check := range []func() (object, why string){v.programsFit, v.networksFit, v.versionsFit, v.kernelsFit} {
		if object, why := check(); why != "" {
			return &wait{stage: networkv1alpha1.StagePreflight, object: object, message: why}
		}
	}
	return nil
}

// programsFit checks the version of OVN in the image.
func (v *view) programsFit() (object, why string) {
	northd, known := v.Operand.Programs[programs.Northd]
	if older, ok := programs.Newer(oldestOVN, northd.Version); known && (!ok || older) {
		return "Deployment/weft-operands", fmt.Sprintf("image %s contains OVN %s, but at least %s is required",
			v.Operand.Image, northd.Version, oldestOVN)
	}
	return "", ""
}

// networksFit compares spec with the spec that was last in effect, because the network and the operands must not
// change at the same time. The API server refuses such changes, except if the ClusterNetwork was deleted and
// recreated.
func (v *view) networksFit() (object, why string) {
	if v.Network == nil || v.Network.Status.Computed == nil {
		return "", ""
	}
	before, now, object := v.Network.Status.Computed, v.Network.Spec, "ClusterNetwork/"+v.Network.Name
	for _, entry := range before.ClusterNetwork {
		if !slices.ContainsFunc(now.ClusterNetwork, func(e networkv1alpha1.ClusterNetworkEntry) bool { return e.CIDR == entry.CIDR }) {
			return object, fmt.Sprintf("spec.clusterNetwork no longer contains %s: restore it before the upgrade", entry.CIDR)
		}
	}
	if !slices.Equal(before.ServiceNetwork, now.ServiceNetwork) {
		return object, fmt.Sprintf("spec.serviceNetwork was changed from %v to %v: restore it before the upgrade",
			before.ServiceNetwork, now.ServiceNetwork)
	}
	for _, join := range before.JoinSubnet {
		if !slices.Contains(now.JoinSubnet, join) {
			return object, fmt.Sprintf("spec.joinSubnet no longer contains %s: restore it before the upgrade", join)
		}
	}
	return "", ""
}

// versionsFit compares the agents' versions with the wanted version. It skips versions without numbers, as of
// development builds.
func (v *view) versionsFit() (object, why string) {
	wanted := numbered(v.Operand.Version)
	if wanted == nil {
		return "", ""
	}
	for _, n := range v.nodes {
		if n.network == nil {
			continue
		}
		have := numbered(n.network.Status.AgentVersion)
		if have == nil {
			continue
		}
		if have.Major() != wanted.Major() || apart(have.Minor(), wanted.Minor()) > maxApart {
			return "Node/" + n.name, fmt.Sprintf(
				"its agent has version %s: an upgrade to %s skips more than %d minor version; upgrade through the versions between",
				n.network.Status.AgentVersion, v.Operand.Version, maxApart)
		}
	}
	return "", ""
}

// numbered parses a release version. It returns nil for any other version.
func numbered(text string) *version.Version {
	v, err := version.ParseSemantic(text)
	if err != nil || v.Major() == 0 && v.Minor() == 0 {
		return nil
	}
	return v
}

func apart(a, b uint) uint { return max(a, b) - min(a, b) }

// kernelsFit checks the nodes' kernel versions.
func (v *view) kernelsFit() (object, why string) {
	oldest := version.MustParseGeneric(oldestKernel)
	for i := range v.Nodes {
		n := &v.Nodes[i]
		if kernel, err := version.ParseGeneric(n.Status.NodeInfo.KernelVersion); err == nil && kernel.LessThan(oldest) {
			return "Node/" + n.Name, fmt.Sprintf("its kernel is %s, but at least %s is required",
				n.Status.NodeInfo.KernelVersion, oldestKernel)
		}
	}
	return "", ""
}
