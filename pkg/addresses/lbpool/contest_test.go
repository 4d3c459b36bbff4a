package lbpool

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// An older IPPool or EgressIP takes the ranges of a pool, but no address that a Service has, unless its loss is confirmed.
func TestAnOlderObjectTakesNoAddressOfAService(t *testing.T) {
	created := metav1.NewTime(time.Unix(1000, 0))
	pool := networkv1alpha1.LoadBalancerPool{ObjectMeta: metav1.ObjectMeta{Name: "edge", CreationTimestamp: created},
		Spec:   networkv1alpha1.LoadBalancerPoolSpec{Addresses: []networkv1alpha1.LoadBalancerRange{"192.0.2.0/30"}},
		Status: networkv1alpha1.LoadBalancerPoolStatus{Used: 1, InUse: []networkv1alpha1.IP{"192.0.2.2"}}}
	older, younger := metav1.NewTime(time.Unix(999, 0)), metav1.NewTime(time.Unix(1001, 0))
	confirmed := *pool.DeepCopy()
	confirmed.Annotations = map[string]string{networkv1alpha1.ConfirmLossAnnotation: "edge"}
	for name, c := range map[string]struct {
		pool    networkv1alpha1.LoadBalancerPool
		created metav1.Time
		want    string
	}{
		"a younger object":      {pool, younger, "[192.0.2.0-192.0.2.3]"},
		"an older object":       {pool, older, "[192.0.2.2]"},
		"the loss is confirmed": {confirmed, older, "[]"},
	} {
		pools := []networkv1alpha1.LoadBalancerPool{c.pool}
		if have := fmt.Sprint(Kept(pools, c.created)); have != c.want {
			t.Errorf("%s: %s, want %s", name, have, c.want)
		}
	}
}
