package networkport_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// A pod without a request gets no address that somebody still has of an IPPool of its Network, although the pool shrank or was deleted.
func TestAddressesOutsideOfTheirPoolStayTaken(t *testing.T) {
	b, _ := selectedBed(t)
	first := addressesIn(b.Reconcile("demo", "web").Units[web])
	for name, c := range map[string]struct {
		ranges, network string
		holder, label   string
		free            bool
	}{
		"kept, the pool shrank":        {ranges: "10.100.0.200", network: "blue", holder: "db"},
		"reserved, the pool shrank":    {ranges: "10.100.0.200", network: "blue", label: "firewall"},
		"kept, without the pool":       {holder: "db"},
		"kept on another Network":      {ranges: "10.100.0.200", network: "red", holder: "db", free: true},
		"nobody's, the pool shrank":    {ranges: "10.100.0.200", network: "blue", free: true},
		"nobody's, the pool is absent": {free: true},
	} {
		t.Run(name, func(t *testing.T) {
			b, _ := selectedBed(t)
			f := &networkv1alpha1.FloatingIP{ObjectMeta: metav1.ObjectMeta{Name: "10.100.0.1", UID: "uid-f"}}
			f.Spec = networkv1alpha1.FloatingIPSpec{Address: "10.100.0.1", Pool: "rack"}
			if c.label != "" {
				f.Labels = map[string]string{networkv1alpha1.ReservedLabel: c.label}
			}
			if c.holder != "" {
				f.Spec.Holder = &networkv1alpha1.FloatingIPHolder{APIVersion: "apps/v1", Kind: "StatefulSet", Namespace: "demo",
					Name: c.holder, Pod: c.holder + "-0", UID: types.UID("uid-" + c.holder)}
			}
			b.Create(f)
			if c.ranges != "" {
				p := &networkv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Name: "rack"}}
				p.Spec = networkv1alpha1.IPPoolSpec{Location: networkv1alpha1.LocationUnderlay, Network: c.network,
					Ranges: []networkv1alpha1.IPPoolRange{{Addresses: c.ranges}}}
				b.Create(p)
			}
			have := addressesIn(b.Reconcile("demo", "web").Units[web])
			if free := have == first; have == "" || free != c.free {
				t.Errorf("the pod gets %s; without the FloatingIP it gets %s", have, first)
			}
		})
	}
}
