package secondary

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/weft-network/weft/pkg/agent/attach"
	"github.com/weft-network/weft/pkg/cni"
)

// delegateTimeout bounds one call of a plugin.
const delegateTimeout = 30 * time.Second

// Delegates runs the node's CNI plugins for definitions that are not Weft's. Each attachment has a record on disk
// from before its ADD until after its DEL, with the configuration that it was made with: a DEL needs neither the
// definition nor the agent that made it.
type Delegates struct {
	// State is the folder of records and of libcni's results. It survives a reboot.
	State string
	// BinDirs and ConfDir are where the node has plugins and configurations, as seen from Root.
	BinDirs []string
	ConfDir string
	// Root is the node's file system; empty: the agent's own. Plugins run in it, since they have files of their own
	// there.
	Root string
	// Devices returns the devices of a resource that kubelet gave to a pod; nil: definitions with a resource are refused.
	Devices func(ctx context.Context, namespace, pod, resource string) ([]string, error)

	// exclusive is held by GC. ADD and DEL share it.
	exclusive sync.RWMutex
}

// configOf returns the configuration list of a definition. A definition without one names a configuration file of the
// node.
func (d *Delegates) configOf(name, text string) ([]byte, error) {
	if text == "" {
		list, err := libcni.LoadConfList(filepath.Join(d.Root, d.ConfDir), name)
		if err != nil {
			return nil, fmt.Errorf("spec.config is empty, and so the node's configuration %q is used: %w", name, err)
		}
		return list.Bytes, nil
	}
	var config map[string]any
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		return nil, fmt.Errorf("spec.config: %w", err)
	}
	if config["name"] == nil || config["name"] == "" {
		config["name"] = name // as the standard says
	}
	if _, isList := config["plugins"]; !isList {
		plugin := config
		config = map[string]any{"cniVersion": plugin["cniVersion"], "name": plugin["name"], "plugins": []any{plugin}}
	}
	return json.Marshal(config)
}

// add runs ADD of an element. The record says whether it came to an end.
func (d *Delegates) add(ctx context.Context, sandbox attach.Sandbox, e element) error {
	d.exclusive.RLock()
	defer d.exclusive.RUnlock()
	device, err := d.deviceOf(ctx, sandbox, e)
	if err != nil {
		return err
	}
	config, err := withArgs(e.config, e.Element)
	if err == nil {
		config, err = withDevice(config, device)
	}
	if err != nil {
		return err
	}
	r := &record{Sandbox: sandbox, Interface: e.Interface, Definition: e.Definition().String(), Hash: e.Hash(),
		Config: config, Element: e.Element, Resource: e.resource, DeviceID: device, Begun: time.Now()}
	list, err := libcni.ConfListFromBytes(config)
	if err == nil {
		err = d.isReady(ctx, list)
	}
	if err == nil {
		err = d.write(r)
	}
	if err != nil {
		return err
	}
	result, err := d.cni().AddNetworkList(ctx, list, r.runtime())
	if err == nil {
		err = r.finish(result)
	}
	if err == nil {
		r.Device, err = d.readDevice(r)
	}
	if err == nil && len(e.DefaultRoute) > 0 {
		err = cni.AddDefaultRoutes(sandbox.NetNS, e.Interface, e.DefaultRoute)
	}
	if err == nil {
		err = d.write(r)
	}
	if err == nil {
		return nil
	}
	// The specification wants a DEL after an ADD that failed.
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), delegateTimeout)
	defer cancel()
	return errors.Join(fmt.Errorf("plugin: %w", err), d.removeShared(undo, sandbox.ContainerID, e.Interface))
}

// remove runs DEL of an interface with what it was made with; without a record it does nothing.
func (d *Delegates) remove(ctx context.Context, containerID, ifName string) error {
	d.exclusive.RLock()
	defer d.exclusive.RUnlock()
	return d.removeShared(ctx, containerID, ifName)
}

// removeShared is remove for a caller that shares exclusive.
func (d *Delegates) removeShared(ctx context.Context, containerID, ifName string) error {
	r, err := d.read(containerID, ifName)
	if err != nil || r == nil {
		return err
	}
	list, err := libcni.ConfListFromBytes(r.Config)
	if err != nil {
		return err
	}
	if err := d.cni().DelNetworkList(ctx, list, r.runtime()); err != nil {
		return fmt.Errorf("plugin: DEL of interface %s of %s: %w", ifName, r.Definition, err)
	}
	return errors.Join(d.forgetDevice(r), d.forget(r))
}

// removeAll runs DEL of all interfaces of a sandbox, the last that was made first.
func (d *Delegates) removeAll(ctx context.Context, containerID string) error {
	records, err := d.records(containerID)
	for _, r := range slices.Backward(records) {
		err = errors.Join(err, d.remove(ctx, containerID, r.Interface))
	}
	return err
}

func (d *Delegates) cni() *libcni.CNIConfig {
	return libcni.NewCNIConfigWithCacheDir(d.BinDirs, filepath.Join(d.State, "results"), &rootExec{root: d.Root})
}

// finish keeps a result in the record.
func (r *record) finish(result types.Result) error {
	current, err := types100.NewResultFromResult(result)
	if err != nil {
		return err
	}
	r.Result, err = json.Marshal(current)
	r.Done = true
	return err
}

// runtime returns the arguments of the plugins, the same for all verbs.
func (r *record) runtime() *libcni.RuntimeConf {
	s, e := r.Sandbox, r.Element
	rt := &libcni.RuntimeConf{ContainerID: s.ContainerID, NetNS: s.NetNS, IfName: r.Interface,
		CapabilityArgs: map[string]any{"CNIDeviceInfoFile": r.infoFile()},
		Args: [][2]string{{"IgnoreUnknown", "1"}, {"K8S_POD_NAMESPACE", s.Namespace}, {"K8S_POD_NAME", s.Pod},
			{"K8S_POD_INFRA_CONTAINER_ID", s.ContainerID},
			{"K8S_POD_UID", s.UID}}}
	if e.MacRequest != "" {
		rt.CapabilityArgs["mac"] = e.MacRequest
		rt.Args = append(rt.Args, [2]string{"MAC", e.MacRequest})
	}
	if len(e.IPRequest) > 0 {
		rt.CapabilityArgs["ips"] = e.IPRequest
		rt.Args = append(rt.Args, [2]string{"IP", strings.Join(e.IPRequest, ",")})
	}
	if e.BandwidthRequest != nil {
		rt.CapabilityArgs["bandwidth"] = e.BandwidthRequest
	}
	if len(e.PortMappingsRequest) > 0 {
		rt.CapabilityArgs["portMappings"] = e.PortMappingsRequest
	}
	if e.InfinibandGUIDRequest != "" {
		rt.CapabilityArgs["infinibandGUID"] = e.InfinibandGUIDRequest
	}
	if r.DeviceID != "" {
		rt.CapabilityArgs["deviceID"] = r.DeviceID
	}
	return rt
}

// withArgs puts cni-args of a request into args.cni of each plugin's configuration, as the standard says.
func withArgs(config []byte, e nadv1.NetworkSelectionElement) ([]byte, error) {
	if e.CNIArgs == nil || len(*e.CNIArgs) == 0 {
		return config, nil
	}
	var list map[string]any
	if err := json.Unmarshal(config, &list); err != nil {
		return nil, err
	}
	plugins, _ := list["plugins"].([]any)
	for _, one := range plugins {
		plugin, ok := one.(map[string]any)
		if !ok {
			continue
		}
		args, _ := plugin["args"].(map[string]any)
		if args == nil {
			args = map[string]any{}
		}
		inner, _ := args["cni"].(map[string]any)
		if inner == nil {
			inner = map[string]any{}
		}
		for key, value := range *e.CNIArgs {
			inner[key] = value
		}
		args["cni"], plugin["args"] = inner, args
	}
	return json.Marshal(list)
}
