package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/google/go-cmp/cmp"

	"github.com/weft-network/weft/pkg/agent/cniserver"
	"github.com/weft-network/weft/pkg/cni/cniwire"
	"github.com/weft-network/weft/pkg/cni/tombstone"
)

// TestMain runs a plugin if the test binary is executed under the plugin's name.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "weft-cni":
		main()
		return
	case chainedName:
		chainedMain()
		return
	}
	os.Exit(m.Run())
}

// lab is a directory with the plugin, and with namespaces and a socket for an agent.
type lab struct {
	dir    string
	socket string
	cni    *libcni.CNIConfig
}

func newLab(t *testing.T) lab {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(dir, "weft-cni")); err != nil {
		t.Fatal(err)
	}
	return lab{
		dir:    dir,
		socket: filepath.Join(dir, "run", "cni.sock"),
		cni:    libcni.NewCNIConfigWithCacheDir([]string{dir}, filepath.Join(dir, "cache"), nil),
	}
}

// agent is a Handler that returns always the same answer and records its requests.
type agent struct {
	err      error
	requests *[]cniwire.Request
}

func (a agent) do(req cniwire.Request) error {
	*a.requests = append(*a.requests, req)
	return a.err
}

func (a agent) Add(_ context.Context, req cniwire.Request) (*types100.Result, error) {
	return podResult(), a.do(req)
}
func (a agent) Del(_ context.Context, req cniwire.Request) error    { return a.do(req) }
func (a agent) Check(_ context.Context, req cniwire.Request) error  { return a.do(req) }
func (a agent) Status(_ context.Context, req cniwire.Request) error { return a.do(req) }
func (a agent) GC(_ context.Context, req cniwire.Request) error     { return a.do(req) }

func podResult() *types100.Result {
	pod := 1
	return &types100.Result{
		Interfaces: []*types100.Interface{
			{Name: "weft0123456789", Mac: "0a:00:00:00:00:01"},
			{Name: "eth0", Mac: "0a:58:0a:f4:00:05", Sandbox: "/run/netns/cni-1"},
		},
		IPs: []*types100.IPConfig{
			{Interface: &pod, Address: *mustCIDR("10.244.0.5/24"), Gateway: net.ParseIP("10.244.0.1")},
			{Interface: &pod, Address: *mustCIDR("fd00:10:244::5/64"), Gateway: net.ParseIP("fd00:10:244::1")},
		},
	}
}

func mustCIDR(s string) *net.IPNet {
	prefix, err := types.ParseCIDR(s)
	if err != nil {
		panic(err)
	}
	return prefix
}

// startAgent serves the lab's socket. The recorded requests may be read after the command has ended.
func (l lab) startAgent(t testing.TB, err error) *[]cniwire.Request {
	t.Helper()
	requests := &[]cniwire.Request{}
	l.serve(t, agent{err: err, requests: requests})
	return requests
}

func (l lab) serve(t testing.TB, handler cniserver.Handler) {
	t.Helper()
	listener, err := cniserver.Listen(l.socket)
	if err != nil {
		t.Fatal(err)
	}
	server := cniserver.New(handler, cniserver.Options{
		PeerUID:    uint32(os.Getuid()),
		NetNSRoots: []string{filepath.Join(l.dir, "netns")},
	})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(ctx, listener); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
}

// network returns the configuration that the agent installs, limited to one version.
func (l lab) network(t *testing.T, version string) *libcni.NetworkConfigList {
	t.Helper()
	conf := fmt.Sprintf(`{"cniVersion":%q,"name":"weft","plugins":[{"type":"weft-cni","socket":%q}]}`, version, l.socket)
	list, err := libcni.NetworkConfFromBytes([]byte(conf))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// pod returns the arguments that a Kubernetes runtime passes for a sandbox.
func (l lab) pod() *libcni.RuntimeConf {
	return &libcni.RuntimeConf{
		ContainerID: "0123456789abcdef",
		NetNS:       filepath.Join(l.dir, "netns", "cni-1"),
		IfName:      "eth0",
		Args: [][2]string{
			{"IgnoreUnknown", "1"},
			{"K8S_POD_NAMESPACE", "demo"},
			{"K8S_POD_NAME", "web-0"},
			{"K8S_POD_INFRA_CONTAINER_ID", "0123456789abcdef"},
			{"K8S_POD_UID", "6e1d6d5a-4c2a-4b57-a6e2-3f2f1e9d8c7b"},
		},
	}
}

func TestAddReturnsTheRequestedVersion(t *testing.T) {
	l := newLab(t)
	l.startAgent(t, nil)
	for _, version := range []string{"0.3.1", "0.4.0", "1.0.0", "1.1.0"} {
		t.Run(version, func(t *testing.T) {
			result, err := l.cni.AddNetworkList(t.Context(), l.network(t, version), l.pod())
			if err != nil {
				t.Fatal(err)
			}
			if result.Version() != version {
				t.Errorf("result of version %s", result.Version())
			}
			got, err := types100.NewResultFromResult(result)
			if err != nil {
				t.Fatal(err)
			}
			want := podResult()
			want.CNIVersion = got.CNIVersion
			if diff := cmp.Diff(asJSON(t, want), asJSON(t, got)); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The configuration offers all versions, and the runtime selects one.
func TestTheRuntimeSelectsTheNewestSupportedVersion(t *testing.T) {
	l := newLab(t)
	l.startAgent(t, nil)
	list, err := libcni.NetworkConfFromBytes(fmt.Appendf(nil, `{"cniVersion":"1.0.0",
		"cniVersions":["0.3.1","0.4.0","1.0.0","1.1.0"],"name":"weft","plugins":[{"type":"weft-cni","socket":%q}]}`, l.socket))
	if err != nil {
		t.Fatal(err)
	}
	result, err := l.cni.AddNetworkList(t.Context(), list, l.pod())
	if err != nil || result.Version() != "1.1.0" {
		t.Errorf("result: %v, %v", result, err)
	}
}

func TestEachCommandPassesItsArgumentsToTheAgent(t *testing.T) {
	l := newLab(t)
	requests := l.startAgent(t, nil)
	network := l.network(t, "1.1.0")
	if _, err := l.cni.AddNetworkList(t.Context(), network, l.pod()); err != nil {
		t.Fatalf("ADD: %v", err)
	}
	if err := l.cni.CheckNetworkList(t.Context(), network, l.pod()); err != nil {
		t.Fatalf("CHECK: %v", err)
	}
	if err := l.cni.GetStatusNetworkList(t.Context(), network); err != nil {
		t.Fatalf("STATUS: %v", err)
	}
	if err := l.cni.DelNetworkList(t.Context(), network, l.pod()); err != nil {
		t.Fatalf("DEL: %v", err)
	}

	var commands []cniwire.Command
	for _, req := range *requests {
		commands = append(commands, req.Command)
	}
	if want := []cniwire.Command{cniwire.Add, cniwire.Check, cniwire.Status, cniwire.Del}; !slices.Equal(commands, want) {
		t.Fatalf("commands at the agent: %v", commands)
	}
	add := (*requests)[0]
	add.Config = nil
	want := cniwire.Request{
		Version: cniwire.Version, Command: cniwire.Add, ContainerID: "0123456789abcdef", IfName: "eth0",
		NetNS: l.pod().NetNS,
		Args: cniwire.Args{PodNamespace: "demo", PodName: "web-0", PodUID: "6e1d6d5a-4c2a-4b57-a6e2-3f2f1e9d8c7b",
			InfraContainerID: "0123456789abcdef"},
	}
	if diff := cmp.Diff(want, add); diff != "" {
		t.Errorf("request for ADD (-want +got):\n%s", diff)
	}
	if config := string((*requests)[1].Config); !strings.Contains(config, "prevResult") {
		t.Errorf("configuration of CHECK: %s", config)
	}
}

// The runtime's list of valid attachments reaches the agent. An empty list differs from no list.
func TestGCPassesTheValidAttachmentsToTheAgent(t *testing.T) {
	l := newLab(t)
	requests := l.startAgent(t, nil)
	network := l.network(t, "1.1.0")
	for _, valid := range [][]types.GCAttachment{nil, {}, {{ContainerID: "0123456789abcdef", IfName: "eth0"}}} {
		if err := l.cni.GCNetworkList(t.Context(), network, &libcni.GCArgs{ValidAttachments: valid}); err != nil {
			t.Fatal(err)
		}
		req := (*requests)[len(*requests)-1]
		config, err := cniwire.ParseConfig(req.Config)
		if err != nil || req.Command != cniwire.GC || config.Name != "weft" {
			t.Errorf("the agent received %s of %s, %v", req.Command, config.Name, err)
		}
		if (config.ValidAttachments == nil) != (valid == nil) || !slices.Equal(config.ValidAttachments, valid) {
			t.Errorf("the list %#v reached the agent as %#v", valid, config.ValidAttachments)
		}
	}
	if err := l.cni.GCNetworkList(t.Context(), network, nil); err != nil {
		t.Errorf("GC without arguments: %v", err)
	}
}

func TestVersion(t *testing.T) {
	l := newLab(t)
	info, err := l.cni.GetVersionInfo(t.Context(), "weft-cni")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"0.3.1", "0.4.0", "1.0.0", "1.1.0"}; !slices.Equal(info.SupportedVersions(), want) {
		t.Errorf("supported versions: %v", info.SupportedVersions())
	}
}

func TestTheAgentsErrorReachesTheRuntime(t *testing.T) {
	l := newLab(t)
	l.startAgent(t, fmt.Errorf("pod demo/web-0: %w", cniwire.Errorf(cniwire.CodeTryAgainLater, "no port yet")))
	network := l.network(t, "1.1.0")
	_, addErr := l.cni.AddNetworkList(t.Context(), network, l.pod())
	for command, err := range map[string]error{
		"ADD":    addErr,
		"DEL":    l.cni.DelNetworkList(t.Context(), network, l.pod()),
		"STATUS": l.cni.GetStatusNetworkList(t.Context(), network),
	} {
		if code := codeOf(err); code != cniwire.CodeTryAgainLater || !strings.Contains(err.Error(), "pod demo/web-0: no port yet") {
			t.Errorf("%s: code %d: %v", command, code, err)
		}
	}
}

func codeOf(err error) uint {
	var coded *types.Error
	if !errors.As(err, &coded) {
		return 0
	}
	return coded.Code
}

func TestWithoutAnAgent(t *testing.T) {
	l := newLab(t)
	network := l.network(t, "1.1.0")
	alive := l.pod()
	alive.NetNS = fmt.Sprintf("/proc/%d/ns/net", os.Getpid())
	_, addErr := l.cni.AddNetworkList(t.Context(), network, l.pod())
	l.forbidTombstones(t)
	for command, test := range map[string]struct {
		err  error
		code uint
	}{
		"ADD": {addErr, cniwire.CodeTryAgainLater},
		"DEL without a tombstone, of a live namespace": {l.cni.DelNetworkList(t.Context(), network, alive), cniwire.CodeTryAgainLater},
		"GC":     {l.cni.GCNetworkList(t.Context(), network, nil), cniwire.CodeTryAgainLater},
		"STATUS": {l.cni.GetStatusNetworkList(t.Context(), network), cniwire.CodeNotAvailable},
	} {
		if code := codeOf(test.err); code != test.code || !strings.Contains(test.err.Error(), l.socket) {
			t.Errorf("%s: code %d: %v", command, code, test.err)
		}
	}
}

// If an agent disappears during an ADD, the next agent answers it.
func TestAddWaitsForTheNextAgent(t *testing.T) {
	l := newLab(t)
	if err := os.MkdirAll(filepath.Dir(l.socket), 0o700); err != nil {
		t.Fatal(err)
	}
	leaving, err := net.Listen("unix", l.socket)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	network, pod := l.network(t, "1.1.0"), l.pod()
	go func() {
		_, err := l.cni.AddNetworkList(t.Context(), network, pod)
		done <- err
	}()
	conn, err := leaving.Accept()
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	leaving.Close()
	requests := l.startAgent(t, nil)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if len(*requests) != 1 {
		t.Errorf("the next agent received %d requests", len(*requests))
	}
}

// On a starting node the ADDs of all pods wait for the agent at the same time. The runtime on the node needs inotify
// instances too.
func TestWaitingForTheAgentTakesOneInotifyInstance(t *testing.T) {
	const waiting = 150
	dir := t.TempDir()
	socket := filepath.Join(dir, "cni.sock")
	found := make(chan error, waiting)
	deadline := time.Now().Add(time.Minute)
	for range waiting {
		go func() { found <- awaitAgent(socket, deadline) }()
	}
	for openFiles(t, dir) < waiting || openFiles(t, "anon_inode:inotify") == 0 {
		runtime.Gosched()
	}
	if n := openFiles(t, "anon_inode:inotify"); n != 1 {
		t.Errorf("%d waiting plugins have %d inotify instances, want 1", waiting, n)
	}
	listener, err := net.Listen("unix", filepath.Join(dir, "new"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := os.Rename(filepath.Join(dir, "new"), socket); err != nil {
		t.Fatal(err)
	}
	for range waiting {
		if err := <-found; err != nil {
			t.Error(err)
		}
	}
}

func TestWaitingForTheAgentEnds(t *testing.T) {
	dir := t.TempDir()
	ended := make(chan error, 2)
	deadline := time.Now().Add(50 * time.Millisecond)
	for range cap(ended) {
		go func() { ended <- awaitAgent(filepath.Join(dir, "cni.sock"), deadline) }()
	}
	for range cap(ended) {
		if err := <-ended; err == nil {
			t.Error("an agent was found although there is none")
		}
	}
}

// openFiles counts this process's open files with a name.
func openFiles(t *testing.T, name string) (n int) {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if target, _ := os.Readlink(filepath.Join("/proc/self/fd", f.Name())); target == name {
			n++
		}
	}
	return n
}

// forbidTombstones creates a file in place of the tombstones' folder.
func (l lab) forbidTombstones(t *testing.T) {
	t.Helper()
	folder := filepath.Join(filepath.Dir(l.socket), "tombstones")
	if err := errors.Join(os.MkdirAll(filepath.Dir(folder), 0o700), os.WriteFile(folder, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
}

// Failure mode C1: while the agent is down, the runtime can still end the pod, and the next agent processes the DEL.
func TestDelWithoutAnAgentIsRecorded(t *testing.T) {
	l := newLab(t)
	network, pod := l.network(t, "1.1.0"), l.pod()
	if err := l.cni.DelNetworkList(t.Context(), network, pod); err != nil {
		t.Fatal(err)
	}
	found, refused, err := tombstone.Beside(l.socket).List()
	want := []tombstone.Tombstone{{ContainerID: "0123456789abcdef", IfName: "eth0", Args: cniwire.Args{
		PodNamespace: "demo", PodName: "web-0", PodUID: "6e1d6d5a-4c2a-4b57-a6e2-3f2f1e9d8c7b", InfraContainerID: "0123456789abcdef"}}}
	if diff := cmp.Diff(want, found); diff != "" || err != nil || refused != nil {
		t.Errorf("tombstones (-want +got):\n%s %v, %v", diff, refused, err)
	}
	requests := l.startAgent(t, nil)
	if err := l.cni.DelNetworkList(t.Context(), network, pod); err != nil {
		t.Fatal(err)
	}
	if len(*requests) != 1 {
		t.Errorf("the agent received %d requests", len(*requests))
	}
}

// Failure mode C1: if an agent disappears during a DEL, the next agent answers it before the plugin gives up.
func TestDelReachesTheNextAgent(t *testing.T) {
	l := newLab(t)
	if err := os.MkdirAll(filepath.Dir(l.socket), 0o700); err != nil {
		t.Fatal(err)
	}
	leaving, err := net.Listen("unix", l.socket)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	network, pod := l.network(t, "1.1.0"), l.pod()
	go func() { done <- l.cni.DelNetworkList(t.Context(), network, pod) }()
	conn, err := leaving.Accept()
	if err != nil {
		t.Fatal(err)
	}
	requests := l.startAgent(t, nil) // replaces the socket while the first agent still holds the connection
	conn.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	leaving.Close()
	found, _, err := tombstone.Beside(l.socket).List()
	if len(*requests) != 1 || len(found) != 0 || err != nil {
		t.Errorf("the next agent received %d requests, tombstones: %v, %v", len(*requests), found, err)
	}
}

// Nothing is left that needs the agent, and after a reboot a node must be able to clean up.
func TestDelOfAGoneNamespaceNeedsNoAgent(t *testing.T) {
	l := newLab(t)
	l.forbidTombstones(t)
	leftover := filepath.Join(l.dir, "leftover")
	if err := os.WriteFile(leftover, nil, 0o444); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"no path":                  "",
		"no file":                  filepath.Join(l.dir, "absent"),
		"the file under its mount": leftover,
	} {
		t.Run(name, func(t *testing.T) {
			pod := l.pod()
			pod.NetNS = path
			if err := l.cni.DelNetworkList(t.Context(), l.network(t, "1.1.0"), pod); err != nil {
				t.Error(err)
			}
		})
	}
}

// These calls bypass libcni, which would refuse them.
func TestWrongCalls(t *testing.T) {
	l := newLab(t)
	l.startAgent(t, nil)
	good := map[string]string{
		"CNI_COMMAND":     "ADD",
		"CNI_CONTAINERID": "0123456789abcdef",
		"CNI_NETNS":       l.pod().NetNS,
		"CNI_IFNAME":      "eth0",
		"CNI_PATH":        l.dir,
		"CNI_ARGS":        "K8S_POD_NAMESPACE=demo;K8S_POD_NAME=web-0",
	}
	conf := fmt.Sprintf(`{"cniVersion":"1.0.0","name":"weft","type":"weft-cni","socket":%q}`, l.socket)
	for name, test := range map[string]struct {
		variable, value string
		stdin           string
		code            uint
	}{
		"a good call":           {"", "", conf, 0},
		"no container":          {"CNI_CONTAINERID", "", conf, cniwire.CodeInvalidEnvironment},
		"an invalid container":  {"CNI_CONTAINERID", "../x", conf, cniwire.CodeInvalidEnvironment},
		"an invalid interface":  {"CNI_IFNAME", "a/b", conf, cniwire.CodeInvalidEnvironment},
		"an invalid namespace":  {"CNI_NETNS", "/etc/passwd", conf, cniwire.CodeInvalidEnvironment},
		"an unknown command":    {"CNI_COMMAND", "PWN", conf, cniwire.CodeInvalidEnvironment},
		"an argument without =": {"CNI_ARGS", "K8S_POD_NAME", conf, cniwire.CodeInvalidEnvironment},
		"no pod":                {"CNI_ARGS", "", conf, cniwire.CodeInvalidEnvironment},
		"invalid JSON":          {"", "", "{", cniwire.CodeDecodingFailure},
		"nothing":               {"", "", "", cniwire.CodeDecodingFailure},
		"no network name":       {"", "", `{"cniVersion":"1.0.0"}`, cniwire.CodeInvalidConfig},
		"a relative socket":     {"", "", `{"cniVersion":"1.0.0","name":"weft","socket":"x"}`, cniwire.CodeInvalidConfig},
		"a future version":      {"", "", `{"cniVersion":"9.0.0","name":"weft"}`, types.ErrIncompatibleCNIVersion},
	} {
		t.Run(name, func(t *testing.T) {
			plugin := exec.Command(filepath.Join(l.dir, "weft-cni"))
			plugin.Stdin = strings.NewReader(test.stdin)
			for variable, value := range good {
				if variable == test.variable {
					value = test.value
				}
				plugin.Env = append(plugin.Env, variable+"="+value)
			}
			var stdout bytes.Buffer
			plugin.Stdout = &stdout
			err := plugin.Run()
			var printed types.Error
			if jsonErr := json.Unmarshal(stdout.Bytes(), &printed); jsonErr != nil {
				t.Fatalf("%v, printed %q: %v", err, &stdout, jsonErr)
			}
			if (err != nil) != (test.code != 0) || printed.Code != test.code {
				t.Errorf("%v, printed %s", err, &stdout)
			}
		})
	}
}

// The plugin is executed for every pod, so it must be small to start fast.
func TestThePluginStaysThin(t *testing.T) {
	list, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(list))
	if !slices.Contains(deps, "github.com/weft-network/weft/pkg/cni/cniwire") {
		t.Fatalf("unexpected list of packages: %q", deps)
	}
	for _, heavy := range []string{"k8s.io/", "sigs.k8s.io/", "github.com/ovn-kubernetes/",
		"github.com/vishvananda/netlink", "github.com/google/", "net/http"} {
		if i := slices.IndexFunc(deps, func(dep string) bool { return strings.HasPrefix(dep, heavy) }); i >= 0 {
			t.Errorf("weft-cni depends on %s", deps[i])
		}
	}
}
