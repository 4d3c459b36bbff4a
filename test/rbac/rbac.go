// Package rbac lets tests run a program of the product with exactly the rights that the product gives it, so that a
// right missing in the manifests fails a test.
package rbac

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/test/lab/tools"
)

// patience bounds how long the API server may take to apply new rights.
const patience = time.Minute

// components lists for each component the file below config with its rights, and a resource that it watches.
var components = map[string]struct{ file, watched string }{
	"operator": {"rbac/operator.yaml", "nodenetworks"},
	"agent":    {"rbac/agent.yaml", "nodenetworks"},
	"operands": {"install/rbac.yaml", "clusternetworks"},
}

// As applies the rights of a component, in the given namespace instead of weft-system, and returns the configuration
// of a client with these rights. config is an administrator's.
func As(ctx context.Context, config *rest.Config, component, namespace string) (*rest.Config, error) {
	source, err := tools.SourceRoot()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(source, "config", components[component].file))
	if err != nil {
		return nil, err
	}
	admin, err := client.New(config, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		return nil, err
	}
	if err := apply(ctx, admin, bytes.ReplaceAll(text, []byte("weft-system"), []byte(namespace))); err != nil {
		return nil, fmt.Errorf("rights of the %s: %w", component, err)
	}
	user := "system:serviceaccount:" + namespace + ":weft-" + component
	if err := awaitRights(ctx, admin, user, components[component].watched); err != nil {
		return nil, fmt.Errorf("rights of the %s: %w", component, err)
	}
	own := rest.CopyConfig(config)
	own.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	return own, nil
}

func apply(ctx context.Context, admin client.Client, text []byte) error {
	for documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), len(text)); ; {
		object := &unstructured.Unstructured{}
		if err := documents.Decode(&object.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := admin.Create(ctx, object); err != nil {
			return err
		}
	}
}

// awaitRights waits until the API server lets the user watch a resource.
func awaitRights(ctx context.Context, admin client.Client, user, resource string) error {
	return wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Group: "network.weft.dev", Resource: resource, Verb: "watch"}}}
		err := admin.Create(ctx, review)
		return review.Status.Allowed, err
	})
}
