package operand_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/install/member"
	"github.com/weft-network/weft/pkg/install/render"
)

// cluster simulates the members of the databases. A member with an order to create or to join executes it at once.
type cluster struct {
	mu      sync.Mutex
	made    int
	order   map[string]member.Order // by address
	servers map[string]string       // address -> node, of joined members
	kicked  []string
	left    []string
	silent  map[string]bool
}

var errSilent = errors.New("no route to host")

func (c *cluster) send(_ context.Context, address string, id member.Identity, order member.Order) (member.State, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.silent[address] || len(id.Key) == 0 {
		return member.State{}, errSilent
	}
	if order.Self != "" {
		c.follow(address, order)
	}
	state := member.State{Order: c.order[address], Databases: map[string]member.DatabaseState{}}
	for database := range member.Databases {
		s := member.DatabaseState{}
		if node, joined := c.servers[address]; joined {
			s.File = member.FileState{Kind: member.Clustered, Cluster: "cluster-" + database, Server: "id-of-" + node}
			s.Status, s.Connected, s.Leads = "cluster member", true, address == slices.Min(slices.Collect(maps.Keys(c.servers)))
			for _, other := range c.servers {
				s.Servers = append(s.Servers, member.Listed{ID: "id-of-" + other, Address: member.Raft(member.Run, other, database)})
			}
		}
		state.Databases[database] = s
	}
	return state, nil
}

func (c *cluster) follow(address string, order member.Order) {
	nb := order.Databases["nb"]
	if nb.Create {
		c.made++
	}
	if nb.Create || nb.Cluster == "cluster-nb" {
		c.servers[address] = order.Self
	}
	for _, server := range nb.Kick {
		for at, node := range c.servers {
			if member.Raft(member.Run, node, "nb") == server {
				delete(c.servers, at)
				c.kicked = append(c.kicked, node)
			}
		}
	}
	if nb.Leave {
		delete(c.servers, address)
		c.left = append(c.left, order.Self)
	}
	kept := member.Order{Self: order.Self, Peers: order.Peers, Databases: map[string]member.DatabaseOrder{}}
	for database, d := range order.Databases {
		d.Kick, d.Leave = nil, false
		kept.Databases[database] = d
	}
	c.order[address] = kept
}

// change runs a function that changes or reads the cluster.
func (c *cluster) change(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
}

// TestMembersOfTheDatabases checks that one cluster is created, that all members join it, and that another node
// replaces the member of a deleted node.
func TestMembersOfTheDatabases(t *testing.T) {
	ctx := t.Context()
	for i, name := range []string{"m1", "m2", "m3", "m4"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		must(t, api.Create(ctx, n))
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("192.0.2.%d", 101+i)}}
		must(t, api.Status().Update(ctx, n))
	}
	c := &cluster{order: map[string]member.Order{}, servers: map[string]string{}, silent: map[string]bool{"192.0.2.103": true}}
	_, stop := startWith(t, "test", c.send)
	cn := &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: networkv1alpha1.ClusterNetworkSpec{
		ClusterNetwork: []networkv1alpha1.ClusterNetworkEntry{{CIDR: "10.244.0.0/16"}},
		ServiceNetwork: []networkv1alpha1.CIDR{"10.96.0.0/16"},
		Databases:      networkv1alpha1.Databases{Members: 3}}}
	must(t, api.Create(ctx, cn))
	roles := func(want string) {
		t.Helper()
		eventually(t, func() error {
			now := &networkv1alpha1.ClusterNetwork{}
			must(t, api.Get(ctx, client.ObjectKeyFromObject(cn), now))
			if now.Status.Databases == nil {
				return errors.New("the status has no members")
			}
			var words []string
			for _, m := range now.Status.Databases.Members {
				words = append(words, fmt.Sprintf("%s %s/%s", m.Node, m.Northbound, m.Southbound))
			}
			if have := strings.Join(words, ", "); have != want {
				return fmt.Errorf("members %s, want %s", have, want)
			}
			return nil
		})
	}

	// No cluster is created while a member does not reply, because it may have one.
	roles("m1 Joining/Joining, m2 Joining/Joining, m3 Unknown/Unknown")
	c.change(func() {
		if c.made != 0 {
			t.Errorf("%d orders to create while a member was silent", c.made)
		}
		c.silent = map[string]bool{}
	})
	roles("m1 Leader/Leader, m2 Follower/Follower, m3 Follower/Follower")
	central := &appsv1.StatefulSet{}
	must(t, api.Get(ctx, own(render.Central), central))
	if noted := central.Annotations[render.AnnotationClusters]; noted != `{"nb":"cluster-nb","sb":"cluster-sb"}` ||
		*central.Spec.Replicas != 3 {
		t.Errorf("noted is %s, of %d", noted, *central.Spec.Replicas)
	}
	c.change(func() {
		if c.made != 1 {
			t.Errorf("%d orders to create", c.made)
		}
	})

	// All disks are lost. No second cluster is created.
	c.change(func() { c.servers, c.order = map[string]string{"192.0.2.102": "m2"}, map[string]member.Order{} })
	roles("m1 Leader/Leader, m2 Follower/Follower, m3 Follower/Follower")
	c.change(func() {
		if c.made != 1 {
			t.Errorf("%d orders to create since disks were lost", c.made)
		}
	})

	must(t, api.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m2"}}))
	c.change(func() { c.silent["192.0.2.102"] = true })
	roles("m1 Leader/Leader, m4 Follower/Follower, m3 Follower/Follower")
	eventually(t, func() (err error) {
		c.change(func() {
			if !slices.Equal(c.kicked, []string{"m2"}) {
				err = fmt.Errorf("kicked are %q", c.kicked)
			}
		})
		return err
	})
	eventually(t, func() error { return eventRecorded(ctx, "MemberReplaced") })

	// Three become one: the others leave, while the first member replies.
	c.change(func() { c.silent["192.0.2.101"] = true })
	members := func(n int) {
		t.Helper()
		must(t, api.Patch(ctx, cn, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"databases":{"members":%d}}}`, n))))
	}
	members(1)
	roles("m1 Unknown/Unknown, m4 Leaving/Leaving, m3 Leaving/Leaving")
	c.change(func() {
		if len(c.left) > 0 {
			t.Errorf("%q left while the first member was silent", c.left)
		}
		delete(c.silent, "192.0.2.101")
	})
	eventually(t, func() error {
		must(t, api.Get(ctx, own(render.Central), central))
		must(t, api.Get(ctx, client.ObjectKeyFromObject(cn), cn))
		if *central.Spec.Replicas != 1 || central.Annotations[render.AnnotationNode] != "m1" || cn.Status.Databases != nil {
			return fmt.Errorf("%d replicas on %s, status %+v", *central.Spec.Replicas, central.Annotations[render.AnnotationNode],
				cn.Status.Databases)
		}
		return nil
	})
	noted, former := central.Annotations[render.AnnotationClusters], central.Annotations[render.AnnotationFormer]
	c.change(func() {
		if noted != "" || former != "cluster-nb cluster-sb" || !slices.Equal(c.left, []string{"m3", "m4"}) {
			t.Errorf("noted is %q, former %q; %q left", noted, former, c.left)
		}
	})
	eventually(t, func() error { return eventRecorded(ctx, "ClusterEnded") })
	stop()

	deleteNetwork(t, cn)
	for _, name := range []string{"m1", "m3", "m4"} {
		must(t, api.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
}
