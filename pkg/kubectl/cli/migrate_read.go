package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/weft-network/weft/pkg/kubectl/migrate"
)

// pageSize is the number of objects of a page of a list.
const pageSize = 500

// foreignReader reads what other networks have.
type foreignReader struct {
	dynamic  dynamic.Interface
	metadata metadata.Interface
	found    migrate.Cluster
	pods     map[types.UID]int // index in found.Objects
}

// readForeign reads the objects of networks. What may not be read is named in the result. It is an error if the API
// server does not answer.
func readForeign(ctx context.Context, config *rest.Config) (migrate.Cluster, error) {
	r := &foreignReader{found: migrate.Cluster{Counts: map[schema.GroupKind]int64{}}, pods: map[types.UID]int{}}
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 50, 100 // some dozen lists, one after the other
	finder, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return r.found, err
	}
	if r.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return r.found, err
	}
	if r.metadata, err = metadata.NewForConfig(config); err != nil {
		return r.found, err
	}
	resources, err := r.resources(finder)
	if err != nil {
		return r.found, err
	}
	if err := r.workloads(ctx); err != nil {
		return r.found, err
	}
	return r.found, r.kinds(ctx, resources)
}

// resource is a resource that objects of networks may have.
type resource struct {
	schema.GroupVersionResource
	kind schema.GroupKind
}

// resources lists the resources that are read. A group whose server does not answer is named.
func (r *foreignReader) resources(finder discovery.DiscoveryInterface) (found []resource, err error) {
	lists, err := finder.ServerPreferredResources()
	if failed := (*discovery.ErrGroupDiscoveryFailed)(nil); errors.As(err, &failed) {
		for version, cause := range failed.Groups {
			if read, _ := migrate.Wanted(schema.GroupKind{Group: version.Group}); read {
				r.unread(version.WithResource("*"), "list", cause)
			}
		}
	} else if err != nil {
		return nil, err
	}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, one := range list.APIResources {
			kind := schema.GroupKind{Group: version.Group, Kind: one.Kind}
			read, counted := migrate.Wanted(kind)
			if (read || counted) && slices.Contains([]string(one.Verbs), "list") {
				found = append(found, resource{version.WithResource(one.Name), kind})
			}
		}
	}
	return withoutTwins(found), nil
}

// withoutTwins leaves out Calico's aggregated API where its CustomResourceDefinitions exist, because both have the same objects.
func withoutTwins(resources []resource) []resource {
	return slices.DeleteFunc(resources, func(r resource) bool {
		return r.kind.Group == "projectcalico.org" && slices.ContainsFunc(resources, func(o resource) bool {
			return o.kind.Group == "crd.projectcalico.org" && o.kind.Kind == r.kind.Kind
		})
	})
}

// workloads reads Kubernetes' own kinds.
func (r *foreignReader) workloads(ctx context.Context) error {
	apps := schema.GroupVersion{Group: "apps", Version: "v1"}
	core := schema.GroupVersion{Version: "v1"}
	for _, full := range []schema.GroupVersionResource{apps.WithResource("daemonsets"), apps.WithResource("deployments"),
		core.WithResource("nodes")} {
		if err := r.list(ctx, full, "", metav1.ListOptions{}); err != nil {
			return err
		}
	}
	for name, kind := range map[string]string{"namespaces": "Namespace", "services": "Service", "pods": "Pod"} {
		if err := r.listMetadata(ctx, core.WithResource(name), core.WithKind(kind)); err != nil {
			return err
		}
	}
	server := metav1.ListOptions{LabelSelector: "component=kube-apiserver"}
	if err := r.list(ctx, core.WithResource("pods"), "kube-system", server); err != nil {
		return err
	}
	for _, namespace := range migrate.Namespaces(r.found.Objects) {
		for _, name := range migrate.ConfigMaps {
			o, err := r.dynamic.Resource(core.WithResource("configmaps")).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
			switch {
			case err == nil:
				r.add(o)
			case apierrors.IsForbidden(err):
				r.unread(core.WithResource("configmaps"), "get", err)
			case !apierrors.IsNotFound(err):
				return err
			}
		}
	}
	return nil
}

// kinds reads or counts the objects of the networks' own kinds.
func (r *foreignReader) kinds(ctx context.Context, resources []resource) error {
	for _, one := range resources {
		if _, counted := migrate.Wanted(one.kind); !counted {
			if err := r.list(ctx, one.GroupVersionResource, "", metav1.ListOptions{}); err != nil {
				return err
			}
			continue
		}
		list, err := r.metadata.Resource(one.GroupVersionResource).List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			if err := r.skip(one.GroupVersionResource, err); err != nil {
				return err
			}
			continue
		}
		r.found.Counts[one.kind] = int64(len(list.Items))
		if list.RemainingItemCount != nil {
			r.found.Counts[one.kind] += *list.RemainingItemCount
		}
	}
	return nil
}

// list reads all objects of a resource, page by page.
func (r *foreignReader) list(ctx context.Context, of schema.GroupVersionResource, namespace string, options metav1.ListOptions) error {
	for options.Limit = pageSize; ; {
		list, err := r.dynamic.Resource(of).Namespace(namespace).List(ctx, options)
		if err != nil {
			return r.skip(of, err)
		}
		for n := range list.Items {
			r.add(&list.Items[n])
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

// listMetadata reads the metadata of all objects of a resource.
func (r *foreignReader) listMetadata(ctx context.Context, of schema.GroupVersionResource, kind schema.GroupVersionKind) error {
	for options := (metav1.ListOptions{Limit: pageSize}); ; {
		list, err := r.metadata.Resource(of).List(ctx, options)
		if err != nil {
			return r.skip(of, err)
		}
		for n := range list.Items {
			tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&list.Items[n])
			if err != nil {
				return fmt.Errorf("%s %s: %w", kind.Kind, list.Items[n].Name, err)
			}
			o := &unstructured.Unstructured{Object: tree}
			o.SetGroupVersionKind(kind)
			r.add(o)
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return nil
		}
	}
}

// add adds an object. A pod that was read whole replaces its metadata.
func (r *foreignReader) add(o *unstructured.Unstructured) {
	if o.GetKind() == "Pod" {
		if n, ok := r.pods[o.GetUID()]; ok {
			r.found.Objects[n] = o
			return
		}
		r.pods[o.GetUID()] = len(r.found.Objects)
	}
	r.found.Objects = append(r.found.Objects, o)
}

// skip names a resource that may not be read. Other errors are returned.
func (r *foreignReader) skip(of schema.GroupVersionResource, err error) error {
	switch {
	case apierrors.IsForbidden(err):
		r.unread(of, "list", err)
		return nil
	case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err): // the CRD went since the discovery
		return nil
	}
	return fmt.Errorf("cannot list %s: %w", of.GroupResource(), err)
}

func (r *foreignReader) unread(of schema.GroupVersionResource, verb string, err error) {
	u := migrate.Unread{Resource: of.GroupResource().String(), Group: of.Group, Name: of.Resource, Verb: verb, Message: err.Error()}
	if !slices.ContainsFunc(r.found.Unread, func(have migrate.Unread) bool { return have.Resource == u.Resource && have.Verb == verb }) {
		r.found.Unread = append(r.found.Unread, u)
	}
}
