// Package imports keeps the import table of docs/architecture.md true.
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

// rule is one line of the table. A pattern matches an import path or what is below it.
type rule struct {
	packages string
	// direct lists what may be imported besides the standard library and packages below the same folder.
	direct []string
	// never lists what may not be reached, also through others.
	never []string
}

var (
	clients  = []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime/pkg/client", "github.com/ovn-kubernetes/libovsdb/client"}
	models   = []string{module + "pkg/nbdb", module + "pkg/sbdb", module + "pkg/vswitchdb"}
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
	{packages: "apis", direct: []string{"k8s.io/api", "k8s.io/apimachinery"}, never: below("pkg", "controllers")},
	{packages: "pkg/unit", direct: []string{"github.com/google/uuid", "github.com/ovn-kubernetes/libovsdb/model"}, never: append(clients, network...)},
	{packages: "pkg/acllog", never: append(clients, network...)},
	{packages: "pkg/acllogging", direct: append(below("apis"), machines...), never: below("controllers")},
	{packages: "pkg/names", never: append(clients, network...)},
	{packages: "pkg/ovnexpr", never: append(clients, network...)},
	{packages: "pkg/ipam", never: append(clients, network...)},
	{packages: "pkg/topology", direct: append(below("pkg/unit", "pkg/names", "pkg/ovnexpr", "pkg/ipam", "pkg/nbdb", "apis"), "k8s.io/api",
		"k8s.io/apimachinery/pkg/apis/meta/v1", "k8s.io/apimachinery/pkg/labels", "k8s.io/apimachinery/pkg/util/intstr", "sigs.k8s.io/network-policy-api/apis", "go4.org/netipx"),
		never: append(clients, "os/exec")},
	{packages: "pkg/invariant", direct: append(below("pkg/topology", "pkg/unit", "pkg/names", "pkg/ovnexpr", "pkg/ipam", "pkg/nbdb", "pkg/sbdb", "apis"),
		"k8s.io/api", "k8s.io/apimachinery/pkg/apis/meta/v1", "k8s.io/apimachinery/pkg/labels", "github.com/ovn-kubernetes/libovsdb/model"), never: append(clients, "os/exec")},
	{packages: "pkg/health", direct: append(below("apis"), "k8s.io/apimachinery/pkg/apis/meta/v1"), never: append(clients, "os/exec")},
	{packages: "pkg/agent/desired", direct: append(below("pkg/health", "pkg/unit", "pkg/names", "pkg/ovnexpr", "pkg/ipam", "pkg/sbdb", "pkg/vswitchdb", "apis"),
		"k8s.io/api", "k8s.io/apimachinery/pkg/api/meta", "k8s.io/apimachinery/pkg/apis/meta/v1"), never: append(clients, "os/exec")},
	{packages: "pkg/ovndb", direct: append(append([]string{"github.com/ovn-kubernetes/libovsdb", "github.com/go-logr/logr", "github.com/google/uuid"}, below("pkg/unit")...), models...),
		never: append(below("pkg/topology", "controllers", "apis"), "k8s.io/client-go", "k8s.io/api")},
	{packages: "controllers", direct: append(append(below("pkg/topology", "pkg/invariant", "pkg/health", "pkg/ovndb", "pkg/unit", "pkg/names", "pkg/ipam", "pkg/nbdb", "pkg/trigger", "pkg/acllogging", "apis"),
		machines...), append(below("pkg/options", "pkg/admin", "pkg/manifest", "pkg/resolver"), "github.com/go-logr/logr", "k8s.io/client-go/kubernetes/scheme", "k8s.io/client-go/rest", "sigs.k8s.io/network-policy-api/apis",
		"k8s.io/client-go/tools/leaderelection/resourcelock")...), never: []string{"github.com/vishvananda/netlink"}},
	{packages: "pkg/resolver", direct: []string{"golang.org/x/net/dns/dnsmessage"}, never: append(clients, network...)},
	{packages: "controllers/operand", direct: append(append(below("pkg/member", "pkg/operand", "pkg/rollout", "pkg/pki", "pkg/options", "pkg/trigger", "apis"), machines...), "k8s.io/client-go/rest",
		"k8s.io/client-go/tools/leaderelection/resourcelock"), never: append(below("pkg/ovndb", "pkg/topology"), "github.com/vishvananda/netlink")},
	{packages: "controllers/overlay", direct: []string{"k8s.io/apimachinery", "sigs.k8s.io/controller-runtime/pkg/client"}, never: below("pkg")},
	{packages: "pkg/manifest", direct: []string{"k8s.io/apimachinery"}, never: append(clients, "os/exec")},
	{packages: "pkg/admin", direct: append(below("pkg/manifest", "pkg/invariant", "pkg/ovndb", "pkg/options"), "github.com/go-logr/logr"),
		never: append(below("controllers"), "k8s.io/client-go", "sigs.k8s.io/controller-runtime/pkg/client")},
	{packages: "pkg/cli", direct: append(below("pkg/acllog", "pkg/admin", "pkg/health", "pkg/manifest", "pkg/ovndb", "pkg/unit", "pkg/names", "pkg/rebuild", "apis"), "k8s.io/api", "k8s.io/apimachinery", "sigs.k8s.io/yaml",
		"k8s.io/client-go", "k8s.io/streaming/pkg/httpstream", "sigs.k8s.io/controller-runtime/pkg/client", "github.com/spf13/cobra", "github.com/spf13/pflag"),
		never: below("controllers")},
	{packages: "pkg/agent", direct: append(append(below("pkg/acllog", "pkg/health", "pkg/ovndb", "pkg/unit", "pkg/names", "pkg/ipam", "pkg/ovnexpr", "pkg/sbdb", "pkg/vswitchdb", "pkg/cniwire",
		"pkg/cni", "pkg/tombstone", "pkg/trigger", "pkg/unixctl", "apis"), machines...), "github.com/ovn-kubernetes/libovsdb/model", "github.com/ovn-kubernetes/libovsdb/ovsdb",
		"github.com/vishvananda/netlink", "github.com/fsnotify/fsnotify", "github.com/go-logr/logr", "github.com/containernetworking/cni/pkg/types", "github.com/google/renameio/v2",
		"github.com/digitalocean/go-openvswitch", "sigs.k8s.io/knftables", "github.com/google/uuid", "github.com/safchain/ethtool",
		"golang.org/x/sys/unix", "google.golang.org/grpc", "k8s.io/cri-api"), never: below("controllers", "pkg/topology", "pkg/nbdb")},
	{packages: "config", never: append(clients, network...)},
	{packages: "pkg/operand", direct: append(below("config", "pkg/member", "pkg/pki", "pkg/programs", "apis"), "k8s.io/api", "k8s.io/apimachinery", "sigs.k8s.io/yaml"), never: append(clients, "os/exec")},
	{packages: "pkg/programs", never: append(clients, network...)},
	{packages: "pkg/rollout", direct: append(below("pkg/operand", "pkg/programs", "apis"), "k8s.io/api", "k8s.io/apimachinery"), never: append(clients, "os/exec")},
	{packages: "pkg/launch", direct: append(below("pkg/acllog", "pkg/member", "pkg/vswitchdb", "pkg/programs"), "github.com/fsnotify/fsnotify", "github.com/vishvananda/netlink", "github.com/ovn-kubernetes/libovsdb"),
		never: append(below("controllers", "apis"), "k8s.io/client-go", "sigs.k8s.io/controller-runtime/pkg/client")},
	{packages: "pkg/pki", direct: []string{"k8s.io/api/certificates/v1"}, never: append(clients, "os/exec")},
	{packages: "pkg/member", direct: append(below("pkg/unixctl"), "golang.org/x/sys/unix"), never: append(clients, network...)},
	{packages: "pkg/unixctl", never: append(clients, network...)},
	{packages: "pkg/rebuild", direct: append(below("pkg/unit", "pkg/unixctl"), "github.com/google/uuid", "golang.org/x/sys/unix"),
		never: append(below("controllers", "pkg/topology", "pkg/agent", "apis"), clients...)},
	{packages: "pkg/cniwire", direct: []string{"github.com/containernetworking/cni", "golang.org/x/sys/unix"}, never: append(clients, "os/exec")},
	{packages: "pkg/cni", direct: append(below("pkg/cniwire"), "github.com/containernetworking", "github.com/vishvananda/netlink",
		"github.com/google/nftables", "github.com/safchain/ethtool", "golang.org/x/sys"), never: clients},
	{packages: "pkg/tombstone", direct: append(below("pkg/cniwire"), "golang.org/x/sys"), never: append(clients, network...)},
	{packages: "cmd/weft-cni", direct: append(below("pkg/cniwire", "pkg/tombstone"), "github.com/containernetworking", "golang.org/x/sys"),
		never: append(clients, "sigs.k8s.io/controller-runtime", "k8s.io/apimachinery")},
}

// goPackage is what `go list -json` says of a package.
type goPackage struct {
	ImportPath string
	Imports    []string
	Deps       []string
	Standard   bool
}

func list(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps=false", "-json=ImportPath,Imports,Deps", "./apis/...", "./pkg/...", "./controllers/...", "./cmd/...", "./config/...")
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

// ruleFor returns the most specific rule of a package.
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
			continue // programs' mains and test servers are free
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
			t.Errorf("the table speaks of %s, where no package is", r.packages)
		}
	}
}

// Reconcilers are apart: what two of them share is below pkg.
func TestReconcilersDoNotImportEachOther(t *testing.T) {
	for _, p := range list(t) {
		rest, ok := strings.CutPrefix(p.ImportPath, module+"controllers/")
		for _, imported := range p.Imports {
			other, isController := strings.CutPrefix(imported, module+"controllers/")
			if ok && isController && rest != other {
				t.Errorf("%s imports %s", p.ImportPath, imported)
			}
		}
	}
}

// pure packages compute; of the standard library they may use what is data. net is for HardwareAddr and its parser.
func TestPurePackagesStayPure(t *testing.T) {
	forbidden := []string{"context", "os", "time", "log", "sync", "net/http", "io/fs", "syscall"}
	for _, p := range list(t) {
		if !matches(p.ImportPath, below("pkg/topology", "pkg/agent/desired", "pkg/ovnexpr", "pkg/names", "pkg/invariant", "pkg/health")) {
			continue
		}
		for _, imported := range p.Imports {
			if matches(imported, forbidden) {
				t.Errorf("%s imports %s and is no pure package any more", p.ImportPath, imported)
			}
		}
	}
}
