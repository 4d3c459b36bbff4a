package crd

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// refusal is the API server's expected error for a manifest. The zero value means that it accepts the manifest.
type refusal struct {
	field string   // the field path of the only cause
	says  []string // parts of that cause's message
}

func clusterNetwork(t *testing.T, spec string) *unstructured.Unstructured {
	t.Helper()
	return object(t, "ClusterNetwork", "default", spec)
}

// object returns an untyped manifest, because a Go type would drop unknown fields and add defaults.
func object(t *testing.T, kind, name, spec string) *unstructured.Unstructured {
	t.Helper()
	text := fmt.Sprintf("apiVersion: network.weft.dev/v1alpha1\nkind: %s\nmetadata: {name: %s}\nspec: %s\n", kind, name, spec)
	return parse(t, []byte(text))
}

func parse(t *testing.T, text []byte) *unstructured.Unstructured {
	t.Helper()
	manifest := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict(text, &manifest.Object); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return manifest
}

// check expects exactly one cause: a mistake reported twice, or together with a CEL runtime error, is a defect.
func (want refusal) check(t *testing.T, err error) {
	t.Helper()
	if want.field == "" {
		if err != nil {
			t.Fatalf("refused: %v", err)
		}
		return
	}
	if err == nil {
		t.Fatal("accepted")
	}
	if !apierrors.IsInvalid(err) {
		t.Fatalf("not an Invalid error: %v", err)
	}
	causes := causesOf(err)
	if len(causes) != 1 {
		t.Fatalf("%d causes, want 1: %v", len(causes), err)
	}
	if causes[0].Field != want.field {
		t.Errorf("field %q, want %q: %v", causes[0].Field, want.field, err)
	}
	for _, part := range want.says {
		if !strings.Contains(causes[0].Message, part) {
			t.Errorf("message %q lacks %q", causes[0].Message, part)
		}
	}
}

func causesOf(err error) []metav1.StatusCause {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	return slices.DeleteFunc(status.Status().Details.Causes, isSkipNotice)
}

// isSkipNotice finds the notice that the API server adds if a schema error prevents it from running the CEL rules.
func isSkipNotice(cause metav1.StatusCause) bool {
	return strings.Contains(cause.Message, "some validation rules were not checked")
}
