package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
	policyv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/admin"
	"github.com/weft-network/weft/pkg/manifest"
)

// lay lays the objects of a question over the world, or takes them away.
func (s *simulation) lay(ctx context.Context, question admin.PlanRequest) error {
	for _, document := range question.Objects {
		object, err := s.decode(document)
		if err != nil {
			return fmt.Errorf("%w: %s: %w", admin.ErrInvalid, document, err)
		}
		switch {
		case object == nil:
			s.notes.add("%s: Weft makes no rows of this kind", nameIn(document))
			continue
		case !s.has(document):
			s.notes.add("%s: the API server does not have this kind", nameIn(document))
			continue
		case question.Delete:
			err = s.remove(ctx, object, document)
		default:
			s.laid[client.ObjectKeyFromObject(object)] = true
			err = s.objects.Put(ctx, object)
		}
		if err != nil {
			return fmt.Errorf("%w: %s: %w", admin.ErrInvalid, document, err)
		}
	}
	return nil
}

// has reports whether the API server has the kind of an object; it may lack those of network-policy-api.
func (s *simulation) has(document manifest.Document) bool {
	return document.Object.GroupVersionKind().Group != policyv1alpha2.GroupName || s.known.Has(strings.ToLower(document.Object.GetKind()))
}

// nameIn names a document's object with its kind: "Pod demo/web-0".
func nameIn(document manifest.Document) string {
	return document.Object.GetKind() + " " + shortName(client.ObjectKeyFromObject(document.Object))
}

// decode returns the typed object; nil for a kind that no reconciler reads.
func (s *simulation) decode(document manifest.Document) (client.Object, error) {
	var object client.Object
	switch document.Object.GroupVersionKind() {
	case corev1.SchemeGroupVersion.WithKind("Pod"):
		object = &corev1.Pod{}
	case corev1.SchemeGroupVersion.WithKind("Node"):
		object = &corev1.Node{}
	case corev1.SchemeGroupVersion.WithKind("Service"):
		object = &corev1.Service{}
	case discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"):
		object = &discoveryv1.EndpointSlice{}
	case networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"):
		object = &networkingv1.NetworkPolicy{}
	case schema.GroupVersion(policyv1alpha2.GroupVersion).WithKind("ClusterNetworkPolicy"):
		object = &policyv1alpha2.ClusterNetworkPolicy{}
	case schema.GroupVersion(policyv1alpha1.GroupVersion).WithKind("AdminNetworkPolicy"):
		object = &policyv1alpha1.AdminNetworkPolicy{}
	case schema.GroupVersion(policyv1alpha1.GroupVersion).WithKind("BaselineAdminNetworkPolicy"):
		object = &policyv1alpha1.BaselineAdminNetworkPolicy{}
	case corev1.SchemeGroupVersion.WithKind("Namespace"):
		object = &corev1.Namespace{}
	case networkv1alpha1.GroupVersion.WithKind("ClusterNetwork"):
		object = &networkv1alpha1.ClusterNetwork{}
	case networkv1alpha1.GroupVersion.WithKind("NodeNetwork"):
		object = &networkv1alpha1.NodeNetwork{}
	case networkv1alpha1.GroupVersion.WithKind("EgressFirewall"):
		object = &networkv1alpha1.EgressFirewall{}
	case networkv1alpha1.GroupVersion.WithKind("EgressIP"):
		object = &networkv1alpha1.EgressIP{}
	default:
		return nil, nil
	}
	text, err := document.Object.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return object, json.Unmarshal(text, object)
}

// remove takes an object away, and with a namespace its pods, services and firewall.
func (s *simulation) remove(ctx context.Context, object client.Object, document manifest.Document) error {
	if err := s.objects.Delete(ctx, object); apierrors.IsNotFound(err) {
		s.notes.add("%s: there is none", nameIn(document))
		return nil
	} else if err != nil {
		return err
	}
	if _, ok := object.(*corev1.Namespace); !ok {
		return nil
	}
	if err := s.removeServices(ctx, object.GetName()); err != nil {
		return err
	}
	firewall := &networkv1alpha1.EgressFirewall{}
	firewall.Namespace, firewall.Name = object.GetName(), networkv1alpha1.EgressFirewallName
	if err := s.objects.Delete(ctx, firewall); client.IgnoreNotFound(err) != nil {
		return err
	}
	var policies networkingv1.NetworkPolicyList
	if err := s.objects.List(ctx, &policies, client.InNamespace(object.GetName())); err != nil {
		return err
	}
	for i := range policies.Items {
		if err := s.objects.Delete(ctx, &policies.Items[i]); err != nil {
			return err
		}
	}
	pods, err := s.podsThat(ctx, func(p *corev1.Pod) bool { return p.Namespace == object.GetName() })
	if err != nil {
		return err
	}
	for _, name := range pods {
		pod := &corev1.Pod{}
		pod.Namespace, pod.Name = name.Namespace, name.Name
		if err := s.objects.Delete(ctx, pod); err != nil {
			return err
		}
	}
	return nil
}

func (s *simulation) removeServices(ctx context.Context, namespace string) error {
	var services corev1.ServiceList
	if err := s.objects.List(ctx, &services, client.InNamespace(namespace)); err != nil {
		return err
	}
	for i := range services.Items {
		if err := s.objects.Delete(ctx, &services.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *simulation) pod(ctx context.Context, name types.NamespacedName) (corev1.Pod, error) {
	var pod corev1.Pod
	err := s.objects.Get(ctx, name, &pod)
	return pod, err
}

// podsThat lists the pods that which accepts, sorted by name.
func (s *simulation) podsThat(ctx context.Context, which func(*corev1.Pod) bool) ([]types.NamespacedName, error) {
	var list corev1.PodList
	if err := s.objects.List(ctx, &list); err != nil {
		return nil, err
	}
	var names []types.NamespacedName
	for i := range list.Items {
		if which(&list.Items[i]) {
			names = append(names, client.ObjectKeyFromObject(&list.Items[i]))
		}
	}
	slices.SortFunc(names, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	return names, nil
}
