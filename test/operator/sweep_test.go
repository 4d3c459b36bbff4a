package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
)

func TestSweepAfterARestart(t *testing.T) {
	w := newWorld(t)
	o, pods := w.settled([]string{"n1", "n2"}, 20)
	o.stop()
	foreign := strings.TrimSpace(w.nb.Ctl("--", "--id=@p", "create", "Logical_Switch_Port", "name=foreign", "--",
		"add", "Logical_Switch", "n1", "ports", "@p"))
	unknown := strings.TrimSpace(w.nb.Ctl("create", "Logical_Switch", "name=later", `external_ids:"weft.dev/unit"="subnet/later"`))
	gone, kept := pods[5:], pods[:5] // 35 of 40
	for _, pod := range gone {
		w.delete(pod)
	}
	w.delete(w.node("n2"))

	o = w.start()
	w.until(func() error {
		if ports := w.podPorts(); len(ports) != len(kept) {
			return fmt.Errorf("%d pod ports remain, want %d", len(ports), len(kept))
		}
		if _, ok := ovndb.Find(w.rows, &nbdb.LogicalSwitch{Name: "n2"}); ok {
			return errors.New("the switch of node n2 remains")
		}
		return nil
	})
	for _, pod := range kept {
		w.port(pod)
	}
	w.says(w.event("default", "RowsKept"), "1 subnet", "does not have the kind")
	o.settle()
	for table, uuid := range map[string]string{"Logical_Switch_Port": foreign, "Logical_Switch": unknown} {
		if got := w.nb.Ctl("--if-exists", "get", table, uuid, "_uuid"); strings.TrimSpace(got) != uuid {
			t.Errorf("row %s of %s is gone", uuid, table)
		}
	}
	w.counted(len(kept))
}

// TestAClusterNetworkIsMadeAgain checks that a ClusterNetwork recreated while the operator runs, as when its
// deletion is reverted, changes no row and no node's settings, not even before its status is written.
func TestAClusterNetworkIsMadeAgain(t *testing.T) {
	w := newWorld(t)
	_, pods := w.settled([]string{"n1", "n2"}, 3)
	before, generations := w.dump(), []int64{w.nodeNetwork("n1").Generation, w.nodeNetwork("n2").Generation}
	cn := &networkv1alpha1.ClusterNetwork{}
	w.must(api.Get(t.Context(), client.ObjectKey{Name: "default"}, cn))
	w.delete(cn)
	w.must(api.Create(t.Context(), &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: cn.Name}, Spec: cn.Spec}))
	w.counted(len(pods))
	w.ready("n1", "n2")
	if after := w.dump(); !slices.Equal(before, after) {
		t.Errorf("rows differ:\n%s", difference(before, after))
	}
	if now := []int64{w.nodeNetwork("n1").Generation, w.nodeNetwork("n2").Generation}; !slices.Equal(now, generations) {
		t.Errorf("NodeNetworks have generations %v, had %v", now, generations)
	}
}

func TestNothingIsSweptWithoutAClusterNetwork(t *testing.T) {
	w := newWorld(t)
	o, pods := w.settled([]string{"n1"}, 3)
	before := w.dump()
	o.stop()
	w.delete(&networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	w.delete(pods[0])
	o = w.start()
	w.until(func() error {
		if !o.engine.Connected() {
			return errors.New("not connected")
		}
		return nil
	})
	added := w.create("n1", "added")[0] // the node has its network, so its pods get ports
	port := w.port(added)
	o.settle()
	if after := without(w.dump(), port); !slices.Equal(before, after) {
		t.Errorf("rows differ:\n%s", difference(before, after))
	}
	w.must(unavailable("n1", corev1.ConditionFalse))
}

// TestDatabaseOfAnotherCluster gives the operator the wrong database: it must not even write its fence to another
// cluster's database.
func TestDatabaseOfAnotherCluster(t *testing.T) {
	w := newWorld(t)
	o, pods := w.settled([]string{"n1", "n2"}, 15)
	o.stop()
	w.nb.Ctl("set", "Logical_Router", "ovn_cluster_router", `external_ids:"weft.dev/cluster"=another`)
	for _, pod := range pods {
		w.delete(pod)
	}
	before, log := w.dump(), w.nb.Transactions()

	o = w.start()
	w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
		return errors.Join(
			condition(s.Conditions, networkv1alpha1.ConditionReady, networkv1alpha1.ReasonDatabaseError, metav1.ConditionFalse),
			condition(s.Conditions, networkv1alpha1.ConditionDegraded, networkv1alpha1.ReasonDatabaseError, metav1.ConditionTrue))
	})
	var cn networkv1alpha1.ClusterNetwork
	w.must(view.Get(context.Background(), client.ObjectKey{Name: "default"}, &cn))
	for _, c := range cn.Status.Conditions {
		if c.Type == networkv1alpha1.ConditionProgressing {
			continue
		}
		w.says(c.Message, "another", "weft.dev/cluster")
	}
	waiting := w.create("n1", "waiting")[0]
	if after := w.dump(); !slices.Equal(before, after) || w.nb.Transactions() != log || o.transactions() != 0 {
		t.Errorf("%d transactions; rows differ:\n%s", w.nb.Transactions()-log, difference(before, after))
	}

	w.nb.Ctl("remove", "Logical_Router", "ovn_cluster_router", "external_ids", "weft.dev/cluster")
	w.port(waiting)
	w.until(func() error {
		if ports := w.podPorts(); len(ports) != 1 {
			return fmt.Errorf("%d pod ports", len(ports))
		}
		return nil
	})
	w.counted(1)
}

// TestBalancersOfAPodWhoseNodeIsGone covers a pod's load balancers that survive its port, which was deleted with its
// node's switch. If the process ended before it deleted them, the next process must, although the pod's addresses
// are no longer available.
func TestBalancersOfAPodWhoseNodeIsGone(t *testing.T) {
	w := newWorld(t)
	o, _ := w.settled([]string{"n1", "n2"}, 0)
	object := pod("web", "n2")
	object.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
	w.run(object)
	w.port(object)
	balancers := func(want int) {
		t.Helper()
		w.until(func() error {
			have := 0
			for _, row := range w.selectRows()[nbdb.LoadBalancerTable] {
				if slices.Contains(row["external_ids"], "weft.dev/unit=pod/default/web") {
					have++
				}
			}
			if have != want {
				return fmt.Errorf("%d balancers, want %d", have, want)
			}
			return nil
		})
	}
	balancers(2)
	o.stop()
	w.delete(w.nodeNetwork("n2"))
	w.delete(w.node("n2"))
	w.nb.Ctl("ls-del", "n2")
	w.start()
	balancers(0)
}
