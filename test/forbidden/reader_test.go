package forbidden

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-network/weft/pkg/kubectl/cli"
)

// exitDifferent is the exit code of a command that succeeded and found a problem.
const exitDifferent = 1

// TestAReaderReads checks that a user with the role weft-reader reads status and logs and collects a bundle without
// metrics, and that another user reads nothing.
func TestAReaderReads(t *testing.T) {
	newWorld(t)
	runningPod(t, "weft-operator-x")
	bindReader(t, "reader")

	if code, out := weft(t, "reader", "status"); code != exitDifferent || !strings.Contains(out, "n1") {
		t.Errorf("status has exit code %d: %s", code, out)
	}
	if code, out := weft(t, "somebody", "status"); code == exitDifferent || !strings.Contains(out, "forbidden") {
		t.Errorf("another user's status has exit code %d: %s", code, out)
	}
	if _, out := weft(t, "reader", "log"); !strings.Contains(out, "namespace weft-system has no agent pods") {
		t.Errorf("log prints %s", out)
	}
	if code, out := weft(t, "somebody", "log"); code == 0 || !strings.Contains(out, "forbidden") {
		t.Errorf("another user's log has exit code %d: %s", code, out)
	}
	if refused := bundleAs(t, "reader"); !slices.Equal(refused, []string{"metrics/weft-operator-x.txt"}) {
		t.Errorf("the bundle lacks %v, want only metrics", refused)
	}
	if refused := bundleAs(t, "somebody"); !slices.Contains(refused, "objects/NodeNetwork.yaml") ||
		!slices.Contains(refused, "objects/Pod.yaml") {
		t.Errorf("another user's bundle lacks only %v", refused)
	}
}

// TestReadersOnlyRead checks that roles for people allow only reads, and none that leads to more rights.
func TestReadersOnlyRead(t *testing.T) {
	text, err := os.ReadFile(bundle)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, role := range parse(t, text).roles {
		if role.Name != "weft-view" && role.Name != "weft-reader" {
			continue
		}
		found++
		for _, rule := range role.Rules {
			for _, verb := range rule.Verbs {
				if !slices.Contains([]string{"get", "list", "watch"}, verb) {
					t.Errorf("%s may %s %v", role.Name, verb, rule.Resources)
				}
			}
			for _, resource := range []string{"secrets", "configmaps", "pods/exec", "pods/proxy"} {
				if slices.Contains(rule.Resources, resource) {
					t.Errorf("%s may read %s", role.Name, resource)
				}
			}
		}
	}
	if found != 3 {
		t.Errorf("%d roles for people, want weft-view and two weft-reader", found)
	}
}

// weft runs kubectl-weft as a user.
func weft(t *testing.T, user string, args ...string) (code int, out string) {
	t.Helper()
	var text bytes.Buffer
	code = cli.Run(append([]string{"--kubeconfig", kubeconfig, "--as", user}, args...), strings.NewReader(""), &text, &text)
	return code, text.String()
}

// bundleAs collects a bundle and returns the refused parts.
func bundleAs(t *testing.T, user string) (refused []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bundle.tar.gz")
	if code, out := weft(t, user, "bundle", "-f", path); code != exitDifferent {
		t.Fatalf("bundle of %s has exit code %d: %s", user, code, out)
	}
	for _, line := range strings.Split(missing(t, path), "\n") {
		if part, why, _ := strings.Cut(line, ": "); strings.Contains(why, "forbidden") {
			refused = append(refused, part)
		}
	}
	return refused
}

// missing returns errors.txt of a bundle.
func missing(t *testing.T, path string) string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			t.Fatal("the bundle has no errors.txt")
		} else if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(header.Name) == "errors.txt" {
			text, err := io.ReadAll(archive)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
	}
}

// runningPod creates a pod of the operator with a running container, as far as the API server is concerned.
func runningPod(t *testing.T, name string) {
	t.Helper()
	pod := podOf(system, name, "n1")
	pod.Labels = map[string]string{"app.kubernetes.io/component": "operator"}
	made, err := admin.CoreV1().Pods(system).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := admin.CoreV1().Pods(system).Delete(context.Background(), name, *metav1.NewDeleteOptions(0)); err != nil {
			t.Error(err)
		}
	})
	made.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c"}}
	if _, err := admin.CoreV1().Pods(system).UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// bindReader binds both parts of weft-reader to a user, as docs/user/plugin.md describes, and returns when they are
// in effect.
func bindReader(t *testing.T, user string) {
	t.Helper()
	ctx, name := context.Background(), metav1.ObjectMeta{Name: "test-reader"}
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}
	of := func(kind string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: "weft-reader"}
	}
	_, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: name,
		RoleRef: of("ClusterRole"), Subjects: subjects}, metav1.CreateOptions{})
	_, err2 := admin.RbacV1().RoleBindings(system).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: name,
		RoleRef: of("Role"), Subjects: subjects}, metav1.CreateOptions{})
	t.Cleanup(func() {
		if err := errors.Join(admin.RbacV1().ClusterRoleBindings().Delete(ctx, name.Name, metav1.DeleteOptions{}),
			admin.RbacV1().RoleBindings(system).Delete(ctx, name.Name, metav1.DeleteOptions{})); err != nil {
			t.Error(err)
		}
	})
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	for _, right := range []authorizationv1.ResourceAttributes{{Verb: "list", Resource: "nodes"},
		{Verb: "list", Resource: "pods", Namespace: system}} {
		awaitRight(t, user, right)
	}
}
