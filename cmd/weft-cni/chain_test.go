package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/weft-network/weft/pkg/cni/cniwire"
)

// chainedName is a plugin that an administrator adds after weft-cni. It records its calls and adds a domain to the
// result.
const chainedName = "site-dns"

// chainedConf is the configuration of that plugin.
type chainedConf struct {
	types.NetConf
	Journal string `json:"journal"` // file that receives a line for each call
	Fail    string `json:"fail"`    // command that fails
}

func chainedMain() {
	do := func(command string) func(*skel.CmdArgs) error {
		return func(args *skel.CmdArgs) error { return chained(command, args) }
	}
	funcs := skel.CNIFuncs{Add: do("ADD"), Del: do("DEL"), Check: do("CHECK"), GC: do("GC"), Status: do("STATUS")}
	skel.PluginMainFuncs(funcs, version.All, chainedName)
}

func chained(command string, args *skel.CmdArgs) error {
	var conf chainedConf
	if err := json.Unmarshal(args.StdinData, &conf); err != nil {
		return err
	}
	if err := version.ParsePrevResult(&conf.NetConf); err != nil {
		return err
	}
	line := command
	result := &types100.Result{}
	if conf.PrevResult != nil {
		var err error
		if result, err = types100.NewResultFromResult(conf.PrevResult); err != nil {
			return err
		}
		line += " after " + result.IPs[0].Address.String()
		result.DNS.Domain = "site.example"
	}
	journal, err := os.OpenFile(conf.Journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(journal, line)
	if err = errors.Join(err, journal.Close()); err == nil && conf.Fail == command {
		err = types.NewError(types.ErrInternal, "the site's plugin fails", "")
	}
	if err != nil || command != "ADD" {
		return err
	}
	return types.PrintResult(result, conf.CNIVersion)
}

// chain returns the agent's configuration with the administrator's plugin after weft-cni.
func (l lab) chain(t *testing.T, cniVersion, fail string) (network *libcni.NetworkConfigList, journal func() []string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(l.dir, chainedName)); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "journal")
	list, err := libcni.NetworkConfFromBytes(fmt.Appendf(nil, `{"cniVersion":%q,"name":"weft","plugins":[
		{"type":"weft-cni","socket":%q},{"type":%q,"journal":%q,"fail":%q}]}`, cniVersion, l.socket, chainedName, file, fail))
	if err != nil {
		t.Fatal(err)
	}
	return list, func() []string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(string(text)), "\n")
	}
}

// TestAChainOfPlugins calls all commands through libcni, as a runtime does, in each version and with an
// administrator's plugin after weft-cni.
func TestAChainOfPlugins(t *testing.T) {
	for _, cniVersion := range []string{"0.4.0", "1.0.0", "1.1.0"} {
		t.Run(cniVersion, func(t *testing.T) { testChain(t, cniVersion) })
	}
}

func testChain(t *testing.T, cniVersion string) {
	l := newLab(t)
	requests := l.startAgent(t, nil)
	network, journal := l.chain(t, cniVersion, "")
	result, err := l.cni.AddNetworkList(t.Context(), network, l.pod())
	if err != nil {
		t.Fatalf("ADD: %v", err)
	}
	got, err := types100.NewResultFromResult(result)
	if err != nil {
		t.Fatal(err)
	}
	if result.Version() != cniVersion || got.DNS.Domain != "site.example" || len(got.IPs) != 2 || len(got.Interfaces) != 2 {
		t.Errorf("result: %s", asJSON(t, result))
	}
	if err := l.cni.CheckNetworkList(t.Context(), network, l.pod()); err != nil {
		t.Errorf("CHECK: %v", err)
	}
	want := []string{"ADD after 10.244.0.5/24", "CHECK after 10.244.0.5/24"}
	commands := []cniwire.Command{cniwire.Add, cniwire.Check}
	if cniVersion == "1.1.0" { // earlier versions lack these commands
		if err := l.cni.GetStatusNetworkList(t.Context(), network); err != nil {
			t.Errorf("STATUS: %v", err)
		}
		valid := []types.GCAttachment{{ContainerID: l.pod().ContainerID, IfName: "eth0"}}
		if err := l.cni.GCNetworkList(t.Context(), network, &libcni.GCArgs{ValidAttachments: valid}); err != nil {
			t.Errorf("GC: %v", err)
		}
		want = append(want, "STATUS", "GC")
		commands = append(commands, cniwire.Status, cniwire.GC)
	}
	for range 2 { // the second DEL has no cached result
		if err := l.cni.DelNetworkList(t.Context(), network, l.pod()); err != nil {
			t.Errorf("DEL: %v", err)
		}
		commands = append(commands, cniwire.Del)
	}
	want = append(want, "DEL after 10.244.0.5/24", "DEL")
	if !slices.Equal(journal(), want) {
		t.Errorf("calls of the administrator's plugin: %q, want %q", journal(), want)
	}
	var have []cniwire.Command
	for _, req := range *requests {
		have = append(have, req.Command)
	}
	if !slices.Equal(have, commands) {
		t.Errorf("commands at the agent: %v, want %v", have, commands)
	}
}

// If the runtime has forgotten a container, libcni first sends a DEL from its cache and then GC with the list.
func TestGCSendsDelFromTheCache(t *testing.T) {
	l := newLab(t)
	requests := l.startAgent(t, nil)
	network, journal := l.chain(t, "1.1.0", "")
	if _, err := l.cni.AddNetworkList(t.Context(), network, l.pod()); err != nil {
		t.Fatal(err)
	}
	if err := l.cni.GCNetworkList(t.Context(), network, &libcni.GCArgs{ValidAttachments: []types.GCAttachment{}}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"ADD after 10.244.0.5/24", "DEL after 10.244.0.5/24", "GC"}; !slices.Equal(journal(), want) {
		t.Errorf("calls of the administrator's plugin: %q", journal())
	}
	got := *requests
	if len(got) != 3 || got[1].Command != cniwire.Del || got[1].ContainerID != l.pod().ContainerID || got[2].Command != cniwire.GC {
		t.Errorf("the agent received %+v", got)
	}
}

// If a plugin after weft-cni fails, the runtime gets its error and reverts weft-cni's ADD by DEL.
func TestALaterPluginFails(t *testing.T) {
	l := newLab(t)
	requests := l.startAgent(t, nil)
	network, _ := l.chain(t, "1.0.0", "ADD")
	_, err := l.cni.AddNetworkList(t.Context(), network, l.pod())
	if codeOf(err) != types.ErrInternal || !strings.Contains(err.Error(), "the site's plugin fails") {
		t.Errorf("ADD: %v", err)
	}
	if err := l.cni.DelNetworkList(t.Context(), network, l.pod()); err != nil {
		t.Errorf("DEL: %v", err)
	}
	if n := len(*requests); n != 2 || (*requests)[1].Command != cniwire.Del {
		t.Errorf("the agent received %v", *requests)
	}
}

// After another plugin weft-cni would lose that plugin's result, so it refuses ADD.
func TestWeftMustBeTheFirstPlugin(t *testing.T) {
	l := newLab(t)
	requests := l.startAgent(t, nil)
	list, err := libcni.NetworkConfFromBytes(fmt.Appendf(nil, `{"cniVersion":"1.0.0","name":"weft","plugins":[
		{"type":"weft-cni","socket":%q},{"type":"weft-cni","socket":%q}]}`, l.socket, l.socket))
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.cni.AddNetworkList(t.Context(), list, l.pod())
	if codeOf(err) != cniwire.CodeInvalidConfig || !strings.Contains(err.Error(), "prevResult") || len(*requests) != 1 {
		t.Errorf("ADD: %v; the agent received %v", err, *requests)
	}
}
