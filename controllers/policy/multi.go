package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cniv1beta1 "github.com/weft-network/weft/apis/cni/v1beta1"
	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/acllog/annotation"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/invariant"
	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// Multi reconciles MultiNetworkPolicies, which apply to pods' ports on Networks, with the groups and sets of those
// ports. If the API server does not serve the kind, there are no policies.
type Multi struct {
	*Reconciler
	*Optional
}

// reasonNotApplied is the reason of the event on a policy that does not apply to a listed definition.
const reasonNotApplied = "PolicyNotApplied"

// Reconcile implements reconcile.Reconciler.
func (r *Multi) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if err := r.Selectors.Load(ctx); err != nil {
		return ctrl.Result{}, err
	}
	key, policy := topology.MultiNetworkPolicyKey(req.Namespace, req.Name), &cniv1beta1.MultiNetworkPolicy{}
	found, err := r.get(ctx, req.NamespacedName, policy)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !found {
		r.Selectors.Read(key, nil)
		return ctrl.Result{}, r.settle(ctx, unit.Unit{Key: key}, nil)
	}
	on, apart, err := networksOf(ctx, r.Client, policy)
	if err != nil {
		return ctrl.Result{}, err
	}
	read, invalid, err := r.use(ctx, policy, on)
	if err != nil {
		return ctrl.Result{}, err
	}
	selectors := topology.MultiNetworkPolicySelectors(read)
	if _, ready := r.Selectors.Unmade(selectors); !ready {
		// the groups and sets that wait for a pod enqueue this policy when they are created; until then the previous rules stay
		return ctrl.Result{}, nil
	}
	if read.Logging, err = annotation.Of(ctx, r.Client, r.Events, policy); err != nil {
		return ctrl.Result{}, err
	}
	applied := r.settle(ctx, topology.MultiNetworkPolicyUnit(read), selectors)
	r.report(policy, invalid, errors.Join(apart...), applied)
	return ctrl.Result{}, applied
}

// report records events for what is not in force. A MultiNetworkPolicy has no status.
func (r *Multi) report(policy *cniv1beta1.MultiNetworkPolicy, invalid, apart, applied error) {
	warn := func(reason, note string, err error) {
		r.Events.Eventf(policy, nil, corev1.EventTypeWarning, reason, "Isolate", note, err)
	}
	if invalid != nil {
		warn(networkv1alpha1.ReasonInvalidSpec, "what cannot be read allows nothing: %v", invalid)
	}
	if apart != nil {
		warn(reasonNotApplied, "the policy does not apply where its annotation says: %v", apart)
	}
	var refused *ovndb.RejectedError
	if errors.As(applied, &refused) {
		warn(networkv1alpha1.ReasonDatabaseRefused, "%v", refused)
	}
}

func (r *Multi) use(ctx context.Context, policy *cniv1beta1.MultiNetworkPolicy, on []string) (
	read facts.MultiNetworkPolicy, invalid, err error) {
	return readPolicy(ctx, r.Reconciler, topology.MultiNetworkPolicyKey(policy.Namespace, policy.Name), topology.MultiNetworkPolicySelectors,
		func(numbers facts.Numbers, _ facts.NodesOf) (facts.MultiNetworkPolicy, error) {
			return facts.ParseMultiNetworkPolicy(policy, on, numbers)
		})
}

// networksOf returns the Networks of the definitions that a policy's annotation lists, sorted. apart says why the
// policy does not apply to the others. Their arrival, or change, enqueues the policy.
func networksOf(ctx context.Context, reader client.Reader, policy *cniv1beta1.MultiNetworkPolicy) (
	found []string, apart []error, err error) {
	definitions, wrong := networks.PolicyFor(policy.Annotations, policy.Namespace)
	if wrong != nil {
		apart = append(apart, wrong)
	}
	for _, name := range definitions {
		network, why, err := networkOf(ctx, reader, name)
		switch {
		case err != nil:
			return nil, nil, err
		case why != nil:
			apart = append(apart, why)
		default:
			found = append(found, network)
		}
	}
	slices.Sort(found)
	return slices.Compact(found), apart, nil
}

// networkOf returns the Network of a definition, or why it has none.
func networkOf(ctx context.Context, reader client.Reader, name types.NamespacedName) (network string, why, err error) {
	var nad nadv1.NetworkAttachmentDefinition
	if err := reader.Get(ctx, name, &nad); apierrors.IsNotFound(err) {
		return "", fmt.Errorf("NetworkAttachmentDefinition %s does not exist", name), nil
	} else if err != nil {
		return "", nil, err
	}
	definition, why := networks.ParseDefinition(&nad)
	if why == nil && definition.Network == "" {
		why = fmt.Errorf("NetworkAttachmentDefinition %s is not of a Network of Weft", name)
	}
	return definition.Network, why, nil
}

// load reads all policies into the selectors.
func (r *Multi) load(ctx context.Context) error {
	return r.Optional.load(ctx, func(object client.Object) error {
		policy, _ := object.(*cniv1beta1.MultiNetworkPolicy)
		on, _, err := networksOf(ctx, r.Client, policy)
		if err == nil {
			_, _, err = r.use(ctx, policy, on)
		}
		return err
	})
}

// MultiNetworkPolicies lists the MultiNetworkPolicies, each with the Networks to which it applies.
func MultiNetworkPolicies(ctx context.Context, reader client.Reader, served *kind.Served) (all []invariant.MultiNetworkPolicy, err error) {
	policies, err := multiKind().listFrom(ctx, reader, served)
	for _, object := range policies {
		policy, _ := object.(*cniv1beta1.MultiNetworkPolicy)
		on, _, err := networksOf(ctx, reader, policy)
		if err != nil {
			return nil, err
		}
		all = append(all, invariant.MultiNetworkPolicy{Policy: policy, Networks: on})
	}
	return all, err
}
