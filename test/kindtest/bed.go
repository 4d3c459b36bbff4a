// Package kindtest runs one reconciler on a fake API server and a database that only records. Tables in the packages of
// reconcilers use it to compare everything that one call of Reconcile produces: units, writes to the API server, events,
// requests to other reconcilers, the result and the error.
package kindtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	ipamclaimsv1alpha1 "github.com/k8snetworkplumbingwg/ipamclaims/pkg/crd/ipamclaims/v1alpha1"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	policyv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	cniv1beta1 "github.com/weft-network/weft/apis/cni/v1beta1"
	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/addresses/balance"
	"github.com/weft-network/weft/pkg/addresses/floating/claim"
	"github.com/weft-network/weft/pkg/addresses/lookup"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/process/resolver"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/selection"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// Start is the time of every Bed. It does not advance by itself.
var Start = time.Unix(1_000_000, 0)

// Outcome is everything that one call of Reconcile produced. The zero value is a reconciliation without any effect.
type Outcome struct {
	// Units has the text of each unit that was applied, by key: a line for each row, and one for each element that the
	// unit adds to another row. Expect does not compare their order. A unit without lines is empty, which deletes it.
	Units map[unit.Key][]string
	// Writes lists the writes to the API server in order: "patch status Service demo/web".
	Writes []string
	// Events lists the events in order: "Warning InvalidService Service demo/web: <note>".
	Events []string
	// Enqueued lists the objects that were enqueued for other reconcilers, sorted: "pod demo/web".
	Enqueued []string
	Result   ctrl.Result
	// Err is the text of the error that Reconcile returned.
	Err string
}

// Bed holds one reconciler and everything that it reads and writes.
type Bed struct {
	t *testing.T

	// API is the API server. The test's own writes through it are not recorded.
	API client.WithWatch
	// Before, if set, is called before each write of the reconciler. The write fails with the error that it returns.
	Before func(write string) error
	// Database records the units.
	Database *Database
	Env      *kind.Env
	Kinds    []*kind.Kind

	name string // of the kind that Reconcile calls

	mu             sync.Mutex
	writes, events []string
}

// New returns a Bed of the kind that is named name among the kinds that kinds returns. It holds the objects. prepare, if
// set, may change the Env before the reconcilers are made from it.
func New(t *testing.T, kinds func(*kind.Env) []*kind.Kind, name string, prepare func(*kind.Env),
	objects ...client.Object) *Bed {
	t.Helper()
	b := &Bed{t: t, Database: newDatabase(), name: name}
	scheme := newScheme(t)
	lazy, now := &lazyClient{fake.NewClientBuilder().WithScheme(scheme).Build()}, func() time.Time { return Start }
	env := &kind.Env{
		Client: lazy, Live: lazy, Database: b.Database, Events: recorder{b}, Triggers: &trigger.Set{},
		Addresses: alloc.New(now), Names: resolver.New(nil, now), Served: &kind.Served{},
		Reserved: lookup.Lookup{Client: lazy, Indexes: lookup.Indexes{ByAddress: byAddress, ByService: byService,
			ByNodePort: kind.ServicesByNodePort, ByHostPort: kind.PodsByHostPort}},
		HasNoNetwork:    func(string) bool { return false },
		Wildcards:       func(context.Context) ([]string, error) { return nil, nil },
		ClusterPolicies: func(context.Context) ([]metav1.Object, error) { return nil, nil },
	}
	env.Floating = claim.New(lazy, lazy, now)
	env.Selectors = selection.NewSelectors(env.Triggers)
	env.Selectors.Units = b.Database
	if prepare != nil {
		prepare(env)
	}
	b.Env, b.Kinds = env, kinds(env)

	b.API = newAPI(scheme, b.Kinds, objects)
	lazy.WithWatch = interceptor.NewClient(b.API, b.record())
	b.Seed(topology.NetworkUnit(facts.Network{}))
	return b
}

// lazyClient gets its objects after the reconcilers are made, because they bring the client's indexes.
type lazyClient struct{ client.WithWatch }

// The indexes that lookups of reserved destinations need. In the operator other packages have them.
const (
	byAddress = "kindtest.address"
	byService = "kindtest.service"
)

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), networkv1alpha1.AddToScheme(scheme),
		nadv1.AddToScheme(scheme), ipamclaimsv1alpha1.AddToScheme(scheme), cniv1beta1.AddToScheme(scheme),
		policyv1alpha1.Install(scheme), policyv1alpha2.Install(scheme)); err != nil {
		t.Fatal(err)
	}
	return scheme
}

func newAPI(scheme *runtime.Scheme, kinds []*kind.Kind, objects []client.Object) client.WithWatch {
	addresses := func(o client.Object) (texts []string) {
		for _, address := range facts.NodeAddresses(o) {
			texts = append(texts, address.String())
		}
		return texts
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&corev1.Node{}, &corev1.Pod{}, &corev1.Service{}, &networkv1alpha1.ClusterNetwork{},
			&networkv1alpha1.NodeNetwork{}, &networkv1alpha1.EgressIP{}, &networkv1alpha1.EgressFirewall{}, &networkv1alpha1.EgressQoS{},
			&networkv1alpha1.ExternalRoute{}, &networkv1alpha1.LoadBalancerPool{}, &networkv1alpha1.Network{},
			&networkv1alpha1.BGPPeer{}, &networkv1alpha1.BGPAdvertisement{},
			&policyv1alpha1.AdminNetworkPolicy{}, &policyv1alpha1.BaselineAdminNetworkPolicy{},
			&policyv1alpha2.ClusterNetworkPolicy{}, &ipamclaimsv1alpha1.IPAMClaim{}, &networkv1alpha1.IPPool{}).
		WithIndex(&corev1.Node{}, byAddress, addresses).
		WithIndex(&networkv1alpha1.NodeNetwork{}, byAddress, addresses).
		WithIndex(&discoveryv1.EndpointSlice{}, byService, func(o client.Object) []string {
			return []string{o.GetLabels()[discoveryv1.LabelServiceName]}
		})
	has := map[string]bool{}
	for _, k := range kinds {
		for _, index := range k.Indexes {
			builder, has[index.Field] = builder.WithIndex(index.Object, index.Field, index.Values), true
		}
	}
	for _, index := range otherIndexes {
		if !has[index.Field] {
			builder = builder.WithIndex(index.Object, index.Field, index.Values)
		}
	}
	return builder.Build()
}

// otherIndexes are the indexes that one package has and others read.
var otherIndexes = []kind.Index{
	{Object: &corev1.Service{}, Field: balance.ByAddress, Values: balance.IndexByAddress},
	{Object: &corev1.Service{}, Field: balance.ByExposed, Values: balance.IndexByExposed},
	{Object: &corev1.Service{}, Field: kind.ServicesByNodePort, Values: func(o client.Object) []string {
		service, _ := o.(*corev1.Service)
		return facts.NodePorts(service)
	}},
	{Object: &corev1.Pod{}, Field: kind.PodsByHostPort, Values: func(o client.Object) (found []string) {
		pod, _ := o.(*corev1.Pod)
		ports, _ := facts.HostPorts(pod)
		for _, port := range ports {
			found = append(found, facts.NodePort(port.Protocol, port.Port))
		}
		return found
	}},
	{Object: &corev1.Service{}, Field: kind.ServicesLeaving, Values: kind.IndexByEgressSource},
	{Object: &corev1.Pod{}, Field: kind.PodsByNode, Values: func(o client.Object) []string {
		pod, _ := o.(*corev1.Pod)
		return []string{pod.Spec.NodeName}
	}},
}

// record returns functions that note each write and pass it on.
func (b *Bed) record() interceptor.Funcs {
	write := func(verb string, o client.Object) error {
		gvk, err := b.API.GroupVersionKindFor(o)
		if err != nil {
			return err
		}
		text := fmt.Sprintf("%s %s %s", verb, gvk.Kind, nameOf(o.GetNamespace(), o.GetName()))
		b.mu.Lock()
		b.writes = append(b.writes, text)
		b.mu.Unlock()
		if b.Before != nil {
			return b.Before(text)
		}
		return nil
	}
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if err := write("create", o); err != nil {
				return err
			}
			return c.Create(ctx, o, options...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			if err := write("delete", o); err != nil {
				return err
			}
			return c.Delete(ctx, o, options...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			if err := write("update", o); err != nil {
				return err
			}
			return c.Update(ctx, o, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch,
			options ...client.PatchOption) error {
			if err := write("patch", o); err != nil {
				return err
			}
			return c.Patch(ctx, o, patch, options...)
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object,
			options ...client.SubResourceUpdateOption) error {
			if err := write("update "+sub, o); err != nil {
				return err
			}
			return c.SubResource(sub).Update(ctx, o, options...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch,
			options ...client.SubResourcePatchOption) error {
			if err := write("patch "+sub, o); err != nil {
				return err
			}
			return c.SubResource(sub).Patch(ctx, o, patch, options...)
		},
	}
}

// recorder records the events of a Bed.
type recorder struct{ bed *Bed }

// Eventf implements events.EventRecorder.
func (r recorder) Eventf(regarding, _ runtime.Object, eventType, reason, _, note string, args ...any) {
	kind, name := "?", "?"
	if o, ok := regarding.(client.Object); ok {
		name = nameOf(o.GetNamespace(), o.GetName())
		if gvk, err := r.bed.API.GroupVersionKindFor(o); err == nil {
			kind = gvk.Kind
		}
	}
	r.bed.mu.Lock()
	defer r.bed.mu.Unlock()
	text := fmt.Sprintf("%s %s %s %s: %s", eventType, reason, kind, name, fmt.Sprintf(note, args...))
	r.bed.events = append(r.bed.events, text)
}

func nameOf(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// Seed puts units into the database as another reconciler would. They are not part of an Outcome.
func (b *Bed) Seed(units ...unit.Unit) {
	for _, u := range units {
		b.Database.keep(u)
	}
}

// Create creates objects as users or agents do.
func (b *Bed) Create(objects ...client.Object) {
	b.t.Helper()
	for _, o := range objects {
		b.must(b.API.Create(b.t.Context(), o))
	}
}

// Update writes the object, including its status, whatever version of it the API server has.
func (b *Bed) Update(o client.Object) {
	b.t.Helper()
	stored, status := o.DeepCopyObject().(client.Object), o.DeepCopyObject().(client.Object)
	b.must(b.API.Get(b.t.Context(), client.ObjectKeyFromObject(o), stored))
	o.SetResourceVersion(stored.GetResourceVersion())
	b.must(b.API.Update(b.t.Context(), o))
	status.SetResourceVersion(o.GetResourceVersion())
	if err := b.API.Status().Update(b.t.Context(), status); !apierrors.IsNotFound(err) { // it has no status
		b.must(err)
	}
	b.must(b.API.Get(b.t.Context(), client.ObjectKeyFromObject(o), o))
}

// Delete deletes the object.
func (b *Bed) Delete(o client.Object) {
	b.t.Helper()
	b.must(b.API.Delete(b.t.Context(), o))
}

// Get reads the object with the name that o has.
func Get[O client.Object](b *Bed, o O) O {
	b.t.Helper()
	b.must(b.API.Get(b.t.Context(), client.ObjectKeyFromObject(o), o))
	return o
}

func (b *Bed) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// Reconcile calls Reconcile once for an object, and returns what that produced.
func (b *Bed) Reconcile(namespace, name string) Outcome {
	b.t.Helper()
	return b.ReconcileKind(b.name, namespace, name)
}

// ReconcileKind is Reconcile for another kind of the same package.
func (b *Bed) ReconcileKind(kindName, namespace, name string) Outcome {
	b.t.Helper()
	at := slices.IndexFunc(b.Kinds, func(k *kind.Kind) bool { return k.Name == kindName })
	if at < 0 {
		b.t.Fatalf("there is no kind %q", kindName)
	}
	b.take()
	request := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
	result, err := b.Kinds[at].Reconciler.Reconcile(b.t.Context(), request)
	if errors.Is(err, kind.ErrLater) {
		err = nil
	}
	outcome := b.take()
	outcome.Result = result
	if err != nil {
		outcome.Err = err.Error()
	}
	return outcome
}

// take returns what was recorded, and forgets it.
func (b *Bed) take() (o Outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o.Writes, o.Events, o.Units = b.writes, b.events, b.Database.take()
	b.writes, b.events = nil, nil
	for _, kind := range Triggers {
		for _, request := range b.Env.Triggers.Of(kind).Take() {
			o.Enqueued = append(o.Enqueued, kind+" "+nameOf(request.Namespace, request.Name))
		}
	}
	slices.Sort(o.Enqueued)
	o.Enqueued = slices.Compact(o.Enqueued)
	return o
}

// Triggers are the kinds whose requests an Outcome lists.
var Triggers = []string{topology.KindNetwork, topology.KindNode, topology.KindGateway, topology.KindPod, topology.KindService,
	topology.KindEgressIP, topology.KindExternalRoute, topology.KindLoadBalancerPool, topology.KindEgressFirewall,
	topology.KindEgressQoS, topology.KindMulticast,
	topology.KindNodes, topology.KindDNS, topology.KindPodSet, topology.KindPodGroup,
	topology.KindNetworkPolicy, topology.KindClusterNetworkPolicy, topology.KindAdminNetworkPolicy,
	topology.KindBaselineAdminNetworkPolicy, topology.KindMultiNetworkPolicy, topology.KindPodPorts,
	topology.KindPodNetwork, topology.KindIPAMClaim}

// text is the outcome as lines.
func (o Outcome) text() string {
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(o.Units)) {
		lines = append(lines, "unit "+string(key))
		for _, line := range slices.Sorted(slices.Values(o.Units[key])) {
			lines = append(lines, "  "+line)
		}
	}
	for _, list := range []struct {
		name  string
		lines []string
	}{{"write", o.Writes}, {"event", o.Events}, {"enqueued", o.Enqueued}} {
		for _, line := range list.lines {
			lines = append(lines, list.name+" "+line)
		}
	}
	if o.Result != (ctrl.Result{}) {
		lines = append(lines, fmt.Sprintf("result %+v", o.Result))
	}
	if o.Err != "" {
		lines = append(lines, "error "+o.Err)
	}
	return strings.Join(lines, "\n") + "\n"
}

// Expect reports the differences between two Outcomes.
func Expect(t *testing.T, want, have Outcome) {
	t.Helper()
	if want, have := want.text(), have.text(); want != have {
		t.Errorf("outcome (-want +have):\n%s", lineDiff(want, have))
	}
}

// lineDiff marks the lines of two texts that only one of them has.
func lineDiff(want, have string) string {
	var text strings.Builder
	wanted, had := strings.Split(want, "\n"), strings.Split(have, "\n")
	for _, line := range wanted {
		if !slices.Contains(had, line) {
			fmt.Fprintf(&text, "- %s\n", line)
		}
	}
	for _, line := range had {
		if !slices.Contains(wanted, line) {
			fmt.Fprintf(&text, "+ %s\n", line)
		}
	}
	return text.String() + "all of it:\n" + have
}

// ExpectSettled reconciles an object that has not changed since it was last reconciled. It reports an error if that writes
// to the API server, records an event, enqueues something, fails, or applies another unit than before: the engine writes
// nothing for an equal unit.
func (b *Bed) ExpectSettled(namespace, name string) {
	b.t.Helper()
	want := Outcome{Units: map[unit.Key][]string{}}
	before := b.Database.texts()
	have := b.Reconcile(namespace, name)
	for key := range have.Units {
		want.Units[key] = before[key]
	}
	Expect(b.t, want, have)
}

// Pick returns the lines that contain one of the texts.
func Pick(lines []string, texts ...string) (picked []string) {
	for _, line := range lines {
		if slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(line, text) }) {
			picked = append(picked, line)
		}
	}
	return picked
}
