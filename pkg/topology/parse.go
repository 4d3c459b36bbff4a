package topology

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/unit"
)

// ParsePodPortRow reads a pod's assignment back from its port. ok is false for ports that PodUnit did not create. With an error, found
// has the pod's name and the floating addresses that could be read.
func ParsePodPortRow(row *nbdb.LogicalSwitchPort) (found PortAssignment, ok bool, err error) {
	owner := unit.Key(row.ExternalIDs[unit.OwnerKey])
	if owner.Kind() != KindPod {
		return found, false, nil
	}
	found.Namespace, found.Name, ok = strings.Cut(owner.Name(), "/")
	if !ok || found.Namespace == "" || found.Name == "" || strings.Contains(found.Name, "/") {
		return found, false, fmt.Errorf("port %s: owner %q is not a pod", row.Name, owner)
	}
	found.UID, found.Chassis = row.Options[names.InterfaceVersion], row.Options[names.RequestedChassis]
	// A pod keeps its own addresses even if this mark was damaged.
	found.Translated, _ = ovnexpr.ParseAddresses(row.ExternalIDs, ovnexpr.TranslatedKey)
	if found.Floating, err = ovnexpr.ParseAddresses(row.ExternalIDs, ovnexpr.FloatingKey); err != nil {
		return found, false, fmt.Errorf("port %s: %w", row.Name, err)
	}
	if found.Slot, err = strconv.Atoi(row.Options[requestedTunnelKey]); err != nil {
		return found, false, fmt.Errorf("port %s: %s: %w", row.Name, requestedTunnelKey, err)
	}
	if len(row.Addresses) != 1 {
		return found, false, fmt.Errorf("port %s: %d addresses elements, want 1", row.Name, len(row.Addresses))
	}
	address, err := ovnexpr.ParsePortAddress(row.Addresses[0])
	if err != nil {
		return found, false, fmt.Errorf("port %s: %w", row.Name, err)
	}
	found.Addresses, found.MAC = address.Addresses, address.MAC
	found.Changed = !slices.Equal(row.Addresses, row.PortSecurity)
	return found, true, nil
}
