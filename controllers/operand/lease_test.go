package operand_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	operands "github.com/weft-network/weft/controllers/operand"
	"github.com/weft-network/weft/pkg/process/leadership"
	"github.com/weft-network/weft/pkg/process/leadership/leadershiptest"
)

// leaderships counts the leaderships of one process.
type leaderships struct {
	mu      sync.Mutex
	elected <-chan struct{} // of the current manager, or nil
	ends    int
	cause   error // of the last end
}

func (l *leaderships) seen(mgr ctrl.Manager) func(error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.elected = mgr.Elected()
	return func(cause error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.elected, l.ends, l.cause = nil, l.ends+1, cause
	}
}

func (l *leaderships) leads() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.elected:
		return true
	default:
		return false
	}
}

// lost returns an error until the lease was lost n times.
func (l *leaderships) lost(n int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ends < n || !errors.Is(l.cause, leadership.ErrLost) {
		return fmt.Errorf("%d leaderships ended, the last by %w; want %d, by a lost lease", l.ends, l.cause, n)
	}
	return nil
}

// When the API server accepts no renewal, the leadership ends, but the process continues and leads again once the API
// server responds. This happens three times. Each new leadership reverts the changes made meanwhile.
func TestLostLeaseIsNoCrash(t *testing.T) {
	ctx := t.Context()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "l1"}}
	must(t, api.Create(ctx, node))
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.11"}}
	must(t, api.Status().Update(ctx, node))
	cn := &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: networkv1alpha1.ClusterNetworkSpec{
		ClusterNetwork: []networkv1alpha1.ClusterNetworkEntry{{CIDR: "10.244.0.0/16"}},
		ServiceNetwork: []networkv1alpha1.CIDR{"10.96.0.0/16"}}}
	must(t, api.Create(ctx, cn))
	path, counted := &leadershiptest.Path{}, &leaderships{}
	path.Judge(counted.leads)
	lease := leadership.Lease{Namespace: namespace, Name: "weft-operands", Identity: t.Name(),
		Duration: 8 * time.Second, Renew: 2 * time.Second, Retry: 200 * time.Millisecond}
	stop := startOn(t, path.Config(product), lease, operands.Options{Now: time.Now, Patience: time.Minute,
		Facts: factsOf("test")}, counted.seen)
	eventually(t, func() error { return all(ctx) })
	for n := 1; n <= 3; n++ {
		path.Hold(leadershiptest.Everything)
		eventually(t, func() error { return counted.lost(n) })
		changed := &appsv1.DaemonSet{}
		must(t, api.Get(ctx, own("weft-agent"), changed))
		changed.Spec.Template.Spec.Containers[0].Image = "else:1"
		must(t, api.Update(ctx, changed))
		path.Pass()
		eventually(t, func() error {
			must(t, api.Get(ctx, client.ObjectKeyFromObject(changed), changed))
			if image := changed.Spec.Template.Spec.Containers[0].Image; image != "weft:test" {
				return fmt.Errorf("image %s", image)
			}
			return nil
		})
	}
	stop()
	if strays := path.Strays(); len(strays) > 0 {
		t.Errorf("written without the lease: %s", strings.Join(strays, ", "))
	}

	deleteNetwork(t, cn)
	must(t, api.Delete(ctx, node))
}
