// Package imports checks the import table of docs/dev/imports.md.
package imports

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/weft-network/weft/"

// rule is one line of the table. A pattern matches an import path and everything below it.
type rule struct {
	packages string
	// direct lists the allowed imports besides the standard library and packages below the same folder.
	direct []string
	// never lists packages that must not be reached, not even indirectly.
	never []string
}

var (
	clients  = []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime/pkg/client", "github.com/ovn-kubernetes/libovsdb/client"}
	models   = []string{module + "pkg/ovn/nbdb", module + "pkg/ovn/sbdb", module + "pkg/ovn/vswitchdb"}
	network  = []string{"os/exec", "net/http"}
	machines = []string{"k8s.io/api", "k8s.io/apimachinery", "sigs.k8s.io/controller-runtime", "k8s.io/client-go/tools/events",
		"k8s.io/client-go/util/workqueue"}
)

func below(names ...string) []string {
	paths := make([]string, 0, len(names))
	for _, name := range names {
		paths = append(paths, module+name)
	}
	return paths
}

var table = []rule{
	{packages: "apis", direct: []string{"go4.org/netipx", "k8s.io/api", "k8s.io/apimachinery"}, never: below("pkg", "controllers")},
	{packages: "pkg/unit", direct: []string{"github.com/google/uuid", "github.com/ovn-kubernetes/libovsdb/model"},
		never: append(clients, network...)},
	{packages: "pkg/acllog", never: append(clients, network...)},
	{packages: "pkg/acllog/annotation", direct: append(below("apis"), machines...), never: below("controllers")},
	{packages: "pkg/ovn/names", never: append(clients, network...)},
	{packages: "pkg/ovn/ovnexpr", never: append(clients, network...)},
	{packages: "pkg/ipam", direct: []string{"go4.org/netipx", "k8s.io/apimachinery/pkg/types"}, never: append(clients, network...)},
	{packages: "pkg/process/informers", direct: []string{"k8s.io/apimachinery", "k8s.io/client-go/rest", "k8s.io/client-go/tools/cache",
		"sigs.k8s.io/controller-runtime"}, never: below("controllers", "pkg/ovndb", "pkg/topology")},
	{packages: "pkg/process/logging", direct: append(below("pkg/process/lazylog", "pkg/process/options"), "go.uber.org/zap",
		"sigs.k8s.io/controller-runtime"), never: below("controllers", "pkg/topology", "pkg/ovndb")},
	{packages: "pkg/process/leadership", direct: append([]string{"k8s.io/client-go", "k8s.io/klog/v2",
		"github.com/go-logr/logr"}, machines...), never: below("controllers", "pkg/topology", "pkg/ovndb")},
	{packages: "pkg/networks", direct: append(below("apis"), "k8s.io/apimachinery",
		"github.com/k8snetworkplumbingwg/network-attachment-definition-client"), never: below("controllers", "pkg/topology")},
	{packages: "pkg/podcondition", direct: append(below("apis"), "k8s.io/api", "k8s.io/apimachinery/pkg/apis/meta/v1"), never: clients},
	{packages: "pkg/annotations", direct: below("apis"), never: clients},
	{packages: "pkg/ports", never: append(clients, network...)},
	{packages: "pkg/ipam/reserved", direct: below("pkg/ports"), never: append(clients, network...)},
	{packages: "pkg/addresses/lookup", direct: append(below("pkg/ipam/reserved", "pkg/facts", "apis"),
		append(machines, "k8s.io/client-go/rest")...), never: below("controllers")},
	{packages: "pkg/addresses/floating", direct: append(below("apis"), "go4.org/netipx", "k8s.io/apimachinery"),
		never: append(append(below("pkg/topology", "pkg/unit"), models...), append(clients, "os/exec")...)},
	{packages: "pkg/addresses/floating/claim", direct: append(below("pkg/addresses/floating", "apis"), machines...),
		never: below("controllers", "pkg/ovndb")},
	{packages: "pkg/addresses/floating/placement", direct: append(below("pkg/addresses/floating", "apis"), "k8s.io/api",
		"k8s.io/apimachinery",
		"k8s.io/component-helpers/scheduling/corev1", "k8s.io/klog/v2"),
		never: append(append(below("controllers", "pkg/topology", "pkg/unit"), models...), append(clients, "os/exec")...)},
	{packages: "pkg/addresses/balance", direct: append(below("pkg/facts", "pkg/addresses/floating", "pkg/addresses/lbpool",
		"pkg/process/trigger", "apis"), machines...),
		never: below("controllers", "pkg/topology")},
	{packages: "pkg/bgp", direct: append(below("pkg/facts", "pkg/addresses/lbpool", "apis"), "k8s.io/api", "k8s.io/apimachinery"),
		never: append(append(slices.Clone(clients), below("pkg/ovn/nbdb", "pkg/topology", "pkg/unit")...), "os/exec")},
	{packages: "pkg/addresses/addressprobe", direct: append(below("pkg/addresses/lbpool", "apis"), "k8s.io/api",
		"k8s.io/apimachinery"),
		never: append(append(slices.Clone(clients), below("pkg/ovn/nbdb", "pkg/topology", "pkg/unit")...), "os/exec")},
	{packages: "pkg/addresses/lbpool", direct: append(below("pkg/facts", "pkg/addresses/floating", "apis"), "k8s.io/api",
		"k8s.io/apimachinery"),
		never: append(append(slices.Clone(clients), below("pkg/ovn/nbdb", "pkg/topology", "pkg/unit")...), "os/exec")},
	{packages: "pkg/servers/extender", direct: append(append(below("pkg/addresses/floating", "pkg/process/informers", "apis"),
		machines...), "github.com/go-logr/logr",
		"k8s.io/client-go/kubernetes/scheme", "k8s.io/client-go/tools/cache", "k8s.io/kube-scheduler/extender/v1"),
		never: append(below("controllers", "pkg/ovndb", "pkg/topology"), "github.com/vishvananda/netlink")},
	{packages: "pkg/facts", direct: append(below("pkg/ipam/reserved", "pkg/ovn/names", "pkg/ovn/ovnexpr", "pkg/ipam", "apis"),
		"k8s.io/api",
		"k8s.io/apimachinery/pkg/apis/meta/v1", "k8s.io/apimachinery/pkg/labels",
		"k8s.io/apimachinery/pkg/util/intstr", "sigs.k8s.io/network-policy-api/apis", "go4.org/netipx", "k8s.io/utils/net"),
		never: append(append(below("pkg/topology", "pkg/unit"), models...), append(clients, "os/exec")...)},
	{packages: "pkg/topology", direct: append(below("pkg/facts", "pkg/ports", "pkg/unit", "pkg/ovn/names", "pkg/ovn/ovnexpr",
		"pkg/ipam", "pkg/ovn/nbdb", "apis"), "k8s.io/apimachinery/pkg/labels"), never: append(clients, "os/exec")},
	{packages: "pkg/invariant", direct: append(below("pkg/ipam/reserved", "pkg/facts", "pkg/addresses/floating", "pkg/topology",
		"pkg/unit", "pkg/ovn/names",
		"pkg/ovn/ovnexpr", "pkg/ipam", "pkg/ovn/nbdb", "pkg/ovn/sbdb", "apis"),
		"k8s.io/api", "k8s.io/apimachinery/pkg/apis/meta/v1", "k8s.io/apimachinery/pkg/labels",
		"github.com/ovn-kubernetes/libovsdb/model"), never: append(clients, "os/exec")},
	{packages: "pkg/health", direct: append(below("apis", "pkg/ports"), "k8s.io/api", "k8s.io/apimachinery",
		"sigs.k8s.io/network-policy-api/apis"),
		never: append(clients, "os/exec")},
	{packages: "pkg/agent/desired", direct: append(below("pkg/facts", "pkg/ports", "pkg/ipam/reserved", "pkg/health", "pkg/unit",
		"pkg/addresses/lbpool", "pkg/ovn/names", "pkg/ovn/ovnexpr", "pkg/ipam", "pkg/ovn/sbdb", "pkg/ovn/vswitchdb", "apis"),
		"k8s.io/api", "k8s.io/apimachinery/pkg/api/meta", "k8s.io/apimachinery/pkg/apis/meta/v1"), never: append(clients, "os/exec")},
	{packages: "pkg/ovndb", direct: append(append([]string{"github.com/ovn-kubernetes/libovsdb",
		"github.com/go-logr/logr", "github.com/google/uuid"}, below("pkg/unit", "pkg/process/peer")...), models...),
		never: append(below("pkg/topology", "controllers", "apis"), "k8s.io/client-go", "k8s.io/api")},
	{packages: "controllers", direct: append(append(below("pkg/process/informers", "pkg/process/leadership", "pkg/ipam/reserved",
		"pkg/facts",
		"pkg/addresses", "pkg/bgp", "pkg/topology",
		"pkg/invariant", "pkg/health", "pkg/ovndb", "pkg/unit", "pkg/ovn/names", "pkg/ipam", "pkg/ovn/nbdb",
		"pkg/selection", "pkg/process/trigger", "pkg/annotations", "pkg/acllog/annotation", "pkg/networks",
		"pkg/podcondition", "pkg/ovn/ovnexpr", "apis"),
		machines...), append(below("pkg/process/options", "pkg/process/admin", "pkg/manifest", "pkg/process/resolver"),
		"github.com/k8snetworkplumbingwg/network-attachment-definition-client", "github.com/k8snetworkplumbingwg/ipamclaims",
		"github.com/go-logr/logr", "k8s.io/client-go/kubernetes/scheme", "k8s.io/client-go/rest",
		"sigs.k8s.io/network-policy-api/apis", "k8s.io/client-go/tools/cache",
		"k8s.io/client-go/tools/leaderelection/resourcelock")...), never: []string{"github.com/vishvananda/netlink"}},
	{packages: "pkg/selection", direct: append(below("pkg/facts", "pkg/topology", "pkg/process/trigger", "pkg/unit"),
		"k8s.io/apimachinery"), never: below("controllers", "pkg/ovndb")},
	{packages: "pkg/process/resolver", direct: []string{"golang.org/x/net/dns/dnsmessage"}, never: append(clients, network...)},
	{packages: "controllers/operand", direct: append(append(below("pkg/process/informers", "pkg/process/leadership", "pkg/health",
		"pkg/install/member", "pkg/install/render", "pkg/install/rollout", "pkg/install/pki", "pkg/process/options",
		"pkg/process/trigger", "apis"), machines...), "k8s.io/client-go/rest",
		"k8s.io/client-go/tools/leaderelection/resourcelock"), never: append(below("pkg/ovndb", "pkg/topology"),
		"github.com/vishvananda/netlink")},
	{packages: "pkg/servers/addressapi", direct: append(append(below("pkg/addresses/floating", "apis"), machines...),
		"github.com/danielgtaylor/huma/v2",
		"github.com/go-logr/logr", "k8s.io/client-go/kubernetes/scheme", "k8s.io/client-go/util/retry"),
		never: below("controllers", "pkg/topology", "pkg/ovndb")},
	{packages: "controllers/program", direct: append(append(below("controllers", "pkg/servers/addressapi", "pkg/process/admin",
		"pkg/servers/extender", "pkg/health",
		"pkg/install", "pkg/process/leadership", "pkg/process/logging", "pkg/process/metrics", "pkg/process/options", "pkg/ovndb",
		"pkg/process/version", "config"),
		machines...), "k8s.io/client-go", "sigs.k8s.io/yaml"), never: []string{"github.com/vishvananda/netlink"}},
	{packages: "controllers/plan/overlay", direct: []string{"k8s.io/apimachinery",
		"sigs.k8s.io/controller-runtime/pkg/client"}, never: below("pkg")},
	{packages: "pkg/kubectl/galaxy", direct: append(below("pkg/addresses/floating", "apis"), "k8s.io/api", "k8s.io/apimachinery",
		"go4.org/netipx"),
		never: append(clients, "os/exec")},
	{packages: "pkg/kubectl/migrate", direct: append(below("apis"), "k8s.io/api", "k8s.io/apimachinery", "go4.org/netipx",
		"sigs.k8s.io/network-policy-api/apis"), never: append(clients, "os/exec")},
	{packages: "pkg/manifest", direct: []string{"k8s.io/apimachinery"}, never: append(clients, "os/exec")},
	{packages: "pkg/process/admin", direct: append(below("pkg/manifest", "pkg/invariant", "pkg/ovndb", "pkg/process/options",
		"pkg/unit"),
		"github.com/go-logr/logr"), never: append(below("controllers"), "k8s.io/client-go",
		"sigs.k8s.io/controller-runtime/pkg/client")},
	{packages: "pkg/trace", direct: append(below("pkg/facts", "pkg/ipam", "pkg/addresses/lbpool", "pkg/ovn/names", "pkg/topology",
		"pkg/unit",
		"apis"), "k8s.io/api"), never: append(clients, "os/exec")},
	{packages: "pkg/trace/tracer", direct: below("pkg/trace", "pkg/ovn/names", "pkg/ovn/unixctl", "pkg/ovn/wire", "pkg/topology",
		"pkg/unit"),
		never: append(below("controllers"), clients...)},
	{packages: "pkg/kubectl/connectivity", direct: []string{"k8s.io/api", "k8s.io/apimachinery"}, never: append(clients, "os/exec")},
	{packages: "pkg/kubectl/connectivity/probe", direct: append(below("pkg/kubectl/connectivity"), "golang.org/x/sync/errgroup",
		"golang.org/x/sys/unix"),
		never: append(below("controllers"), clients...)},
	{packages: "pkg/kubectl/lint", direct: append(below("pkg/annotations", "pkg/manifest", "apis"), "k8s.io/api", "k8s.io/apimachinery"),
		never: append(clients, "os/exec")},
	{packages: "pkg/kubectl/ui", direct: append(below("pkg/trace/sketch", "pkg/ipam", "pkg/networks", "pkg/ovn/names", "apis"),
		"github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis", "k8s.io/api", "k8s.io/apimachinery",
		"k8s.io/client-go/tools/cache", "sigs.k8s.io/controller-runtime/pkg/client", "sigs.k8s.io/network-policy-api/apis"),
		never: below("controllers", "pkg/kubectl/cli", "pkg/ovndb")},
	{packages: "pkg/kubectl/ui/reach", direct: append(below("pkg/facts", "pkg/ovn/ovnexpr"), "k8s.io/api", "k8s.io/apimachinery"),
		never: append(clients, "os/exec")},
	{packages: "pkg/kubectl/capture", direct: append(below("pkg/agent/desired", "pkg/ovn/vswitchdb", "pkg/ovndb"),
		"github.com/go-logr/logr",
		"github.com/gopacket/gopacket", "golang.org/x/net/bpf", "golang.org/x/sys/unix"),
		never: append(below("controllers", "pkg/kubectl/cli"), "os/exec")},
	{packages: "pkg/kubectl/capture/pcaptext", direct: []string{"github.com/gopacket/gopacket"}, never: append(clients, "os/exec")},
	{packages: "pkg/kubectl/cli", direct: append(below("pkg/annotations", "pkg/kubectl/lint", "pkg/trace", "pkg/kubectl/ui",
		"pkg/process/version",
		"pkg/kubectl/connectivity", "pkg/facts",
		"pkg/kubectl/capture/pcaptext", "pkg/acllog", "pkg/process/admin", "pkg/addresses/floating", "pkg/kubectl/galaxy", "pkg/health",
		"pkg/manifest", "pkg/kubectl/migrate",
		"pkg/ports", "pkg/ovndb", "pkg/unit", "pkg/ovn/names", "pkg/install/beside",
		"pkg/install/rebuild", "apis"),
		"github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis", "k8s.io/api", "k8s.io/apimachinery",
		"sigs.k8s.io/yaml",
		"k8s.io/client-go", "k8s.io/streaming/pkg/httpstream", "sigs.k8s.io/controller-runtime/pkg/client",
		"sigs.k8s.io/network-policy-api/apis", "github.com/spf13/cobra", "github.com/spf13/pflag",
		"k8s.io/klog/v2", "github.com/go-logr/logr"),
		never: below("controllers")},
	{packages: "pkg/agent", direct: append(append(below("pkg/addresses/balance", "pkg/facts", "pkg/ports", "pkg/ipam/reserved",
		"pkg/acllog", "pkg/health",
		"pkg/ovndb", "pkg/unit", "pkg/ovn/names", "pkg/ipam", "pkg/ovn/ovnexpr", "pkg/ovn/sbdb", "pkg/ovn/vswitchdb",
		"pkg/cni/cniwire",
		"pkg/cni", "pkg/cni/tombstone", "pkg/process/trigger", "pkg/ovn/unixctl", "pkg/networks", "pkg/podcondition", "apis"),
		machines...),
		"github.com/k8snetworkplumbingwg/network-attachment-definition-client", "github.com/containernetworking/cni/libcni",
		"github.com/containernetworking/cni/pkg/invoke", "github.com/containernetworking/cni/pkg/version",
		"github.com/ovn-kubernetes/libovsdb/model", "github.com/ovn-kubernetes/libovsdb/ovsdb",
		"github.com/vishvananda/netlink", "github.com/fsnotify/fsnotify", "github.com/go-logr/logr",
		"github.com/containernetworking/cni/pkg/types", "github.com/google/renameio/v2",
		"github.com/digitalocean/go-openvswitch", "sigs.k8s.io/knftables", "github.com/google/uuid", "github.com/safchain/ethtool",
		"golang.org/x/net/bpf", "golang.org/x/net/icmp", "golang.org/x/net/ipv6", "golang.org/x/sys/unix",
		"google.golang.org/grpc", "k8s.io/cri-api",
		"k8s.io/kubelet", "github.com/osrg/gobgp/v4", "github.com/strongswan/govici", "google.golang.org/protobuf",
		"github.com/google/nftables",
		"github.com/mdlayher/netlink"),
		never: below("controllers", "pkg/topology", "pkg/ovn/nbdb")},
	{packages: "pkg/agent/bfd", direct: []string{"github.com/go-logr/logr", "golang.org/x/net/ipv4", "golang.org/x/net/ipv6"},
		never: append(clients, "os/exec", "k8s.io/apimachinery")},
	{packages: "pkg/agent/wildcards", direct: append(below("pkg/process/resolver", "apis"), "github.com/go-logr/logr",
		"golang.org/x/net/bpf", "golang.org/x/net/dns/dnsmessage", "golang.org/x/sys/unix"), never: append(clients, "os/exec")},
	{packages: "config", never: append(clients, network...)},
	{packages: "pkg/install/render", direct: append(below("config", "pkg/install/member", "pkg/install/pki",
		"pkg/ports", "pkg/install/programs", "apis"), "k8s.io/api", "k8s.io/apimachinery", "sigs.k8s.io/yaml"),
		never: append(clients, "os/exec")},
	{packages: "pkg/install/programs", never: append(clients, network...)},
	{packages: "pkg/install/rollout", direct: append(below("pkg/install/render", "pkg/install/programs", "apis"),
		"k8s.io/api", "k8s.io/apimachinery"), never: append(clients, "os/exec")},
	{packages: "pkg/install/launch", direct: append(below("pkg/acllog", "pkg/install/member", "pkg/ports",
		"pkg/ovn/vswitchdb", "pkg/install/programs"), "github.com/fsnotify/fsnotify",
		"github.com/vishvananda/netlink", "github.com/ovn-kubernetes/libovsdb"),
		never: append(below("controllers", "apis"), "k8s.io/client-go", "sigs.k8s.io/controller-runtime/pkg/client")},
	{packages: "pkg/install/pki", direct: []string{"k8s.io/api/certificates/v1"}, never: append(clients, "os/exec")},
	{packages: "pkg/install/member", direct: append(below("pkg/ports", "pkg/ovn/unixctl"), "golang.org/x/sys/unix"),
		never: append(clients, network...)},
	{packages: "pkg/ovn/unixctl", direct: below("pkg/process/peer"), never: append(clients, network...)},
	{packages: "pkg/process/peer", direct: []string{"golang.org/x/sys/unix"}, never: append(clients, network...)},
	{packages: "pkg/ovn/wire", never: append(clients, network...)},
	{packages: "pkg/install/beside", direct: append(below("pkg/ovn/wire"), "github.com/google/uuid", "golang.org/x/sys/unix"),
		never: append(below("controllers", "pkg/topology", "pkg/agent", "apis"), clients...)},
	{packages: "pkg/install/chassis", direct: append(below("pkg/unit", "pkg/ovn/names", "pkg/ovn/nbdb", "pkg/ovn/sbdb",
		"pkg/ovn/wire", "pkg/ovndb"),
		"github.com/go-logr/logr", "github.com/ovn-kubernetes/libovsdb/model", "github.com/ovn-kubernetes/libovsdb/ovsdb"),
		never: append(below("controllers", "pkg/topology", "pkg/agent", "apis"), "k8s.io/client-go",
			"sigs.k8s.io/controller-runtime/pkg/client", "os/exec")},
	{packages: "pkg/install/rebuild", direct: append(below("pkg/unit", "pkg/ovn/unixctl", "pkg/ovn/wire", "pkg/install/beside"),
		"golang.org/x/sys/unix"),
		never: append(below("controllers", "pkg/topology", "pkg/agent", "apis"), clients...)},
	{packages: "pkg/cni/cniwire", direct: []string{"github.com/containernetworking/cni", "golang.org/x/sys/unix"},
		never: append(clients, "os/exec")},
	{packages: "pkg/cni", direct: append(below("pkg/cni/cniwire"), "github.com/containernetworking", "github.com/vishvananda/netlink",
		"github.com/google/nftables", "github.com/safchain/ethtool", "golang.org/x/sys"), never: clients},
	{packages: "pkg/cni/tombstone", direct: append(below("pkg/cni/cniwire"), "golang.org/x/sys"), never: append(clients, network...)},
	{packages: "cmd/weft-cni", direct: append(below("pkg/cni/cniwire", "pkg/cni/tombstone"),
		"github.com/containernetworking", "golang.org/x/sys"),
		never: append(clients, "sigs.k8s.io/controller-runtime", "k8s.io/apimachinery")},
}

// goPackage is a package in the output of `go list -json`.
type goPackage struct {
	ImportPath string
	Imports    []string
	Deps       []string
	Standard   bool
}

func list(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps=false", "-json=ImportPath,Imports,Deps", "./apis/...", "./pkg/...",
		"./controllers/...", "./cmd/...", "./config/...")
	cmd.Dir = "../.."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var found []goPackage
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return found
		} else if err != nil {
			t.Fatal(err)
		}
		found = append(found, p)
	}
}

func matches(path string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return path == pattern || strings.HasPrefix(path, pattern+"/") })
}

func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

// ruleFor returns the most specific rule for a package.
func ruleFor(path string) *rule {
	var best *rule
	for i := range table {
		if matches(path, below(table[i].packages)) && (best == nil || len(table[i].packages) > len(best.packages)) {
			best = &table[i]
		}
	}
	return best
}

func TestImportTable(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range list(t) {
		r := ruleFor(p.ImportPath)
		if r == nil || strings.HasSuffix(p.ImportPath, "test") {
			continue // main packages and test servers have no rule
		}
		seen[r.packages] = true
		for _, imported := range p.Imports {
			if !standard(imported) && !matches(imported, r.direct) && !matches(imported, below(r.packages)) {
				t.Errorf("%s imports %s, which the table does not allow", p.ImportPath, imported)
			}
		}
		for _, reached := range p.Deps {
			if matches(reached, r.never) {
				t.Errorf("%s reaches %s, which the table forbids", p.ImportPath, reached)
			}
		}
	}
	for _, r := range table {
		if !seen[r.packages] {
			t.Errorf("the table has %s, but no such package exists", r.packages)
		}
	}
}

// reconcilers are the packages that export Kinds, and operand, which has another manager. Code shared by two of them
// is in kind or below pkg.
var reconcilers = []string{"egressfirewall", "egressip", "gateway", "network", "node", "operand", "pod", "policy", "service", "sweep"}

func TestReconcilersDoNotImportEachOther(t *testing.T) {
	for _, p := range list(t) {
		for _, r := range reconcilers {
			if p.ImportPath != module+"controllers/"+r {
				continue
			}
			for _, imported := range p.Imports {
				if strings.HasPrefix(imported, module+"controllers/") && imported != module+"controllers/kind" {
					t.Errorf("%s imports %s", p.ImportPath, imported)
				}
			}
		}
	}
}

// TestOnlyTheListNamesTheReconcilers checks that the packages that run the reconcilers do not depend on single ones:
// the only list is in controllers/setup.go.
func TestOnlyTheListNamesTheReconcilers(t *testing.T) {
	for _, p := range list(t) {
		if !matches(p.ImportPath, below("controllers/kind", "controllers/plan", "controllers/inspect",
			"controllers/database", "controllers/campaign")) {
			continue
		}
		for _, r := range reconcilers {
			if slices.Contains(p.Deps, module+"controllers/"+r) {
				t.Errorf("%s reaches controllers/%s", p.ImportPath, r)
			}
		}
	}
}

// TestPurePackagesStayPure checks that packages that only compute use only the data packages of the standard
// library. net is allowed for HardwareAddr and its parser.
func TestPurePackagesStayPure(t *testing.T) {
	forbidden := []string{"context", "os", "time", "log", "sync", "net/http", "io/fs", "syscall"}
	for _, p := range list(t) {
		if !matches(p.ImportPath, below("pkg/facts", "pkg/topology", "pkg/agent/desired", "pkg/ovn/ovnexpr", "pkg/ovn/names",
			"pkg/invariant", "pkg/health")) {
			continue
		}
		for _, imported := range p.Imports {
			if matches(imported, forbidden) {
				t.Errorf("%s imports %s and is no longer a pure package", p.ImportPath, imported)
			}
		}
	}
}

// TestPartsOfTheAgentPointDown checks that the agent's parts do not import the package that wires them, and that the
// attachment of pods does not depend on the node or its gateway.
func TestPartsOfTheAgentPointDown(t *testing.T) {
	const agent = module + "pkg/agent"
	above := map[string][]string{"attach": {"gateway", "node"}, "gateway": {"node"}, "bindings": {"attach", "gateway",
		"node"}, "desired": {"attach", "gateway", "node", "bindings"}}
	for _, p := range list(t) {
		part, ok := strings.CutPrefix(p.ImportPath, agent+"/")
		if !ok {
			continue
		}
		if slices.Contains(p.Deps, agent) {
			t.Errorf("%s imports the package that wires it", p.ImportPath)
		}
		for _, other := range above[part] {
			if slices.Contains(p.Deps, agent+"/"+other) {
				t.Errorf("pkg/agent/%s reaches pkg/agent/%s", part, other)
			}
		}
	}
}
