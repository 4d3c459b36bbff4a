package kind

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

func TestZone(t *testing.T) {
	for _, c := range []struct {
		zone      Zone
		node      networkv1alpha1.ZoneName
		follows   bool
		elsewhere bool
	}{
		{"", "", false, false}, {"", "east", false, true},
		{"east", "", true, true}, {"east", "east", true, false}, {"east", "west", true, true},
	} {
		nn := &networkv1alpha1.NodeNetwork{Spec: networkv1alpha1.NodeNetworkSpec{Zone: c.node}}
		if c.zone.Follows() != c.follows || c.zone.Elsewhere(nn) != c.elsewhere {
			t.Errorf("zone %q and a node in %q: follows is %t, elsewhere %t", c.zone, c.node, c.zone.Follows(), c.zone.Elsewhere(nn))
		}
	}
}

// writer is a client that counts the writes that it receives.
type writer struct {
	client.Client
	count int
}

func newWriter() *writer {
	w := &writer{}
	done := func() error { w.count++; return nil }
	w.Client = interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return done() },
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error { return done() },
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return done() },
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return done()
		},
		DeleteAllOf: func(context.Context, client.WithWatch, client.Object, ...client.DeleteAllOfOption) error {
			return done()
		},
		Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			return done()
		},
		SubResourceCreate: func(context.Context, client.Client, string, client.Object, client.Object, ...client.SubResourceCreateOption) error {
			return done()
		},
		SubResourceUpdate: func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
			return done()
		},
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return done()
		},
		SubResourceApply: func(context.Context, client.Client, string, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
			return done()
		},
	})
	return w
}

func TestOwnNodes(t *testing.T) {
	for zones, want := range map[string]string{",,": "0 1 2", ",east,": "0 2", "east,": "1", "east,east": "", ",east": "0"} {
		var all []networkv1alpha1.NodeNetwork
		for i, zone := range strings.Split(zones, ",") {
			var nn networkv1alpha1.NodeNetwork
			nn.Name, nn.Spec.Zone = strconv.Itoa(i), networkv1alpha1.ZoneName(zone)
			all = append(all, nn)
		}
		before := slices.Clone(all)
		var have []string
		for _, nn := range Zone("").Own(all) {
			have = append(have, nn.Name)
		}
		if got := strings.Join(have, " "); got != want {
			t.Errorf("of zones %q the nodes %q are our own, want %q", zones, got, want)
		}
		if !equality.Semantic.DeepEqual(all, before) {
			t.Errorf("zones %q: the list has changed", zones)
		}
	}
}

// A zone's operator writes pods and the statuses of pods and NodeNetworks. It leaves out other statuses, because the cluster's operator
// writes the same, and fails for each other write.
func TestFollowersWrites(t *testing.T) {
	const passes, refused, leftOut = "passes", "refused", "left out"
	pod, nn := &corev1.Pod{}, &networkv1alpha1.NodeNetwork{}
	others := []client.Object{&corev1.Node{}, &corev1.Service{}, &networkv1alpha1.ClusterNetwork{}, &networkv1alpha1.EgressIP{},
		&networkv1alpha1.FloatingIP{}}
	patch := client.RawPatch("application/merge-patch+json", []byte("{}"))
	applied := client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{})
	for name, c := range map[string]struct {
		write            func(client.Client, client.Object) error
		pod, node, other string
	}{
		"create":     {func(c client.Client, o client.Object) error { return c.Create(t.Context(), o) }, refused, refused, refused},
		"update":     {func(c client.Client, o client.Object) error { return c.Update(t.Context(), o) }, refused, refused, refused},
		"delete":     {func(c client.Client, o client.Object) error { return c.Delete(t.Context(), o) }, refused, refused, refused},
		"delete all": {func(c client.Client, o client.Object) error { return c.DeleteAllOf(t.Context(), o) }, refused, refused, refused},
		"patch":      {func(c client.Client, o client.Object) error { return c.Patch(t.Context(), o, patch) }, passes, refused, refused},
		"apply":      {func(c client.Client, _ client.Object) error { return c.Apply(t.Context(), applied) }, refused, refused, refused},
		"patch status": {func(c client.Client, o client.Object) error { return c.Status().Patch(t.Context(), o, patch) },
			passes, passes, leftOut},
		"update status": {func(c client.Client, o client.Object) error { return c.Status().Update(t.Context(), o) },
			leftOut, leftOut, leftOut},
		"create status": {func(c client.Client, o client.Object) error { return c.Status().Create(t.Context(), o, o) },
			leftOut, leftOut, leftOut},
		"apply status": {func(c client.Client, _ client.Object) error { return c.Status().Apply(t.Context(), applied) },
			leftOut, leftOut, leftOut},
		"create a part": {func(c client.Client, o client.Object) error { return c.SubResource("status").Create(t.Context(), o, o) },
			refused, refused, refused},
		"update a part": {func(c client.Client, o client.Object) error { return c.SubResource("status").Update(t.Context(), o) },
			refused, refused, refused},
		"patch a part": {func(c client.Client, o client.Object) error {
			return c.SubResource("status").Patch(t.Context(), o, patch)
		},
			refused, refused, refused},
		"apply a part": {func(c client.Client, _ client.Object) error {
			return c.SubResource("status").Apply(t.Context(), applied)
		},
			refused, refused, refused},
	} {
		expect := func(zone Zone, o client.Object, want string) {
			t.Helper()
			w := newWriter()
			err := c.write(zone.Client(w.Client), o)
			have := leftOut
			switch {
			case err == nil && w.count > 0:
				have = passes
			case errors.Is(err, ErrFollows) && w.count == 0:
				have = refused
			case err != nil:
				have = err.Error()
			}
			if have != want {
				t.Errorf("zone %q: %s %T: %s, want %s", zone, name, o, have, want)
			}
		}
		expect("east", pod, c.pod)
		expect("east", nn, c.node)
		for _, o := range others {
			expect("east", o, c.other)
			expect("", o, passes)
		}
		expect("", pod, passes)
	}
}

// A zone's operator reads all objects.
func TestFollowersReads(t *testing.T) {
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	c := Zone("east").Client(fake.NewClientBuilder().WithObjects(object).Build())
	var list corev1.NodeList
	if err := errors.Join(c.Get(t.Context(), client.ObjectKeyFromObject(object), object), c.List(t.Context(), &list)); err != nil ||
		len(list.Items) != 1 {
		t.Errorf("%d nodes (%v)", len(list.Items), err)
	}
}

// notes is a recorder that keeps the reasons of events.
type notes []string

func (n *notes) Eventf(_, _ runtime.Object, _, reason, _, _ string, _ ...any) {
	*n = append(*n, reason)
}

// A zone's operator records the events of pods alone, because the cluster's operator records the others.
func TestFollowersEvents(t *testing.T) {
	for zone, want := range map[Zone][]string{"": {"of a pod", "of a node"}, "east": {"of a pod"}} {
		var have notes
		events := zone.Events(&have)
		events.Eventf(&corev1.Pod{}, nil, corev1.EventTypeNormal, "of a pod", "Test", "note")
		events.Eventf(&corev1.Node{}, &corev1.Pod{}, corev1.EventTypeNormal, "of a node", "Test", "note")
		if !slices.Equal(have, want) {
			t.Errorf("zone %q records %v, want %v", zone, have, want)
		}
	}
}
