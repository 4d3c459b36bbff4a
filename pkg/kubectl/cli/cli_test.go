package cli

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}
	return object
}

func TestLeaderIsTheHolderOfTheLease(t *testing.T) {
	pods := []corev1.Pod{
		{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "uid-a"}}, {ObjectMeta: metav1.ObjectMeta{Name: "b", UID: "uid-b"}},
	}
	lease := func(holder *string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "weft-system", Name: leaseName},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: holder}}
	}
	if pod, err := leader(lease(new("uid-b")), pods, operatorLabels); err != nil || pod.Name != "b" {
		t.Errorf("leader: %v, %v", pod, err)
	}
	for _, holder := range []*string{nil, new(""), new("uid-c")} {
		_, err := leader(lease(holder), pods, operatorLabels)
		if !errors.Is(err, errNoLeader) || !strings.Contains(err.Error(), "weft-system/weft-operator") {
			t.Errorf("error: %v", err)
		}
	}
}

// The patch is the one of "kubectl apply": it removes what only the last manifest contained, and keeps what others
// set.
func TestApplyPatch(t *testing.T) {
	for _, test := range []struct {
		name, live, wanted string
		kind               types.PatchType
		patch              string
	}{
		{
			name: "lists of built-in kinds are merged by their keys",
			live: `{apiVersion: v1, kind: Pod, metadata: {name: p, annotations: {other: x,
 kubectl.kubernetes.io/last-applied-configuration:
  '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","labels":{"old":"y"}}}'}, labels: {old: "y"}},
 spec: {nodeName: n1, containers: [{name: c, image: a}]}}`,
			wanted: `{apiVersion: v1, kind: Pod, metadata: {name: p, labels: {fresh: z}}, spec: {containers: [{name: c, image: b}]}}`,
			kind:   types.StrategicMergePatchType,
			patch: `{"metadata":{"labels":{"fresh":"z","old":null}},"spec":{"$setElementOrder/containers":[{"name":"c"}],` +
				`"containers":[{"image":"b","name":"c"}]}}`,
		},
		{
			name: "lists of other kinds are replaced",
			live: `{apiVersion: network.weft.dev/v1alpha1, kind: ClusterNetwork, metadata: {name: default},
 spec: {podRecord: OnDemand, serviceNetwork: [10.96.0.0/16]}}`,
			wanted: `{apiVersion: network.weft.dev/v1alpha1, kind: ClusterNetwork, metadata: {name: default},
 spec: {serviceNetwork: [10.97.0.0/16]}}`,
			kind: types.MergePatchType, patch: `{"spec":{"serviceNetwork":["10.97.0.0/16"]}}`,
		},
	} {
		kind, patch, err := applyPatch(parse(t, test.live), parse(t, test.wanted))
		if err != nil || kind != test.kind || string(patch) != test.patch {
			t.Errorf("%s: %s %s, %v; want %s %s", test.name, kind, patch, err, test.kind, test.patch)
		}
	}
}

func TestScheduleLeavesAPodItsNode(t *testing.T) {
	for _, test := range []struct{ object, node, want string }{
		{`{apiVersion: v1, kind: Pod, metadata: {name: p}}`, "n1", "n1"},
		{`{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {nodeName: n2}}`, "n1", "n2"},
		{`{apiVersion: v1, kind: Pod, metadata: {name: p}}`, "", ""},
		{`{apiVersion: v1, kind: Node, metadata: {name: p}}`, "n1", ""},
	} {
		object := parse(t, test.object)
		err := schedule(object, test.node)
		if got, _, _ := unstructured.NestedString(object.Object, "spec", "nodeName"); err != nil || got != test.want {
			t.Errorf("%s with --node %q is on %q (%v), want %q", test.object, test.node, got, err, test.want)
		}
	}
	object := parse(t, `{apiVersion: v1, kind: Pod, spec: {nodeName: 7}}`)
	if err := schedule(object, "n1"); err == nil || !strings.Contains(err.Error(), "nodeName") {
		t.Errorf("error: %v", err)
	}
}

func TestReadFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"b.yaml": "{apiVersion: v1, kind: Pod, metadata: {name: b}}", "a.json": `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}`,
		"notes.txt": "no manifest", "empty.yml": "# nothing",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	input := strings.NewReader("{apiVersion: v1, kind: Pod, metadata: {name: c}}")
	documents, err := readFiles([]string{dir, "-", filepath.Join(dir, "b.yaml")}, input)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, d := range documents {
		found = append(found, d.Object.GetName())
	}
	if want := []string{"a", "b", "c", "b"}; !slices.Equal(found, want) {
		t.Errorf("read %v, want %v", found, want)
	}
	for name, message := range map[string]string{
		filepath.Join(dir, "none.yaml"): "none.yaml",
		filepath.Join(dir, "empty.yml"): "no objects in",
	} {
		if _, err := readFiles([]string{name}, nil); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%s: error: %v", name, err)
		}
	}
}

// Scripts must be able to distinguish "no difference", "a difference" and an error.
func TestErrorsHaveAnExitCodeOfTheirOwn(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "none")
	for _, test := range []struct {
		args    []string
		message string
	}{
		{[]string{"plan"}, "filename"},
		{[]string{"plan", "-f", "testdata/none.yaml"}, "none.yaml"},
		{[]string{"drift", "-o", "yaml"}, `output "yaml": want text or json`},
		{[]string{"drift", "now"}, `unexpected argument "now"`},
		{[]string{"plan", "web.yaml"}, "plan -f FILE"},
		{[]string{"plan", "-f", "https://192.0.2.1/web.yaml"}, "URLs are not supported"},
		{[]string{"status", "-o", "yaml"}, `output "yaml": want text or json`},
		{[]string{"log", "-o", "yaml"}, `output "yaml": want text or json`},
		{[]string{"status", "--wait", "--timeout=-5s"}, "--timeout -5s: want more than 0"},
		{[]string{"status", "--timeout=0s"}, "--timeout 0s: want more than 0"},
		{[]string{"status", "--timeout=soon"}, "soon"},
		{[]string{"log", "--since=-5m"}, "--since -5m0s: want more than 0"},
		{[]string{"log", "--since=0s"}, "--since 0s: want more than 0"},
		{[]string{"db", "rebuild", "--local", "--wait=-1s"}, "--wait -1s: want more than 0"},
		{[]string{"db", "rebuild"}, "--local"},
		{[]string{"db", "rebuild", "--local", "--server=https://192.0.2.1", "--run-dir=" + kubeconfig},
			"--run-dir " + kubeconfig + " does not exist"},
		{[]string{"drift", "--server=https://192.0.2.1", "--request-timeout=-5s"}, "--request-timeout -5s: want 0 or more"},
		{[]string{"drift", "--kubeconfig", kubeconfig}, kubeconfig},
		{[]string{"status", "--kubeconfig", os.DevNull}, "no kubeconfig names a cluster"},
		{[]string{"ip", "history"}, "accepts 1 arg(s)"},
		{[]string{"ip", "list", "--sort", "name"}, `invalid --sort "name": want address, pool, workload, node or since`},
		{[]string{"ip", "release"}, "want either addresses or --workload"},
		{[]string{"explode"}, "explode"},
		{[]string{"capture", "web", "--port", "0"}, "--port 0: want a number from 1 to 65535"},
		{[]string{"capture", "web", "--host", "foo"}, `--host "foo": want an address, such as 10.244.0.5`},
		{[]string{"capture", "web", "--protocol", "http"}, `--protocol "http": want one of arp, icmp, sctp, tcp, udp`},
		{[]string{"capture", "web", "--protocol", "icmp", "--port", "80"}, "--port 80: packets of --protocol icmp have no ports"},
		{[]string{"capture", "web", "--protocol", "arp", "--host", "10.0.0.1"}, "--host does not select packets of --protocol arp"},
		{[]string{"check", "connectivity", "--for", "0s"}, "--for 0s: want more than 0"},
		{[]string{"check", "connectivity", "--for", "-1s"}, "--for -1s: want more than 0"},
		{[]string{"check", "connectivity", "--interval", "1s"}, "--interval needs --for"},
		{[]string{"check", "connectivity", "--for", "1m", "--skip", "dns"}, "--skip has no effect with --for"},
		{[]string{"check", "connectivity", "--for", "1m", "--outside", "192.0.2.1:80"}, "--outside has no effect with --for"},
		{[]string{"status", "--timeout", "5m"}, "--timeout needs --wait"},
		{[]string{"trace", "a", "b", "--protocol", "icmp", "--port", "80"}, "--port 80: ICMP has no ports"},
		{[]string{"db", "rebuild", "--local", "--drop-foreign-rows"}, "--drop-foreign-rows needs --nb"},
		{[]string{"status", "-n", ""}, "--namespace has no value"},
	} {
		var out, errs bytes.Buffer
		code := Run(test.args, strings.NewReader(""), &out, &errs)
		if code != exitError || !strings.Contains(errs.String(), test.message) {
			t.Errorf("%v: exit code %d, %q; want %d and %q", test.args, code, errs.String(), exitError, test.message)
		}
	}
}

// TestEveryFlagRefusesWhatMeansNothing gives each flag of each command an empty value, and each number and duration 0 and -1. The answer
// is one line that names the flag.
func TestEveryFlagRefusesWhatMeansNothing(t *testing.T) {
	arguments := map[string][]string{"capture": {"web"}, "trace": {"a", "b"}, "why": {"web"}, "history": {"pod/a/b"}, "log": {"demo"}}
	needs := map[string][]string{"timeout": {"--wait"}, "interval": {"--for=1m"}, "wait": {"--local"}, "limit": {}}
	zeroes := map[string]string{"ui --port": "a random port"} // whose 0 means something
	var commands func(*cobra.Command)
	commands = func(c *cobra.Command) {
		for _, child := range c.Commands() {
			commands(child)
		}
		if !c.Runnable() || c.Name() == "help" || c.Parent() != nil && c.Parent().Name() == "completion" {
			return
		}
		path := strings.Fields(c.CommandPath())[1:]
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			var values []string
			switch f.Value.Type() {
			case "string", "stringSlice":
				if err := c.ParseFlags([]string{"--" + f.Name + "="}); err != nil {
					t.Fatal(err)
				}
				if err := noEmptyFlags(c); err == nil || !strings.Contains(err.Error(), "has no value") {
					t.Errorf("%s --%s=: %v", c.CommandPath(), f.Name, err)
				}
			case "int", "duration", "uint16":
				values = []string{"0", "-1"}
				if f.Value.Type() == "duration" {
					values = []string{"0s", "-1s"}
				}
			}
			for _, value := range values {
				if zeroes[strings.Join(path, " ")+" --"+f.Name] != "" && value == "0" {
					continue
				}
				args := slices.Concat(path, arguments[c.Name()])
				if flag := needs[f.Name]; c.Flags().Lookup("wait") != nil || f.Name != "timeout" {
					args = append(args, flag...)
				}
				var out, errs bytes.Buffer
				args = append(args, "--"+f.Name+"="+value, "--kubeconfig="+os.DevNull)
				code := Run(args, strings.NewReader(""), &out, &errs)
				if text := errs.String(); code != exitError || !strings.Contains(text, "--"+f.Name) || strings.Count(text, "\n") != 1 {
					t.Errorf("%v: exit code %d, %q", args, code, text)
				}
			}
		})
	}
	commands(newRoot(t.Context(), io.Discard))
}

func TestNoPodNamesTheFormThatWorks(t *testing.T) {
	for name, says := range map[string]string{"deploy": "name one of its pods as NAMESPACE/POD", "demo": "there is no pod demo/web"} {
		if err := noPod(client.ObjectKey{Namespace: name, Name: "web"}); !strings.Contains(err.Error(), says) {
			t.Errorf("%s/web: %v, want %q", name, err, says)
		}
	}
}
