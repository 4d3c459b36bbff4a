package forbidden

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sigsyaml "sigs.k8s.io/yaml"

	"github.com/weft-network/weft/apis/network/v1alpha1"
)

const exitError = 2

// networker gives a user rights on ClusterNetworks until the test ends. It returns the account's name for weft.
func networker(t *testing.T, name, verbs string) string {
	t.Helper()
	person(t, name, "", rule("network.weft.dev", "clusternetworks nodenetworks", verbs))
	return "system:serviceaccount:" + team + ":" + name
}

// theNetwork returns the ClusterNetwork.
func theNetwork(t *testing.T) *v1alpha1.ClusterNetwork {
	t.Helper()
	raw, err := admin.RESTClient().Get().RequestURI(clusterNetwork + "/default").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cn := &v1alpha1.ClusterNetwork{}
	decode(t, raw, cn)
	return cn
}

// ends runs kubectl weft and expects an exit code and parts of the output.
func ends(t *testing.T, want int, says []string, user string, args ...string) {
	t.Helper()
	code, out := weft(t, user, args...)
	if code != want {
		t.Fatalf("weft %v as %s has exit code %d, want %d: %s", args, user, code, want, out)
	}
	for _, part := range says {
		if !strings.Contains(out, part) {
			t.Errorf("weft %v as %s does not print %q: %s", args, user, part, out)
		}
	}
}

// TestRemoveAndCancel checks that "kubectl weft remove" confirms and deletes one ClusterNetwork, and "cancel"
// recreates it unchanged. Both use the user's own rights, and change nothing if these do not suffice.
func TestRemoveAndCancel(t *testing.T) {
	newWorld(t)
	remover, deleter, maker := networker(t, "remover", "get list create patch delete"),
		networker(t, "deleter", "get list patch delete"), networker(t, "maker", "get list create")
	administrator := identityOf(t, restConfig)
	must(t, administrator, request{"PATCH", clusterNetwork + "/default",
		`{"metadata":{"finalizers":["network.weft.dev/operands"],"labels":{"team":"a"},"annotations":{"note":"b"}}}`})
	before := theNetwork(t)
	uid := string(before.UID)

	ends(t, 0, []string{"Nothing was changed", "kubectl weft remove --confirm " + uid}, remover, "remove")
	ends(t, exitError, []string{uid, "not default: nothing was changed"}, remover, "remove", "--confirm", "default")
	ends(t, 0, []string{"is not being deleted"}, remover, "remove", "cancel")
	if now := theNetwork(t); now.ResourceVersion != before.ResourceVersion {
		t.Fatalf("something was written: %+v", now)
	}
	ends(t, 0, []string{"The deletion is confirmed"}, remover, "remove", "--confirm", uid)
	deleted := theNetwork(t)
	if deleted.DeletionTimestamp.IsZero() || !v1alpha1.RemovalConfirmed(deleted) {
		t.Fatalf("the ClusterNetwork is not deleted: %+v", deleted.ObjectMeta)
	}
	ends(t, 0, []string{"The network is being removed (deleted at"}, remover, "remove")

	// Without the right to recreate it, or to end it, nothing is changed.
	dir := t.TempDir()
	file := filepath.Join(dir, "saved.yaml")
	ends(t, exitError, []string{"could not be recreated, so nothing was changed", "forbidden"}, deleter,
		"remove", "cancel", "--save", file)
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("files %v, %v", left, err)
	}
	ends(t, exitError, []string{"nothing was changed", "no such file"}, remover, "remove", "cancel", "--save",
		filepath.Join(dir, "none", "saved.yaml"))
	ends(t, exitError, []string{"nothing was changed", "forbidden"}, maker, "remove", "cancel", "--save", file)
	must(t, administrator, request{"PATCH", clusterNetwork + "/default", `[{"op":"add","path":"/metadata/annotations/x","value":"y"}]`})
	ends(t, 0, []string{"The manifest is saved in " + file, "The deletion was taken back"}, remover, "remove", "cancel", "--save", file)
	again := theNetwork(t)
	spec := func(cn *v1alpha1.ClusterNetwork) string {
		text, err := json.Marshal(cn.Spec)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if again.UID == before.UID || !again.DeletionTimestamp.IsZero() || len(again.Finalizers) > 0 ||
		spec(again) != spec(before) || again.Labels["team"] != "a" ||
		len(again.Annotations) != 2 || again.Annotations["note"] != "b" || again.Annotations["x"] != "y" {
		t.Errorf("the ClusterNetwork was\n%+v\nbut now is\n%+v", before, again)
	}
	text, err := os.ReadFile(file)
	saved := &v1alpha1.ClusterNetwork{}
	if err != nil || sigsyaml.UnmarshalStrict(text, saved) != nil || spec(saved) != spec(before) || strings.Contains(string(text), "uid") {
		t.Errorf("the saved manifest is, %v:\n%s", err, text)
	}
}

// TestCancelRefuses checks that a removal that has begun, or that other programs block, cannot be reverted.
func TestCancelRefuses(t *testing.T) {
	newWorld(t)
	remover := networker(t, "remover", "get list create patch delete")
	administrator, operands := identityOf(t, restConfig), operandsAccount(t)
	file := filepath.Join(t.TempDir(), "saved.yaml")
	must(t, administrator, request{"PATCH", clusterNetwork + "/default",
		`{"metadata":{"finalizers":["network.weft.dev/operands","example.org/other"]}}`})
	ends(t, 0, nil, remover, "remove", "--confirm", networkUID(t.Context(), t))
	ends(t, exitError, []string{"finalizers of other programs", "example.org/other", "Nothing was changed"}, remover,
		"remove", "cancel", "--save", file)
	must(t, administrator, request{"PATCH", clusterNetwork + "/default", `{"metadata":{"finalizers":["network.weft.dev/operands"]}}`})
	must(t, operands, request{"PATCH", clusterNetwork + "/default/status",
		status(strings.Replace(conditions("Removing"), `"R"`, `"RemovingOperands"`, 1))})
	before := theNetwork(t)
	ends(t, exitError, []string{"has begun and cannot be taken back"}, remover, "remove", "cancel", "--save", file)
	if now := theNetwork(t); now.ResourceVersion != before.ResourceVersion {
		t.Errorf("something was written: %+v", now)
	}
	must(t, administrator, request{"PATCH", clusterNetwork + "/default", `{"metadata":{"finalizers":null}}`})
}
