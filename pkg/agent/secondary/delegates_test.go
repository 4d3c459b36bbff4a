package secondary

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/weft-network/weft/pkg/agent/attach"
)

func TestConfigurations(t *testing.T) {
	d := &Delegates{ConfDir: t.TempDir()}
	list := `{"cniVersion":"1.0.0","name":"onnode","plugins":[{"type":"bridge"}]}`
	if err := os.WriteFile(filepath.Join(d.ConfDir, "10-onnode.conflist"), []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`{"cniVersion":"1.0.0","type":"macvlan"}`: `"name":"onnode",` +
			`"plugins":[{"cniVersion":"1.0.0","name":"onnode","type":"macvlan"}]`,
		`{"cniVersion":"1.0.0","name":"own","plugins":[{"type":"macvlan"}]}`: `"name":"own","plugins":[{"type":"macvlan"}]`,
		``: `"name":"onnode"`,
	} {
		if got, err := d.configOf("onnode", text); err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
	if _, err := d.configOf("absent", ""); err == nil || !strings.Contains(err.Error(), `"absent"`) {
		t.Errorf("a configuration that the node lacks: %v", err)
	}
}

func TestArgsOfARequest(t *testing.T) {
	var e nadv1.NetworkSelectionElement
	if err := json.Unmarshal([]byte(`{"name":"x","cni-args":{"a":"b"},"mac":"02:00:00:00:00:01","ips":["10.0.0.5/24"]}`), &e); err != nil {
		t.Fatal(err)
	}
	got, err := withArgs([]byte(`{"plugins":[{"type":"p","args":{"cni":{"c":"d"}}}]}`), e)
	if want := `{"plugins":[{"args":{"cni":{"a":"b","c":"d"}},"type":"p"}]}`; err != nil || string(got) != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
	r := record{Element: e, Interface: "net1", Sandbox: attach.Sandbox{Namespace: "demo", Pod: "web", ContainerID: "c1"}}
	rt := r.runtime()
	if rt.CapabilityArgs["mac"] != "02:00:00:00:00:01" || rt.IfName != "net1" || len(rt.Args) != 7 {
		t.Errorf("%+v", rt)
	}
}

// Records are listed by sandbox in the order in which they were begun, whatever else is in the folder.
func TestRecords(t *testing.T) {
	d := &Delegates{State: t.TempDir()}
	if found, err := d.records(""); err != nil || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
	for i, ifName := range []string{"z", "a"} {
		r := &record{Sandbox: attach.Sandbox{ContainerID: "c1"}, Interface: ifName}
		r.Begun = r.Begun.AddDate(0, 0, i)
		if err := d.write(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.write(&record{Sandbox: attach.Sandbox{ContainerID: "c2"}, Interface: "n"}); err != nil {
		t.Fatal(err)
	}
	found, err := d.records("c1")
	if err != nil || len(found) != 2 || found[0].Interface != "z" || found[1].Interface != "a" {
		t.Errorf("%+v, %v", found, err)
	}
	for range 2 { // twice is as once
		if err := d.forget(&found[0]); err != nil {
			t.Error(err)
		}
	}
	if left, _ := d.records(""); len(left) != 2 {
		t.Errorf("%+v", left)
	}
}

// A plugin runs in the node's file system, and its own error is the error.
func TestPluginsRunInTheRoot(t *testing.T) {
	e := &rootExec{root: t.TempDir()}
	if err := os.MkdirAll(filepath.Join(e.root, "opt/cni/bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(e.root, "opt/cni/bin/p"), []byte("x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if path, err := e.FindInPath("p", []string{"/usr/none", "/opt/cni/bin"}); err != nil || path != "/opt/cni/bin/p" {
		t.Errorf("%s, %v", path, err)
	}
	for _, bad := range []string{"", "../p", "a/b", "absent"} {
		if path, err := e.FindInPath(bad, []string{"/opt/cni/bin"}); err == nil {
			t.Errorf("%q is %s", bad, path)
		}
	}
	own := &rootExec{}
	script := filepath.Join(t.TempDir(), "plugin")
	if err := os.WriteFile(script,
		[]byte("#!/bin/sh\ncat >/dev/null\necho '{\"code\":7,\"msg\":\"no '$WHAT'\"}'\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := own.ExecPlugin(t.Context(), script, []byte("{}"), []string{"WHAT=room"}); err == nil || err.Error() != "no room" {
		t.Errorf("%v", err)
	}
}
