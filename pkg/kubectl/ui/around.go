package ui

import (
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	policyv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	cniv1beta1 "github.com/weft-network/weft/apis/cni/v1beta1"
	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// aroundAnswer is what is around an object on the map: the identifiers of rows. Of a pod, Selectors are the services,
// policies and egress objects that select it. Of one of these, they are the object itself, and Pods are the pods that
// it selects.
type aroundAnswer struct {
	Pods      []string `json:"pods"`
	Selectors []string `json:"selectors"`
}

// around answers what is around an object, from the objects of the feeds. The object is the identifier of a row.
func (s *Server) around(w http.ResponseWriter, r *http.Request) {
	s.hub.mu.Lock()
	found, ok := s.aroundOf(r.FormValue("object"))
	s.hub.mu.Unlock()
	if !ok {
		fail(w, http.StatusNotFound, "there is no "+r.FormValue("object"))
		return
	}
	answer(w, http.StatusOK, found)
}

// aroundOf is false for an object that does not exist, or that selects no pods. The caller holds the hub's lock.
func (s *Server) aroundOf(id string) (found aroundAnswer, ok bool) {
	found = aroundAnswer{Pods: []string{}, Selectors: []string{}}
	namespaces := map[string]labels.Set{}
	var pods, selectors []client.Object
	var subject client.Object
	ids := map[client.Object]string{}
	for _, f := range s.feeds {
		for key, o := range f.objects {
			if ids[o] = f.kind + "/" + key; ids[o] == id {
				subject = o
			}
			switch o := o.(type) {
			case *corev1.Namespace:
				namespaces[o.Name] = o.Labels
			case *corev1.Pod:
				pods = append(pods, o)
			default:
				selectors = append(selectors, o)
			}
		}
	}
	if pod, ok := subject.(*corev1.Pod); ok {
		for _, o := range selectors {
			if selects, ok := selectsPods(o); ok && selects.matches(pod, namespaces[pod.Namespace]) {
				found.Selectors = append(found.Selectors, ids[o])
			}
		}
		found.Pods = append(found.Pods, id)
		slices.Sort(found.Selectors)
		return found, true
	}
	if subject == nil {
		return found, false
	}
	selects, ok := selectsPods(subject)
	if !ok {
		return found, false
	}
	found.Selectors = append(found.Selectors, id)
	for _, o := range pods {
		if pod, isPod := o.(*corev1.Pod); isPod && selects.matches(pod, namespaces[pod.Namespace]) {
			found.Pods = append(found.Pods, ids[o])
		}
	}
	slices.Sort(found.Pods)
	return found, true
}

// selection is the pods that an object selects.
type selection struct {
	namespace string // "" for an object of the cluster
	// namespaces and pods select everything if they are nil.
	namespaces, pods *metav1.LabelSelector
	// onHost means that pods with their node's network are selected, too.
	onHost bool
}

func (s selection) matches(pod *corev1.Pod, namespace labels.Set) bool {
	return (s.namespace == "" || s.namespace == pod.Namespace) && (s.onHost || !pod.Spec.HostNetwork) &&
		matches(s.namespaces, namespace) && matches(s.pods, pod.Labels)
}

// matches reports whether a selector matches. A selector that is wrong matches nothing; its owner reports it.
func matches(selector *metav1.LabelSelector, set labels.Set) bool {
	if selector == nil {
		return true
	}
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && s.Matches(set)
}

// selectsPods returns the pods that an object selects, or false for an object that selects none.
func selectsPods(o client.Object) (selection, bool) {
	switch o := o.(type) {
	case *corev1.Service:
		pods := &metav1.LabelSelector{MatchLabels: o.Spec.Selector}
		return selection{namespace: o.Namespace, pods: pods, onHost: true}, len(o.Spec.Selector) > 0
	case *networkingv1.NetworkPolicy:
		return selection{namespace: o.Namespace, pods: &o.Spec.PodSelector}, true
	case *cniv1beta1.MultiNetworkPolicy:
		return selection{namespace: o.Namespace, pods: &o.Spec.PodSelector}, true
	case *policyv1alpha2.ClusterNetworkPolicy:
		if pods := o.Spec.Subject.Pods; pods != nil {
			return selection{namespaces: &pods.NamespaceSelector, pods: &pods.PodSelector}, true
		}
		return selection{namespaces: o.Spec.Subject.Namespaces}, o.Spec.Subject.Namespaces != nil
	case *policyv1alpha1.AdminNetworkPolicy:
		return subjectOf(o.Spec.Subject)
	case *policyv1alpha1.BaselineAdminNetworkPolicy:
		return subjectOf(o.Spec.Subject)
	case *networkv1alpha1.EgressIP:
		return selection{namespaces: &o.Spec.NamespaceSelector, pods: &o.Spec.PodSelector}, true
	case *networkv1alpha1.ExternalRoute:
		return selection{namespaces: &o.Spec.NamespaceSelector, pods: &o.Spec.PodSelector}, true
	case *networkv1alpha1.EgressFirewall, *networkv1alpha1.EgressQoS:
		return selection{namespace: o.GetNamespace()}, true
	}
	return selection{}, false
}

func subjectOf(subject policyv1alpha1.AdminNetworkPolicySubject) (selection, bool) {
	if pods := subject.Pods; pods != nil {
		return selection{namespaces: &pods.NamespaceSelector, pods: &pods.PodSelector}, true
	}
	return selection{namespaces: subject.Namespaces}, subject.Namespaces != nil
}
