package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/containernetworking/cni/libcni"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/pkg/agent/cniserver"
	"github.com/weft-network/weft/pkg/cni"
	"github.com/weft-network/weft/pkg/cni/cniwire"
)

// insideNode marks the process that TestANode runs in its own network namespace.
const insideNode = "WEFT_TEST_NODE"

// TestANode runs libcni, the plugin, the server and real links together, in a network namespace that stands for the
// host.
func TestANode(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("network namespaces need root")
	}
	if os.Getenv(insideNode) == "" {
		node := exec.Command("/proc/self/exe", "-test.run=^TestANode$", "-test.v")
		node.Env = append(os.Environ(), insideNode+"=1")
		node.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNET}
		if out, err := node.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS: TestANode") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	l := newLab(t)
	l.serve(t, wiring{})
	network := l.network(t, "1.0.0")
	pod, end := startPod(t)
	runtime := l.pod()
	runtime.NetNS = pod

	t.Run("ADD creates the interface", func(t *testing.T) { addCreatesTheInterface(t, l, network, runtime) })
	t.Run("CHECK agrees", func(t *testing.T) {
		if err := l.cni.CheckNetworkList(t.Context(), network, runtime); err != nil {
			t.Error(err)
		}
	})
	t.Run("the host's namespace is refused", func(t *testing.T) {
		host := *runtime
		host.ContainerID, host.NetNS = "other", fmt.Sprintf("/proc/%d/ns/net", os.Getpid())
		if _, err := l.cni.AddNetworkList(t.Context(), network, &host); codeOf(err) != cniwire.CodeInvalidNetNS {
			t.Errorf("ADD: code %d: %v", codeOf(err), err)
		}
	})
	end()
	t.Run("DEL succeeds twice after the pod has ended", func(t *testing.T) {
		for range 2 {
			if err := l.cni.DelNetworkList(t.Context(), network, runtime); err != nil {
				t.Error(err)
			}
		}
		if links, err := cni.List(); err != nil || len(links) != 0 {
			t.Errorf("links left: %+v, %v", links, err)
		}
	})
}

func addCreatesTheInterface(t *testing.T, l lab, network *libcni.NetworkConfigList, runtime *libcni.RuntimeConf) {
	for range 2 { // a runtime that lost the first answer retries
		result, err := l.cni.AddNetworkList(t.Context(), network, runtime)
		if err != nil {
			t.Fatal(err)
		}
		got, err := types100.NewResultFromResult(result)
		if err != nil {
			t.Fatal(err)
		}
		host, pod := got.Interfaces[0], got.Interfaces[1]
		if link, err := netlink.LinkByName(host.Name); err != nil || link.Attrs().HardwareAddr.String() != host.Mac {
			t.Errorf("the host's end: %+v, error %v", link, err)
		}
		if pod.Name != "eth0" || pod.Sandbox != runtime.NetNS || got.IPs[0].Address.String() != "10.244.0.5/24" {
			t.Errorf("result: %s", asJSON(t, got))
		}
	}
}

// startPod starts a process in its own network namespace. It returns the path of the namespace and a function that
// ends the process.
func startPod(t *testing.T) (path string, end func()) {
	t.Helper()
	pause := exec.Command("cat") // ends with its input
	pause.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	stdin, err := pause.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := pause.Start(); err != nil {
		t.Fatal(err)
	}
	end = func() {
		stdin.Close()
		_ = pause.Wait()
	}
	t.Cleanup(end)
	return fmt.Sprintf("/proc/%d/ns/net", pause.Process.Pid), end
}

// wiring is a Handler that only creates, verifies and removes links.
type wiring struct{}

func (wiring) want(req cniwire.Request) cni.PodInterface {
	return cni.PodInterface{
		ContainerID: req.ContainerID,
		NetNS:       req.NetNS,
		IfName:      req.IfName,
		MAC:         net.HardwareAddr{0x0a, 0x58, 0x0a, 0xf4, 0x00, 0x05},
		Addresses:   []netip.Prefix{netip.MustParsePrefix("10.244.0.5/24")},
		Gateways:    []netip.Addr{netip.MustParseAddr("10.244.0.1")},
	}
}

func (w wiring) Add(_ context.Context, req cniwire.Request) (*types100.Result, error) {
	made, err := cni.Attach(w.want(req))
	if err != nil {
		return nil, err
	}
	pod := 1
	return &types100.Result{
		Interfaces: []*types100.Interface{
			{Name: made.HostName, Mac: made.HostMAC.String()},
			{Name: req.IfName, Mac: made.MAC.String(), Sandbox: req.NetNS},
		},
		IPs: []*types100.IPConfig{{Interface: &pod, Address: *mustCIDR("10.244.0.5/24"), Gateway: net.IPv4(10, 244, 0, 1)}},
	}, nil
}

func (wiring) Del(_ context.Context, req cniwire.Request) error {
	return cni.Detach(req.ContainerID, req.IfName)
}

func (w wiring) Check(_ context.Context, req cniwire.Request) error { return cni.Verify(w.want(req)) }

func (wiring) Status(context.Context, cniwire.Request) error { return errors.ErrUnsupported }
func (wiring) GC(context.Context, cniwire.Request) error     { return errors.ErrUnsupported }

var _ cniserver.Handler = wiring{}
