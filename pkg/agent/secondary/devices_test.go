package secondary

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weft-network/weft/pkg/agent/attach"
)

// Each interface of a definition with a resource gets a device of its own, and DEL the same as ADD.
func TestDevicesOfInterfaces(t *testing.T) {
	d, calls, _ := scripted(t)
	asked := 0
	d.Devices = func(_ context.Context, namespace, pod, resource string) ([]string, error) {
		asked++
		if namespace != "demo" || pod != "web" || resource != "example.com/vf" {
			t.Errorf("devices of %s/%s of %s", namespace, pod, resource)
		}
		return []string{"b", "a"}, nil
	}
	sandbox := attach.Sandbox{Namespace: "demo", Pod: "web", ContainerID: "c1", NetNS: "/run/netns/none"}
	add := func(ifName, resource string) error {
		e := elementOf(t, d, ifName, "1.0.0")
		e.resource = resource
		return d.add(t.Context(), sandbox, e)
	}
	for _, want := range []struct{ ifName, device string }{{"net1", "b"}, {"net2", "a"}} {
		if err := add(want.ifName, "example.com/vf"); err != nil || !strings.Contains(calls(), `"deviceID":"`+want.device+`"`) {
			t.Errorf("ADD of %s: %v, want device %s", want.ifName, err, want.device)
		}
	}
	if err := add("net3", "example.com/vf"); err == nil || !strings.Contains(err.Error(),
		"resource example.com/vf: kubelet gave the pod 2 devices") || calls() != "" {
		t.Errorf("ADD without a device left: %v", err)
	}
	if err := d.remove(t.Context(), "c1", "net1"); err != nil || !strings.Contains(calls(), `"deviceID":"b"`) {
		t.Errorf("DEL of net1: %v", err)
	}
	if err := add("net3", "example.com/vf"); err != nil || !strings.Contains(calls(), `"deviceID":"b"`) {
		t.Errorf("ADD with the device of a former interface: %v", err)
	}
	asked = 0
	if err := add("net4", ""); err != nil || asked > 0 || strings.Contains(calls(), "deviceID") {
		t.Errorf("kubelet was read %d times for a definition without a resource: %v", asked, err)
	}
	d.Devices = nil
	if err := add("net5", "example.com/vf"); err == nil || !strings.Contains(err.Error(), "--pod-resources") {
		t.Errorf("ADD without kubelet: %v", err)
	}
}

// What a device plugin or a plugin says of a device is read where the node has it, past a link that leads out of the
// node's file system.
func TestDeviceInformation(t *testing.T) {
	d := &Delegates{Root: t.TempDir()}
	for _, dir := range []string{"var", "run/k8s.cni.cncf.io/devinfo/dp", "run/k8s.cni.cncf.io/devinfo/cni"} {
		if err := os.MkdirAll(filepath.Join(d.Root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/run", filepath.Join(d.Root, "var/run")); err != nil {
		t.Fatal(err)
	}
	r := &record{Sandbox: attach.Sandbox{ContainerID: "c1"}, Interface: "net1", Resource: "example.com/vf", DeviceID: "0000:00:1f.0"}
	if info, err := d.readDevice(r); err != nil || info != nil {
		t.Errorf("%+v, %v without a file", info, err)
	}
	for _, c := range []struct{ file, address string }{
		{"dp/example.com-vf-0000:00:1f.0-device.json", "by the device plugin"},
		{"cni/c1_net1-device.json", "by the plugin"},
	} {
		text := `{"type":"pci","version":"1.1.0","pci":{"pci-address":"` + c.address + `"}}`
		if err := os.WriteFile(filepath.Join(d.Root, "run/k8s.cni.cncf.io/devinfo", c.file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if info, err := d.readDevice(r); err != nil || info == nil || info.Pci.PciAddress != c.address {
			t.Errorf("%s: %+v, %v", c.file, info, err)
		}
	}
	if err := d.forgetDevice(r); err != nil {
		t.Error(err)
	}
	r.Device, _ = d.readDevice(r)
	r.Result = []byte(`{"cniVersion":"1.1.0","interfaces":[{"name":"net1","sandbox":"/run/netns/x"}]}`)
	all, err := r.status("demo/lab")
	if err != nil || len(all) != 1 || all[0].DeviceInfo == nil || all[0].DeviceInfo.Pci.PciAddress != "by the device plugin" {
		t.Errorf("network-status %+v, %v", all, err)
	}
}
