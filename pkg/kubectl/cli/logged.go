package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cniv1beta1 "github.com/weft-network/weft/apis/cni/v1beta1"
	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// The kinds whose decisions can be logged, in addition to namespaces. An API server may lack the kinds of
// network-policy-api and MultiNetworkPolicies.
var (
	namespaceKind   = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
	namespacedKinds = []schema.GroupVersionKind{
		networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"),
		networkv1alpha1.GroupVersion.WithKind("EgressFirewall"),
		cniv1beta1.GroupVersion.WithKind("MultiNetworkPolicy"),
	}
	clusterKinds = []schema.GroupVersionKind{
		{Group: "policy.networking.k8s.io", Version: "v1alpha2", Kind: "ClusterNetworkPolicy"},
		{Group: "policy.networking.k8s.io", Version: "v1alpha1", Kind: "AdminNetworkPolicy"},
		{Group: "policy.networking.k8s.io", Version: "v1alpha1", Kind: "BaselineAdminNetworkPolicy"},
	}
	podKind = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
)

// logged checks which arguments of the command log exist, and whether their decisions are logged. It assumes that
// objects which the user may not read exist and are logged.
type logged struct {
	api   client.Client
	about []string
}

// checkAbout returns an error for the first argument without a matching object in the cluster.
func (l *logged) checkAbout(ctx context.Context) error {
	for _, about := range l.about {
		namespace, name, of := strings.Cut(about, "/")
		if namespace == "" || of && name == "" || strings.Contains(name, "/") {
			return fmt.Errorf("%q: want NAMESPACE or NAMESPACE/POD", about)
		}
		kinds, key := append([]schema.GroupVersionKind{namespaceKind}, clusterKinds...), client.ObjectKey{Name: namespace}
		none := fmt.Errorf("there is no namespace %s", namespace)
		if of {
			kinds, key = append([]schema.GroupVersionKind{podKind}, namespacedKinds...), client.ObjectKey{Namespace: namespace, Name: name}
			none = fmt.Errorf("there is no pod or policy %s; for deleted pods only addresses are logged: kubectl weft log %s",
				about, namespace)
		}
		exists, err := l.oneExists(ctx, kinds, key)
		if err != nil {
			return err
		}
		if !exists {
			return none
		}
	}
	return nil
}

func (l *logged) oneExists(ctx context.Context, kinds []schema.GroupVersionKind, key client.ObjectKey) (bool, error) {
	for _, kind := range kinds {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(kind)
		err := l.api.Get(ctx, key, object)
		if err == nil || apierrors.IsForbidden(err) {
			return true, nil
		}
		if !absent(err) {
			return false, err
		}
	}
	return false, nil
}

// explainSilence writes why there may be nothing to show. If the decisions of some arguments are logged, it writes
// otherwise.
func (l *logged) explainSilence(ctx context.Context, out io.Writer, otherwise string) {
	if on, err := l.isOn(ctx); err == nil && !on {
		where, example := "any namespace or policy", "NAMESPACE"
		if len(l.about) > 0 {
			example, _, _ = strings.Cut(l.about[0], "/")
			where = strings.Join(l.about, ", ") + ", its namespace or a policy there"
		}
		fmt.Fprintf(out, "nothing is logged: the annotation %s is not on %s; "+
			"to enable logging: kubectl annotate namespace %s %[1]s='{\"deny\": \"info\"}'\n",
			networkv1alpha1.ACLLoggingAnnotation, where, example)
	} else if otherwise != "" {
		fmt.Fprintln(out, otherwise)
	}
}

// isOn reports whether a namespace or policy of the arguments, or a cluster-wide policy, has the annotation.
func (l *logged) isOn(ctx context.Context) (bool, error) {
	for _, kind := range append(append([]schema.GroupVersionKind{namespaceKind}, namespacedKinds...), clusterKinds...) {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := l.api.List(ctx, list); absent(err) {
			continue
		} else if err != nil {
			return false, err
		}
		for i := range list.Items {
			if _, on := list.Items[i].Annotations[networkv1alpha1.ACLLoggingAnnotation]; on && l.concerns(kind, &list.Items[i]) {
				return true, nil
			}
		}
	}
	return false, nil
}

// concerns reports whether an object's annotation enables logging for one of the arguments.
func (l *logged) concerns(kind schema.GroupVersionKind, object client.Object) bool {
	if len(l.about) == 0 || kind.Group == clusterKinds[0].Group {
		return true
	}
	in := object.GetNamespace()
	if kind == namespaceKind {
		in = object.GetName()
	}
	for _, about := range l.about {
		if namespace, _, _ := strings.Cut(about, "/"); namespace == in {
			return true
		}
	}
	return false
}

// absent reports whether err means that an object or its kind does not exist.
func absent(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }
