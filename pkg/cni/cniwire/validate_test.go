package cniwire

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestValidateAccepts(t *testing.T) {
	for name, change := range map[string]func(*Request){
		"an ADD":                             func(*Request) {},
		"a static pod's UID":                 func(r *Request) { r.Args.PodUID = strings.Repeat("0a", 16) },
		"a pod without UID":                  func(r *Request) { r.Args.PodUID = "" },
		"a pod name with dots":               func(r *Request) { r.Args.PodName = "etcd-node-1.example.com" },
		"a process's namespace":              func(r *Request) { r.NetNS = "/proc/4711/ns/net" },
		"a thread's namespace":               func(r *Request) { r.NetNS = "/proc/4711/task/4712/ns/net" },
		"the other root":                     func(r *Request) { r.NetNS = "/var/run/netns/cni-1" },
		"a DEL without namespace":            func(r *Request) { r.Command, r.NetNS = Del, "" },
		"a DEL with a namespace outside":     func(r *Request) { r.Command, r.NetNS = Del, "/tmp/../x" },
		"a DEL without pod name":             func(r *Request) { r.Command, r.Args = Del, Args{} },
		"a STATUS without container and pod": func(r *Request) { *r = Request{Version: Version, Command: Status, Config: r.Config} },
		"a GC without a list":                func(r *Request) { *r = Request{Version: Version, Command: GC, Config: r.Config} },
		"a GC with a list": func(r *Request) {
			*r = Request{Version: Version, Command: GC, Config: json.RawMessage(
				`{"cniVersion":"1.1.0","name":"weft","cni.dev/valid-attachments":[{"containerID":"c1","ifname":"eth0"}]}`)}
		},
		"a CHECK with the result of ADD": func(r *Request) {
			r.Command = Check
			r.Config = json.RawMessage(`{"cniVersion":"1.0.0","name":"weft","prevResult":{"cniVersion":"1.0.0"}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			req := podRequest()
			change(&req)
			if err := req.Validate(NetNSRoots()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestValidateNamesTheInvalidField(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Request)
		code   uint
		text   string
	}{
		"another version":    {func(r *Request) { r.Version = 2 }, CodeTryAgainLater, "version 2"},
		"no command":         {func(r *Request) { r.Command = "" }, CodeInvalidEnvironment, "CNI_COMMAND"},
		"an unknown command": {func(r *Request) { r.Command = "add" }, CodeInvalidEnvironment, `CNI_COMMAND "add"`},
		"VERSION":            {func(r *Request) { r.Command = "VERSION" }, CodeInvalidEnvironment, "CNI_COMMAND"},
		"no configuration":   {func(r *Request) { r.Config = nil }, CodeDecodingFailure, "network configuration"},
		"a list":             {func(r *Request) { r.Config = json.RawMessage(`[]`) }, CodeDecodingFailure, "network configuration"},
		"no network name":    {func(r *Request) { r.Config = json.RawMessage(`{}`) }, CodeInvalidConfig, "name"},
		"an invalid network name": {func(r *Request) { r.Config = json.RawMessage(`{"name":"a/b"}`) },
			CodeInvalidConfig, `name "a/b"`},
		"a GC with a path as container": {func(r *Request) {
			r.Command, r.Config = GC, json.RawMessage(`{"name":"weft","cni.dev/valid-attachments":[`+
				`{"containerID":"c1","ifname":"eth0"},{"containerID":"../x","ifname":"eth0"}]}`)
		}, CodeInvalidConfig, `cni.dev/valid-attachments[1]: containerID "../x"`},
		"a GC with an invalid interface": {func(r *Request) {
			r.Command, r.Config = GC, json.RawMessage(`{"name":"weft","cni.dev/valid-attachments":[{"containerID":"c1","ifname":"a/b"}]}`)
		}, CodeInvalidConfig, `cni.dev/valid-attachments[0]: ifname "a/b"`},
		"a GC with a string as list": {func(r *Request) {
			r.Command, r.Config = GC, json.RawMessage(`{"name":"weft","cni.dev/valid-attachments":"all"}`)
		}, CodeDecodingFailure, "network configuration"},
		"a relative socket": {func(r *Request) { r.Config = json.RawMessage(`{"name":"weft","socket":"cni.sock"}`) },
			CodeInvalidConfig, `socket "cni.sock"`},
		"no container":        {func(r *Request) { r.ContainerID = "" }, CodeInvalidEnvironment, "CNI_CONTAINERID"},
		"a path as container": {func(r *Request) { r.ContainerID = "../etc" }, CodeInvalidEnvironment, "CNI_CONTAINERID"},
		"a very long container": {func(r *Request) { r.ContainerID = strings.Repeat("a", 256) },
			CodeInvalidEnvironment, "CNI_CONTAINERID"},
		"a container of two lines": {func(r *Request) { r.ContainerID = "a\nb" }, CodeInvalidEnvironment, "CNI_CONTAINERID"},
		"no interface":             {func(r *Request) { r.IfName = "" }, CodeInvalidEnvironment, "CNI_IFNAME"},
		"a path as interface": {func(r *Request) { r.IfName = "../all" },
			CodeInvalidEnvironment, "CNI_IFNAME"},
		"a long interface": {func(r *Request) { r.IfName = "sixteencharacter" }, CodeInvalidEnvironment, "CNI_IFNAME"},
		"two dots":         {func(r *Request) { r.IfName = ".." }, CodeInvalidEnvironment, "CNI_IFNAME"},
		"no pod namespace": {func(r *Request) { r.Args.PodNamespace = "" }, CodeInvalidEnvironment, "K8S_POD_NAMESPACE"},
		"an invalid pod namespace": {func(r *Request) { r.Args.PodNamespace = "a.b" },
			CodeInvalidEnvironment, "K8S_POD_NAMESPACE"},
		"no pod name":         {func(r *Request) { r.Args.PodName = "" }, CodeInvalidEnvironment, "K8S_POD_NAME"},
		"an invalid pod name": {func(r *Request) { r.Args.PodName = "a/../b" }, CodeInvalidEnvironment, "K8S_POD_NAME"},
		"a long pod name": {func(r *Request) { r.Args.PodName = strings.Repeat("a", 254) },
			CodeInvalidEnvironment, "K8S_POD_NAME"},
		"an invalid UID": {func(r *Request) { r.Args.PodUID = "a;b" }, CodeInvalidEnvironment, "K8S_POD_UID"},
		"an invalid infra container": {func(r *Request) { r.Args.InfraContainerID = "-" },
			CodeInvalidEnvironment, "K8S_POD_INFRA_CONTAINER_ID"},
		"no namespace":         {func(r *Request) { r.NetNS = "" }, CodeInvalidEnvironment, "CNI_NETNS"},
		"a relative namespace": {func(r *Request) { r.NetNS = "run/netns/a" }, CodeInvalidEnvironment, "CNI_NETNS"},
		"dots in the path":     {func(r *Request) { r.NetNS = "/run/netns/../../etc/passwd" }, CodeInvalidEnvironment, "CNI_NETNS"},
		"a doubled slash":      {func(r *Request) { r.NetNS = "/run/netns//a" }, CodeInvalidEnvironment, "CNI_NETNS"},
		"the root itself":      {func(r *Request) { r.NetNS = "/run/netns" }, CodeInvalidEnvironment, "CNI_NETNS"},
		"below a subdirectory": {func(r *Request) { r.NetNS = "/run/netns/a/b" }, CodeInvalidEnvironment, "CNI_NETNS"},
		"a similar root":       {func(r *Request) { r.NetNS = "/run/netns-2/a" }, CodeInvalidEnvironment, "CNI_NETNS"},
		"a zero byte":          {func(r *Request) { r.NetNS = "/run/netns/a\x00b" }, CodeInvalidEnvironment, "CNI_NETNS"},
		"a mount namespace":    {func(r *Request) { r.NetNS = "/proc/1/ns/mnt" }, CodeInvalidEnvironment, "CNI_NETNS"},
		"a process's root":     {func(r *Request) { r.NetNS = "/proc/1/root/run/netns/a" }, CodeInvalidEnvironment, "CNI_NETNS"},
		"the agent itself":     {func(r *Request) { r.NetNS = "/proc/self/ns/net" }, CodeInvalidEnvironment, "CNI_NETNS"},
		"a CHECK without the result of ADD": {func(r *Request) { r.Command = Check },
			CodeInvalidConfig, "prevResult"},
		"a DEL without container": {func(r *Request) { r.Command, r.ContainerID = Del, "" },
			CodeInvalidEnvironment, "CNI_CONTAINERID"},
	} {
		t.Run(name, func(t *testing.T) {
			req := podRequest()
			test.change(&req)
			var coded *Error
			if err := req.Validate(NetNSRoots()); !errors.As(err, &coded) {
				t.Fatalf("Validate: %v", err)
			}
			if coded.Code != test.code || !strings.Contains(coded.Error(), test.text) {
				t.Errorf("Validate: code %d: %v", coded.Code, coded)
			}
		})
	}
}

func TestParseArgs(t *testing.T) {
	got, err := ParseArgs("IgnoreUnknown=1;K8S_POD_NAMESPACE=demo;K8S_POD_NAME=web-0;" +
		"K8S_POD_INFRA_CONTAINER_ID=abc;K8S_POD_UID=6e1d;OTHER=a=b;")
	want := Args{PodNamespace: "demo", PodName: "web-0", PodUID: "6e1d", InfraContainerID: "abc"}
	if err != nil || got != want {
		t.Errorf("ParseArgs: %+v, %v", got, err)
	}
	if got, err := ParseArgs(""); err != nil || got != (Args{}) {
		t.Errorf("ParseArgs without input: %+v, %v", got, err)
	}
	var coded *Error
	if _, err := ParseArgs("K8S_POD_NAME"); !errors.As(err, &coded) || coded.Code != CodeInvalidEnvironment {
		t.Errorf("ParseArgs of a key without value: %v", err)
	}
}
