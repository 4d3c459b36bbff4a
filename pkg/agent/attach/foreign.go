package attach

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/neighbour"
)

const (
	// foreignTime is how long pods avoid an address after a foreign host has answered for it.
	foreignTime = time.Hour
	// renewTime is how long an answer counts before the next one of the same host renews it, so that a pod that is tried again and
	// again causes few writes.
	renewTime = foreignTime / 2
)

// ForeignHosts remembers the hosts on segments that answered for addresses which pods were to get.
type ForeignHosts struct {
	changed func()
	after   func(time.Duration)

	mu    sync.Mutex
	begun bool // the report of an earlier process was read
	hosts map[foreignKey]networkv1alpha1.ForeignHost
}

// foreignKey is what a foreign host has.
type foreignKey struct {
	physicalNetwork networkv1alpha1.PhysicalNetworkName
	vlan            int32
	address         netip.Addr
}

// NewForeignHosts returns an empty record. changed is called when a host answers, or no longer does, and after with the time until the
// next host is forgotten.
func NewForeignHosts(changed func(), after func(time.Duration)) *ForeignHosts {
	return &ForeignHosts{changed: changed, after: after, hosts: map[foreignKey]networkv1alpha1.ForeignHost{}}
}

// answered records that a host answered for an address of an interface.
func (f *ForeignHosts) answered(vif desired.VIF, used *neighbour.UsedError, now time.Time) {
	key := foreignKey{networkv1alpha1.PhysicalNetworkName(vif.PhysicalNetwork), int32(vif.VLAN), used.Address}
	mac := networkv1alpha1.MACAddress(used.MAC.String())
	f.mu.Lock()
	former := f.hosts[key]
	isNew := former.MACAddress != mac || now.Sub(former.AnsweredAt.Time) >= renewTime
	if isNew {
		f.hosts[key] = networkv1alpha1.ForeignHost{PhysicalNetwork: key.physicalNetwork, VLAN: key.vlan,
			Address: networkv1alpha1.IP(used.Address.String()), MACAddress: mac, AnsweredAt: metav1.NewTime(now.Truncate(time.Second))}
	}
	f.mu.Unlock()
	if isNew {
		f.changed()
	}
}

// silent records that no host answered for the addresses of an interface.
func (f *ForeignHosts) silent(vif desired.VIF, addresses []netip.Addr) {
	f.mu.Lock()
	known := len(f.hosts)
	for _, address := range addresses {
		delete(f.hosts, foreignKey{networkv1alpha1.PhysicalNetworkName(vif.PhysicalNetwork), int32(vif.VLAN), address})
	}
	forgotten := len(f.hosts) < known
	f.mu.Unlock()
	if forgotten {
		f.changed()
	}
}

// Report returns the hosts, sorted, and of more than networkv1alpha1.MaxForeignHosts the latest. Its first call takes over what an earlier
// process reported.
func (f *ForeignHosts) Report(reported []networkv1alpha1.ForeignHost, now time.Time) (hosts []networkv1alpha1.ForeignHost) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.begun {
		f.begun = true
		for _, host := range reported {
			address, err := host.Address.Addr()
			key := foreignKey{host.PhysicalNetwork, host.VLAN, address}
			if _, known := f.hosts[key]; err == nil && !known {
				f.hosts[key] = host
			}
		}
	}
	next := foreignTime
	for key, host := range f.hosts {
		left := foreignTime - now.Sub(host.AnsweredAt.Time)
		if left <= 0 {
			delete(f.hosts, key)
			continue
		}
		hosts, next = append(hosts, host), min(next, left)
	}
	if len(hosts) > 0 {
		f.after(next)
	}
	slices.SortFunc(hosts, func(a, b networkv1alpha1.ForeignHost) int { return b.AnsweredAt.Compare(a.AnsweredAt.Time) })
	hosts = hosts[:min(len(hosts), networkv1alpha1.MaxForeignHosts)]
	slices.SortFunc(hosts, func(a, b networkv1alpha1.ForeignHost) int {
		return cmp.Or(cmp.Compare(a.PhysicalNetwork, b.PhysicalNetwork), cmp.Compare(a.VLAN, b.VLAN), cmp.Compare(a.Address, b.Address))
	})
	return hosts
}
