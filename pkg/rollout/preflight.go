package rollout

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/version"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/programs"
)

const (
	// oldestOVN has the schemas that Weft's models of the databases were generated from.
	oldestOVN = "24.03"
	// oldestKernel has all that agents ask of it: nftables' inet tables with NAT, and link aliases by netlink.
	oldestKernel = "5.4"
	// maxApart is how many minor versions agents and operator may be apart: both work together while they are.
	maxApart = 1
)

// preflight says why nothing shall be replaced; nil: it may begin.
func (v *view) preflight() *wait {
	for _, look := range []func() (object, why string){v.programsFit, v.networksFit, v.versionsFit, v.kernelsFit} {
		if object, why := look(); why != "" {
			return &wait{stage: networkv1alpha1.StagePreflight, object: object, message: why}
		}
	}
	return nil
}

// programsFit looks at the OVN of the image.
func (v *view) programsFit() (object, why string) {
	northd, known := v.Operand.Programs[programs.Northd]
	if older, ok := programs.Newer(oldestOVN, northd.Version); known && (!ok || older) {
		return "Deployment/weft-operands", fmt.Sprintf("image %s has OVN %s, and at least %s is needed", v.Operand.Image, northd.Version, oldestOVN)
	}
	return "", ""
}

// networksFit compares what spec asks for with what was in effect last: a change of the network and one of the operands are not made at once. The API server
// refuses such changes, except of a ClusterNetwork that was deleted and made anew.
func (v *view) networksFit() (object, why string) {
	if v.Network == nil || v.Network.Status.Computed == nil {
		return "", ""
	}
	before, now := v.Network.Status.Computed, v.Network.Spec
	for _, entry := range before.ClusterNetwork {
		if !slices.ContainsFunc(now.ClusterNetwork, func(e networkv1alpha1.ClusterNetworkEntry) bool { return e.CIDR == entry.CIDR }) {
			return "ClusterNetwork/" + v.Network.Name, fmt.Sprintf("clusterNetwork had %s, and has not: apply it again first", entry.CIDR)
		}
	}
	if !slices.Equal(before.ServiceNetwork, now.ServiceNetwork) {
		return "ClusterNetwork/" + v.Network.Name, fmt.Sprintf("serviceNetwork was %v and is %v: apply the former first", before.ServiceNetwork, now.ServiceNetwork)
	}
	for _, join := range before.JoinSubnet {
		if !slices.Contains(now.JoinSubnet, join) {
			return "ClusterNetwork/" + v.Network.Name, fmt.Sprintf("joinSubnet had %s, and has not: apply it again first", join)
		}
	}
	return "", ""
}

// versionsFit compares the agents' versions with the wanted one. Versions that are no numbers, as of a build in between, are not compared.
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
			return "Node/" + n.name, fmt.Sprintf("its agent is of version %s: from there to %s more than %d minor version is skipped; go by the versions between",
				n.network.Status.AgentVersion, v.Operand.Version, maxApart)
		}
	}
	return "", ""
}

// numbered is a version of a release; nil: it is none.
func numbered(text string) *version.Version {
	v, err := version.ParseSemantic(text)
	if err != nil || v.Major() == 0 && v.Minor() == 0 {
		return nil
	}
	return v
}

func apart(a, b uint) uint { return max(a, b) - min(a, b) }

// kernelsFit looks at the nodes' kernels.
func (v *view) kernelsFit() (object, why string) {
	oldest := version.MustParseGeneric(oldestKernel)
	for i := range v.Nodes {
		n := &v.Nodes[i]
		if kernel, err := version.ParseGeneric(n.Status.NodeInfo.KernelVersion); err == nil && kernel.LessThan(oldest) {
			return "Node/" + n.Name, fmt.Sprintf("its kernel is %s, and at least %s is needed", n.Status.NodeInfo.KernelVersion, oldestKernel)
		}
	}
	return "", ""
}
