package policy

import (
	"context"
	"slices"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	cniv1beta1 "github.com/weft-network/weft/apis/cni/v1beta1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/acllog/annotation"
	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
)

func multiKind() OptionalKind {
	return OptionalKind{topology.KindMultiNetworkPolicy, cniv1beta1.Definition, cniv1beta1.GroupVersion.Version,
		func() client.Object { return &cniv1beta1.MultiNetworkPolicy{} },
		func() client.ObjectList { return &cniv1beta1.MultiNetworkPolicyList{} }}
}

func (r *Multi) kind() *kind.Kind {
	return r.Optional.kind(r,
		kind.Map(&nadv1.NetworkAttachmentDefinition{}, r.naming, trigger.SpecChanged()),
		kind.Map(&corev1.Namespace{}, r.in, annotation.NamespaceChanged()).MetadataOnly())
}

// multiPolicyChanged passes changes of the spec, and of the networks to which the policy applies.
func multiPolicyChanged(e event.UpdateEvent) bool {
	const applies = cniv1beta1.PolicyForAnnotation
	return trigger.SpecChanged().Update(e) || e.ObjectOld.GetAnnotations()[applies] != e.ObjectNew.GetAnnotations()[applies]
}

// naming returns a request for each policy that lists a definition.
func (r *Multi) naming(ctx context.Context, definition client.Object) []reconcile.Request {
	name := client.ObjectKeyFromObject(definition)
	return r.requests(ctx, func(policy client.Object) bool {
		listed, _ := networks.PolicyFor(policy.GetAnnotations(), policy.GetNamespace())
		return slices.Contains(listed, name)
	})
}

// in returns a request for each policy of a namespace.
func (r *Multi) in(ctx context.Context, namespace client.Object) []reconcile.Request {
	return r.requests(ctx, func(policy client.Object) bool { return policy.GetNamespace() == namespace.GetName() })
}
