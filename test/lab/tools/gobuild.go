package tools

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// KubernetesVersion is the version that the Kubernetes programs report. The module pins the same version.
const KubernetesVersion = "v1.36.3"

// Program is a Go program built from its own small module, so that minimal version selection cannot mix the
// dependencies of Kubernetes, etcd and containerd.
type Program struct {
	Name    string // the file in bin/
	Module  string // folder under test/lab
	ModFile string // file in the module to use instead of go.mod
	Package string
	LDFlags string
	Tags    string
	CGO     bool
	Test    bool     // build a package's tests
	Aliases []string // further names in bin/ for the same file
}

const stampKubernetes = " -X k8s.io/component-base/version.gitVersion=" + KubernetesVersion +
	" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36" +
	" -X k8s.io/component-base/version.gitTreeState=clean"

// kubernetesPrograms are the names of the one program that is all of them.
var kubernetesPrograms = []string{"kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubelet", "kubectl"}

func kubernetes() Program {
	return Program{Name: "kubernetes", Module: "kubernetes", Package: ".", LDFlags: "-s -w" + stampKubernetes, Aliases: kubernetesPrograms}
}

func containerdProgram(name string) Program {
	return Program{Name: name, Module: "containerd", Package: "github.com/containerd/containerd/v2/cmd/" + name, LDFlags: "-s -w"}
}

// Envtest lists the programs that controller-runtime's envtest starts.
func Envtest() []Program {
	return []Program{
		{Name: "etcd", Module: "etcd", Package: "go.etcd.io/etcd/server/v3", LDFlags: "-s -w"},
		kubernetes(),
	}
}

// Node lists the programs that a whole cluster needs in addition to Envtest.
func Node() []Program {
	return []Program{
		containerdProgram("containerd"),
		containerdProgram("containerd-shim-runc-v2"),
		containerdProgram("ctr"),
		// runc enters namespaces from C, and pods request seccomp profiles.
		{Name: "runc", Module: "runc", Package: "github.com/opencontainers/runc", LDFlags: "-s -w", Tags: "seccomp", CGO: true},
		{Name: "coredns", Module: "coredns", Package: ".", LDFlags: "-s -w"},
	}
}

// Upstream lists Kubernetes' own network tests, the program that runs several of them in parallel, the programs of
// their pods, and two versions of network-policy-api's tests.
func Upstream() []Program {
	return []Program{
		{Name: "e2e.test", Module: "upstream", Package: ".", LDFlags: "-s -w" + stampKubernetes, Test: true},
		{Name: "ginkgo", Module: "upstream", Package: "github.com/onsi/ginkgo/v2/ginkgo", LDFlags: "-s -w"},
		{Name: "agnhost", Module: "upstream", Package: "k8s.io/kubernetes/test/images/agnhost", LDFlags: "-s -w"},
		{Name: "regression-issue-74839", Module: "upstream",
			Package: "k8s.io/kubernetes/test/images/regression-issue-74839", LDFlags: "-s -w"},
		{Name: "policyapi.test", Module: "policyapi", Package: ".", LDFlags: "-s -w", Test: true},
		{Name: "policyapi-v1alpha1.test", Module: "policyapi", ModFile: "v1alpha1.mod", Package: ".",
			LDFlags: "-s -w", Tags: "v1alpha1", Test: true},
	}
}

// Build builds one program; built is false if it existed already. log follows the build.
func (c Cache) Build(ctx context.Context, root string, p Program, log *buildLog) (built bool, err error) {
	dir := filepath.Join(root, "test", "lab", p.Module)
	sum, err := sourceSum(dir)
	if err != nil {
		return false, fmt.Errorf("build %s: %w", p.Name, err)
	}
	stamp := fmt.Sprintf("%s %x\n%s\n", runtime.Version(), sum, strings.Join(append(p.args("OUT"), p.Aliases...), " "))
	return c.once(p.Name, stamp, c.Bin(p.Name), func() error { return c.goBuild(ctx, dir, p, log) })
}

// sourceSum is the checksum of everything in a module that affects the build: the versions of dependencies and its
// own sources.
func sourceSum(dir string) ([]byte, error) {
	own, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	sums, err := filepath.Glob(filepath.Join(dir, "*.sum"))
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	for _, file := range append(sums, own...) {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		sum.Write(text)
	}
	return sum.Sum(nil), nil
}

func (p Program) args(out string) []string {
	args := []string{"build"}
	if p.Test {
		args = []string{"test", "-c"}
	}
	args = append(args, "-trimpath", "-ldflags", p.LDFlags, "-o", out)
	return append(args, p.selection()...)
}

// listArgs list the program's packages, a line each.
func (p Program) listArgs() []string {
	args := []string{"list", "-deps"}
	if p.Test {
		args = append(args, "-test")
	}
	return append(args, p.selection()...)
}

// selection names the package and what decides which files belong to it.
func (p Program) selection() (args []string) {
	if p.ModFile != "" {
		args = append(args, "-modfile", p.ModFile)
	}
	if p.Tags != "" {
		args = append(args, "-tags", p.Tags)
	}
	return append(args, p.Package)
}

func (c Cache) goBuild(ctx context.Context, dir string, p Program, log *buildLog) error {
	if err := os.MkdirAll(filepath.Join(c.Dir, "bin"), 0o755); err != nil {
		return err
	}
	temp := c.Bin("." + p.Name + ".new")
	defer os.Remove(temp)
	if err := p.compile(ctx, dir, temp, log); err != nil {
		return fmt.Errorf("build %s: %w", p.Name, err)
	}
	for _, alias := range p.Aliases {
		if err := c.link(temp, alias); err != nil {
			return fmt.Errorf("build %s: %w", p.Name, err)
		}
	}
	return os.Rename(temp, c.Bin(p.Name))
}

// compile builds the program in its module's folder, and log counts its packages meanwhile.
func (p Program) compile(ctx context.Context, dir, out string, log *buildLog) error {
	env := []string{"CGO_ENABLED=0", "GOWORK=off"}
	if p.CGO {
		env[0] = "CGO_ENABLED=1"
	}
	packages, err := count(ctx, dir, env, p)
	if err != nil {
		return err
	}
	log.begin(packages)
	args := p.args(out)
	if !p.Test { // -v of go test is another flag
		args = slices.Insert(args, 1, "-v")
	}
	return log.run(ctx, dir, env, args...)
}

// link gives a program another name. It is a hard link, because labs mount single programs into their machines.
func (c Cache) link(program, alias string) error {
	temp := c.Bin("." + alias + ".new")
	if err := errors.Join(removeIfThere(temp), os.Link(program, temp)); err != nil {
		return err
	}
	return os.Rename(temp, c.Bin(alias))
}

func removeIfThere(file string) error {
	if err := os.Remove(file); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// run runs a program with additional environment variables. Its output becomes part of the error.
func run(ctx context.Context, dir string, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, tail(out))
	}
	return nil
}

// tail keeps the end of a program's output, which contains the reason.
func tail(out []byte) []byte {
	const keep = 4096
	return out[max(0, len(out)-keep):]
}
