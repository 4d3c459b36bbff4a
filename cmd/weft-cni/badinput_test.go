package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"

	"github.com/weft-network/weft/pkg/cni/cniwire"
	"github.com/weft-network/weft/pkg/cni/tombstone"
)

// call is an execution of the plugin: its environment and standard input.
type call struct {
	env   map[string]string
	stdin string
}

// run executes the plugin in this process. Unlike main, it returns the error.
func (c call) run(tb testing.TB) *types.Error {
	tb.Helper()
	for _, name := range []string{
		"CNI_COMMAND", "CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS", "CNI_PATH", "CNI_NETNS_OVERRIDE",
	} {
		if err := os.Setenv(name, c.env[name]); err != nil {
			tb.Skip("the environment cannot hold the value")
		}
	}
	in, out := os.Stdin, os.Stdout
	defer func() { os.Stdin, os.Stdout = in, out }()
	var err error
	if os.Stdin, err = os.CreateTemp(tb.TempDir(), "stdin"); err != nil {
		tb.Fatal(err)
	}
	defer os.Stdin.Close()
	if _, err := io.Copy(os.Stdin, bytes.NewBufferString(c.stdin)); err != nil {
		tb.Fatal(err)
	}
	if _, err := os.Stdin.Seek(0, io.SeekStart); err != nil {
		tb.Fatal(err)
	}
	if os.Stdout, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0); err != nil {
		tb.Fatal(err)
	}
	defer os.Stdout.Close()
	return skel.PluginMainFuncsWithError(functions(), versions(), about)
}

// goodCall returns a call that reaches the agent.
func (l lab) goodCall(command, cniVersion string) call {
	conf := fmt.Sprintf(`{"cniVersion":%q,"name":"weft","type":"weft-cni","socket":%q`, cniVersion, l.socket)
	if command == "CHECK" {
		conf += `,"prevResult":{"cniVersion":"` + cniVersion + `"}`
	}
	return call{stdin: conf + "}", env: map[string]string{
		"CNI_COMMAND": command, "CNI_CONTAINERID": "0123456789abcdef", "CNI_NETNS": l.pod().NetNS, "CNI_IFNAME": "eth0",
		"CNI_PATH": l.dir, "CNI_ARGS": "IgnoreUnknown=1;K8S_POD_NAMESPACE=demo;K8S_POD_NAME=web-0;K8S_POD_UID=u1",
	}}
}

// bad is an invalid value of a field, for all commands that read the field.
type bad struct {
	field    string // in the environment, "stdin", or "K8S_..." in CNI_ARGS
	value    string
	code     uint
	words    string // alternatives separated by |; the error must contain one of them
	commands string
}

func badValues() (all []bad) {
	each := func(field string, code uint, words, commands string, values ...string) {
		for _, value := range values {
			all = append(all, bad{field, value, code, words, commands})
		}
	}
	const env, conf, decode = cniwire.CodeInvalidEnvironment, cniwire.CodeInvalidConfig, cniwire.CodeDecodingFailure
	const pod, ns = "ADD DEL CHECK", "ADD CHECK"
	each("CNI_CONTAINERID", env, "CNI_CONTAINERID|containerID", pod,
		"", ".", "..", "../x", "/etc/passwd", "a/b", "-a", "_a", ".a", "a b", " a", "a\tb", "a\nb", "a;b",
		"a|b", "$(id)", "`id`", "a%00", "ä", "a*", "a\\b", "a:b", "a,b", "a=b", "\"a\"", "a\x7f",
		strings.Repeat("a", 256), strings.Repeat("a", 5000))
	each("CNI_IFNAME", env, "CNI_IFNAME|interface name", pod,
		"", ".", "..", "a/b", "../b", "/", "a:b", "a b", " a", "a\tb", "a\nb", "sixteencharacter", strings.Repeat("e", 300))
	each("CNI_NETNS", env, "CNI_NETNS", ns,
		"", "x", "run/netns/x", "/", "/etc/passwd", "/run/netns", "/run/netns/", "/run/netns/../x", "/run/netns/./x", "/run/netns//x",
		"/run/netns/a/b", "//run/netns/x", "/proc/self/ns/net", "/proc/0/ns/net", "/proc/01/ns/net", "/proc/-1/ns/net",
		"/proc/1/ns/mnt", "/proc/1/ns/net/", "/proc/1/../1/ns/net", "/proc/1/task/0/ns/net", "/proc/1/root/run/netns/x", "/proc/1/fd/3",
		"/dev/null", "/tmp/netns/x", "/var/run/netnsx/a", strings.Repeat("/a", 3000))
	each("K8S_POD_NAMESPACE", env, "K8S_POD_NAMESPACE", pod,
		"A", "a.b", "-a", "a-", "a_b", "a/b", "..", "../a", "a b", "ä", "a\x01", strings.Repeat("a", 64))
	each("K8S_POD_NAME", env, "K8S_POD_NAME", pod,
		"A", "-a", "a-", "a_b", "a/b", ".", "..", "a..b", "a.-b", "../a", "a b", "ä", "a\x01", strings.Repeat("a", 254))
	each("K8S_POD_UID", env, "K8S_POD_UID", pod,
		"-", "-a", "a-", "a b", "a/b", "../a", "a.b", "a_b", "ä", strings.Repeat("a", 129))
	each("K8S_POD_INFRA_CONTAINER_ID", env, "K8S_POD_INFRA_CONTAINER_ID", pod, "-", "a/b", "../a", "a b", "ä")
	each("K8S_POD_NAMESPACE", env, "K8S_POD_NAMESPACE", ns, "")
	each("K8S_POD_NAME", env, "K8S_POD_NAME", ns, "")
	each("CNI_ARGS", env, "CNI_ARGS", pod, "K8S_POD_NAME", "x", "K8S_POD_NAME=a;b", ";;x;;")
	each("CNI_COMMAND", env, "CNI_COMMAND", "ADD", "add", "PWN", "ADD ", "ADD;DEL", "UPDATE", strings.Repeat("A", 1000))
	const every = "ADD DEL CHECK STATUS GC"
	each("stdin", decode, "config", every,
		"", "{", "[]", "null x", `"weft"`, "1", `{"name":1}`, `{"name":"weft","socket":1}`+"x", "\x00", "{\"name\":\"weft\"", "<xml/>")
	each("stdin.name", conf, "name", every, ``, `""`, `"/"`, `"a/b"`, `"../x"`, `" "`, `"a b"`, `"-a"`, `"ä"`)
	each("stdin.socket", conf, "socket", every, `"x"`, `"./x"`, `"../x"`, `"run/weft/cni.sock"`)
	each("stdin.socket", decode, "socket|config", every, `1`, `[]`, `{}`)
	each("stdin.cniVersion", types.ErrIncompatibleCNIVersion, "incompatible|version", "ADD DEL CHECK", `"9.0.0"`, `"1.2.0"`, `"0.2.9"`)
	each("stdin.cniVersion", types.ErrIncompatibleCNIVersion, "version", "STATUS GC", `"1.0.0"`, `"0.4.0"`, `"0.3.1"`)
	each("stdin.cniVersion", decode, "version|config", every, `1`, `[]`)
	each("stdin.cniVersion", types.ErrIncompatibleCNIVersion, "version", "ADD DEL", `"x"`, `"1.x.0"`, `"1.0.0.0"`)
	each("stdin.cniVersion", decode, "version", "CHECK STATUS GC", `"x"`, `"1.x.0"`, `"1.0.0.0"`)
	each("stdin.prevResult", conf, "prevResult", "ADD", `{}`, `{"cniVersion":"1.0.0"}`, `1`, `"x"`)
	each("stdin.prevResult", conf, "prevResult", "CHECK", ``)
	list := func(entry string) string { return `[{"containerID":"c1","ifname":"eth0"},` + entry + `]` }
	each("stdin.cni.dev/valid-attachments", conf, "valid-attachments[1]", "GC",
		list(`{}`), list(`{"containerID":"../x","ifname":"eth0"}`), list(`{"containerID":"c1"}`), list(`{"ifname":"eth0"}`),
		list(`{"containerID":"c1","ifname":"a/b"}`), list(`{"containerID":"c1","ifname":".."}`),
		list(`{"containerID":"`+strings.Repeat("c", 300)+`","ifname":"eth0"}`))
	each("stdin.cni.dev/valid-attachments", decode, "valid-attachments|config", "GC", `1`, `"all"`, `{}`, `[1]`, `["c1"]`, `[[]]`)
	return all
}

// spoil puts the invalid value into a good call.
func (b bad) spoil(c call) call {
	field, value := b.field, b.value
	key, inStdin := strings.CutPrefix(field, "stdin.")
	switch {
	case field == "stdin":
		c.stdin = value
	case inStdin:
		c.stdin = replaceKey(c.stdin, key, value)
	case strings.HasPrefix(field, "K8S_"):
		c.env["CNI_ARGS"] = "K8S_POD_NAMESPACE=demo;K8S_POD_NAME=web-0;" + field + "=" + value
	default:
		c.env[field] = value
	}
	return c
}

// replaceKey replaces the raw value of a key in a JSON object. An empty value removes the key. It works on text,
// because the value may be invalid JSON.
func replaceKey(object, key, raw string) string {
	var pairs map[string]json.RawMessage
	if err := json.Unmarshal([]byte(object), &pairs); err != nil {
		panic(err)
	}
	delete(pairs, key)
	if raw != "" {
		pairs[key] = json.RawMessage(raw)
	}
	var texts []string
	for name, value := range pairs {
		texts = append(texts, fmt.Sprintf("%q:%s", name, value))
	}
	return "{" + strings.Join(texts, ",") + "}"
}

// Each of more than 1,000 invalid inputs results in the specified code and an error that names the field. None
// reaches the agent.
func TestBadInputs(t *testing.T) {
	l := newLab(t)
	requests := l.startAgent(t, nil)
	cases, reached := 0, 0
	for _, b := range badValues() {
		for command := range strings.FieldsSeq(b.commands) {
			cniVersions := []string{"0.4.0", "1.0.0", "1.1.0"}
			if command == "STATUS" || command == "GC" {
				cniVersions = cniVersions[2:] // earlier versions lack these commands
			}
			for _, cniVersion := range cniVersions {
				cases++
				err := b.spoil(l.goodCall(command, cniVersion)).run(t)
				if err == nil || err.Code != b.code || !slices.ContainsFunc(strings.Split(b.words, "|"), func(word string) bool {
					return strings.Contains(err.Msg+err.Details, word)
				}) {
					t.Errorf("%s %s, %s=%.60q: %v, want code %d and %q", command, cniVersion, b.field, b.value, err, b.code, b.words)
				}
				if len(*requests) != reached {
					t.Errorf("%s %s, %s=%.60q reached the agent", command, cniVersion, b.field, b.value)
					reached = len(*requests)
				}
			}
		}
	}
	if cases < 1000 {
		t.Errorf("%d cases", cases)
	}
	t.Logf("%d cases", cases)
	for _, command := range []string{"ADD", "DEL", "CHECK", "STATUS", "GC"} { // without the invalid value each call succeeds
		if err := l.goodCall(command, "1.1.0").run(t); err != nil {
			t.Errorf("%s: %v", command, err)
		}
	}
	if len(*requests) != reached+5 {
		t.Errorf("5 good calls resulted in %d requests", len(*requests)-reached)
	}
	if stones, _, err := tombstone.Beside(l.socket).List(); err != nil || len(stones) != 0 {
		t.Errorf("tombstones %v, %v", stones, err)
	}
}

// FuzzPlugin executes the plugin with any environment and standard input. It ends with a code, or sends the agent a
// request that Validate accepts.
func FuzzPlugin(f *testing.F) {
	dir, err := os.MkdirTemp("", "weft-cni-fuzz-")
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { os.RemoveAll(dir) })
	l := lab{dir: dir, socket: filepath.Join(dir, "run", "cni.sock")}
	for _, command := range []string{"ADD", "DEL", "CHECK", "STATUS", "GC"} {
		c := l.goodCall(command, "1.1.0")
		f.Add(command, c.env["CNI_CONTAINERID"], c.env["CNI_NETNS"], c.env["CNI_IFNAME"], c.env["CNI_ARGS"],
			strings.ReplaceAll(c.stdin, l.socket, "SOCKET"))
	}
	f.Fuzz(func(t *testing.T, command, container, netNS, ifName, args, stdin string) {
		stdin = strings.ReplaceAll(stdin, "SOCKET", l.socket)
		if config, err := cniwire.ParseConfig([]byte(stdin)); err == nil && config.Socket != l.socket {
			t.Skip("the socket of another agent")
		}
		requests := l.startAgent(t, nil)
		c := call{stdin: stdin, env: map[string]string{"CNI_COMMAND": command, "CNI_CONTAINERID": container, "CNI_NETNS": netNS,
			"CNI_IFNAME": ifName, "CNI_ARGS": args, "CNI_PATH": dir}}
		if err := c.run(t); err != nil && (err.Code == 0 || err.Msg == "") {
			t.Errorf("error %+v", err)
		}
		for _, req := range *requests {
			if err := req.Validate([]string{filepath.Join(dir, "netns")}); err != nil {
				t.Errorf("the agent received %+v: %v", req, err)
			}
		}
	})
}
