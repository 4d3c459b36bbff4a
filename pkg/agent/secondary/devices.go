package secondary

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/weft-network/weft/pkg/agent/attach"
)

// devinfo is the node's folder of device-information files, as the Network Plumbing Working Group's specification of
// them says: device plugins write below dp, CNI plugins below cni.
const devinfo = "k8s.cni.cncf.io/devinfo"

// deviceOf chooses the device of an element: the first of the resource that kubelet gave the pod and that no further
// interface of the sandbox has. Without a resource it is empty, and kubelet is not read.
func (d *Delegates) deviceOf(ctx context.Context, sandbox attach.Sandbox, e element) (string, error) {
	if e.resource == "" {
		return "", nil
	}
	if d.Devices == nil {
		return "", fmt.Errorf("resource %s: this node's agent does not read kubelet's devices (--pod-resources)", e.resource)
	}
	ids, err := d.Devices(ctx, sandbox.Namespace, sandbox.Pod, e.resource)
	if err != nil {
		return "", fmt.Errorf("resource %s: %w", e.resource, err)
	}
	records, err := d.records(sandbox.ContainerID)
	if err != nil {
		return "", err
	}
	for _, id := range ids {
		if !slices.ContainsFunc(records, func(r record) bool { return r.Resource == e.resource && r.DeviceID == id }) {
			return id, nil
		}
	}
	return "", fmt.Errorf("resource %s: kubelet gave the pod %d devices, and each is of another interface: "+
		"request one in the pod's resources for each interface", e.resource, len(ids))
}

// withDevice puts a device into the first plugin's configuration, as Multus does.
func withDevice(config []byte, id string) ([]byte, error) {
	if id == "" {
		return config, nil
	}
	var list map[string]any
	if err := json.Unmarshal(config, &list); err != nil {
		return nil, err
	}
	plugins, _ := list["plugins"].([]any)
	if len(plugins) == 0 {
		return nil, errors.New("spec.config has no plugins")
	}
	if plugin, ok := plugins[0].(map[string]any); ok {
		plugin["deviceID"], plugin["pciBusID"] = id, id
	}
	return json.Marshal(list)
}

// infoFile returns the file in which a plugin may describe the device of an interface, as the node names it.
func (r *record) infoFile() string {
	return filepath.Join("/var/run", devinfo, "cni", r.Sandbox.ContainerID+"_"+r.Interface+"-device.json")
}

// readDevice reads what the plugin, or else the device plugin, says of the interface's device; nil: neither does.
func (d *Delegates) readDevice(r *record) (*nadv1.DeviceInfo, error) {
	files := []string{r.infoFile()}
	if r.DeviceID != "" {
		plain := func(text string) string { return strings.ReplaceAll(text, "/", "-") }
		files = append(files, filepath.Join("/var/run", devinfo, "dp", plain(r.Resource)+"-"+plain(r.DeviceID)+"-device.json"))
	}
	for _, file := range files {
		text, err := os.ReadFile(d.onNode(file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		info := &nadv1.DeviceInfo{}
		if err == nil {
			err = json.Unmarshal(text, info)
		}
		if err != nil {
			return nil, fmt.Errorf("device information %s: %w", file, err)
		}
		return info, nil
	}
	return nil, nil
}

// forgetDevice removes the description that a plugin wrote.
func (d *Delegates) forgetDevice(r *record) error {
	if err := os.Remove(d.onNode(r.infoFile())); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// onNode returns where a file below the node's /var/run is. There /var/run is usually a link to /run, which would lead
// to the agent's own /run.
func (d *Delegates) onNode(file string) string {
	const run = "/var/run"
	base := filepath.Join(d.Root, run)
	if target, err := os.Readlink(base); err == nil {
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(run), target)
		}
		base = filepath.Join(d.Root, target)
	}
	return filepath.Join(base, strings.TrimPrefix(file, run))
}
