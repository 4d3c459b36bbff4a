package secondary

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/weft-network/weft/pkg/agent/attach"
	"github.com/weft-network/weft/pkg/agent/cniserver"
	"github.com/weft-network/weft/pkg/networks"
)

// scripted returns Delegates with a plugin "p" that notes each call, and fails the verb that the file fail names.
func scripted(t *testing.T) (d *Delegates, calls func() string, fail func(verb string)) {
	t.Helper()
	dir := t.TempDir()
	d = &Delegates{State: filepath.Join(dir, "state"), BinDirs: []string{dir}}
	script := `#!/bin/sh
read -r config
echo "$CNI_COMMAND $CNI_CONTAINERID $CNI_IFNAME $config" >>` + dir + `/calls
if [ "$(cat ` + dir + `/fail 2>/dev/null)" = "$CNI_COMMAND" ]; then
  echo '{"cniVersion":"1.1.0","code":50,"msg":"no device left"}'
  exit 1
fi
[ "$CNI_COMMAND" != ADD ] || echo '{"cniVersion":"1.1.0","interfaces":[{"name":"'$CNI_IFNAME'"}]}'
`
	if err := os.WriteFile(filepath.Join(dir, "p"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	calls = func() string {
		text, _ := os.ReadFile(filepath.Join(dir, "calls"))
		_ = os.Remove(filepath.Join(dir, "calls"))
		return string(text)
	}
	return d, calls, func(verb string) {
		if err := os.WriteFile(filepath.Join(dir, "fail"), []byte(verb), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func elementOf(t *testing.T, d *Delegates, ifName, version string) element {
	t.Helper()
	config, err := d.configOf("lab", `{"cniVersion":"`+version+`","type":"p"}`)
	if err != nil {
		t.Fatal(err)
	}
	return element{Request: networks.Request{Interface: ifName,
		Element: nadv1.NetworkSelectionElement{Name: "lab", Namespace: "demo"}}, config: config}
}

// verbs returns the verbs of calls, in their order.
func verbs(calls string) (all string) {
	for line := range strings.Lines(calls) {
		all += strings.Fields(line)[0] + " "
	}
	return strings.TrimSpace(all)
}

func TestAPluginThatIsNotReadyIsNotCalled(t *testing.T) {
	d, calls, fail := scripted(t)
	fail("STATUS")
	sandbox := attach.Sandbox{Namespace: "demo", Pod: "web", ContainerID: "c1", NetNS: "/run/netns/none"}
	err := d.add(t.Context(), sandbox, elementOf(t, d, "net1", "1.1.0"))
	if err == nil || !strings.Contains(err.Error(), "plugin: STATUS: no device left") || verbs(calls()) != "STATUS" {
		t.Errorf("ADD with a plugin that is not ready: %v", err)
	}
	if left, err := d.records(""); len(left) > 0 || err != nil {
		t.Errorf("records %v, %v", left, err)
	}
	if err := d.add(t.Context(), sandbox, elementOf(t, d, "net2", "1.0.0")); err != nil || verbs(calls()) != "ADD" {
		t.Errorf("ADD with a configuration without STATUS: %v", err)
	}
}

func TestCheckOfDelegates(t *testing.T) {
	d, calls, fail := scripted(t)
	n := New(t.Context(), Options{Delegates: d})
	sandbox := attach.Sandbox{Namespace: "demo", Pod: "web", ContainerID: "c1", NetNS: "/run/netns/none"}
	for ifName, version := range map[string]string{"net1": "1.1.0", "old": "0.3.1"} {
		if err := d.add(t.Context(), sandbox, elementOf(t, d, ifName, version)); err != nil {
			t.Fatal(err)
		}
	}
	calls()
	if err := n.Check(t.Context(), "c1"); err != nil {
		t.Error(err)
	}
	if text := calls(); verbs(text) != "CHECK" || !strings.HasPrefix(text, "CHECK c1 net1 ") || !strings.Contains(text, "prevResult") {
		t.Errorf("CHECK made the calls %s", text)
	}
	fail("CHECK")
	if err := n.Check(t.Context(), "c1"); err == nil || !strings.Contains(err.Error(), "interface net1 of demo/lab: no device left") {
		t.Errorf("a CHECK that fails: %v", err)
	}
	if err := n.Check(t.Context(), "other"); err != nil {
		t.Errorf("CHECK of a sandbox without delegates: %v", err)
	}
}

// GC names exactly what Weft has, and what a sandbox left is deleted before.
func TestGCOfDelegates(t *testing.T) {
	d, calls, _ := scripted(t)
	n := New(t.Context(), Options{Delegates: d, Attachments: &attach.Attachments{}, Turns: cniserver.NewTurns()})
	for _, container := range []string{"c1", "c2"} {
		sandbox := attach.Sandbox{Namespace: "demo", Pod: container, ContainerID: container, NetNS: "/run/netns/none"}
		if err := d.add(t.Context(), sandbox, elementOf(t, d, "net1", "1.1.0")); err != nil {
			t.Fatal(err)
		}
	}
	calls()
	if err := d.collect(t.Context()); err != nil {
		t.Error(err)
	}
	text := calls()
	var got struct {
		Name  string `json:"name"`
		Valid []struct {
			ContainerID string `json:"containerID"`
			IfName      string `json:"ifname"`
		} `json:"cni.dev/valid-attachments"`
	}
	if err := json.Unmarshal([]byte(text[strings.Index(text, "{"):]), &got); err != nil || verbs(text) != "GC" {
		t.Fatalf("GC made the calls %s, %v", text, err)
	}
	if got.Name != "lab" || len(got.Valid) != 2 || got.Valid[0].ContainerID != "c1" || got.Valid[1].IfName != "net1" {
		t.Errorf("GC has %+v", got)
	}
	if err := n.Collect(t.Context()); err != nil { // no sandbox has an interface on the cluster network
		t.Error(err)
	}
	if text := calls(); verbs(text) != "DEL DEL" {
		t.Errorf("the end of the sandboxes made the calls %s", text)
	}
}
