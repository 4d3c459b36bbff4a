package node

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/test/kindtest"
)

// A node gets the names with wildcards that are in use, and the name servers of the cluster. Without names it gets neither.
func TestWildcardsOfANode(t *testing.T) {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-dns"},
		Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.10", "fd02::a"}}}
	configured := aNetwork("10.244.0.0/16 24")
	configured.Spec.DNS.Nameservers = []networkv1alpha1.IP{"169.254.20.10"}
	two := []string{"*.example.com", "*.example.org"}
	for name, c := range map[string]struct {
		names   []string
		objects []client.Object
		want    *networkv1alpha1.NodeWildcards
	}{
		"none": {nil, []client.Object{aNetwork("10.244.0.0/16 24"), service}, nil},
		"the servers of the Service": {two, []client.Object{aNetwork("10.244.0.0/16 24"), service},
			&networkv1alpha1.NodeWildcards{Names: two, Nameservers: []networkv1alpha1.IP{"10.96.0.10", "fd02::a"}}},
		"configured servers": {two, []client.Object{configured, service},
			&networkv1alpha1.NodeWildcards{Names: two, Nameservers: []networkv1alpha1.IP{"169.254.20.10"}}},
		"no servers": {two, []client.Object{aNetwork("10.244.0.0/16 24")}, &networkv1alpha1.NodeWildcards{Names: two}},
	} {
		t.Run(name, func(t *testing.T) {
			b := kindtest.New(t, Kinds, topology.KindNode, func(env *kind.Env) {
				env.Wildcards = func(context.Context) ([]string, error) { return c.names, nil }
			}, append(c.objects, aNode())...)
			b.Reconcile("", "n1")
			have := kindtest.Get(b, aNodeNetwork()).Spec.Wildcards
			if (have == nil) != (c.want == nil) || have != nil &&
				(!slices.Equal(have.Names, c.want.Names) || !slices.Equal(have.Nameservers, c.want.Nameservers)) {
				t.Errorf("wildcards %+v, want %+v", have, c.want)
			}
			b.ExpectSettled("", "n1")
		})
	}
}

// Another list enqueues all nodes.
func TestOtherWildcardsEnqueueNodes(t *testing.T) {
	b := kindtest.New(t, Kinds, topology.KindNode, nil, aNetwork("10.244.0.0/16 24"), aNode())
	b.Env.WildcardsChanged.Publish(struct{}{})
	if have := b.Env.Triggers.Of(topology.KindNode).Take(); len(have) != 1 || have[0].Name != "n1" {
		t.Errorf("enqueued are %v", have)
	}
}
