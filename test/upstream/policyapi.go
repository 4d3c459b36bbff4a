package upstream

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	reports "sigs.k8s.io/network-policy-api/conformance/apis/v1alpha1"
	"sigs.k8s.io/yaml"

	"github.com/weft-network/weft/test/lab/tools"
)

const policyAPI = "sigs.k8s.io/network-policy-api"

// runPolicyAPI installs the kinds of a version of network-policy-api, and runs its tests. Their own report lists the
// results.
func (o Options) runPolicyAPI(ctx context.Context, suite Suite) (Result, error) {
	module, err := tools.ModuleFolder(ctx, "policyapi", suite.PolicyAPI, policyAPI)
	if err != nil {
		return Result{}, err
	}
	kinds, err := filepath.Glob(filepath.Join(module, "config", "crd", "experimental", "policy.networking.k8s.io_*.yaml"))
	if err != nil || len(kinds) == 0 {
		return Result{}, errors.Join(err, fmt.Errorf("%s has no kinds", module))
	}
	files := "--filename=" + strings.Join(kinds, ",")
	for _, args := range [][]string{
		{"apply", "--server-side", files},
		{"wait", "--for=condition=Established", "--timeout=60s", files},
		// of an earlier run; the command waits until they are gone
		append([]string{"delete", "namespace", "--ignore-not-found"}, policyAPINamespaces...),
	} {
		if _, err := o.Cluster.Kubectl(ctx, args...); err != nil {
			return Result{}, err
		}
	}
	report := suite.Name + ".yaml"
	program, err := o.summed(ctx, suite, "-focus="+suite.Focus, "-report-output="+filepath.Join(o.Folder, report))
	if err != nil {
		return Result{}, err
	}
	program.Env = append(os.Environ(), "KUBECONFIG="+o.Cluster.KubeConfig())
	return o.reported(program, suite, report, readPolicyAPI)
}

// policyAPINamespaces are the namespaces that the tests create.
var policyAPINamespaces = []string{"network-policy-conformance-gryffindor", "network-policy-conformance-slytherin",
	"network-policy-conformance-hufflepuff",
	"network-policy-conformance-ravenclaw", "network-policy-conformance-forbidden-forrest"}

// summed returns a command that runs a Go test program through a program that writes a JUnit report of its output.
func (o Options) summed(ctx context.Context, suite Suite, flags ...string) (*exec.Cmd, error) {
	root, err := tools.SourceRoot()
	if err != nil {
		return nil, err
	}
	version, err := exec.CommandContext(ctx, "git", "-C", root, "describe", "--tags", "--always", "--dirty").Output()
	if err != nil {
		return nil, fmt.Errorf("git describe: %w", err)
	}
	tests := o.Cluster.NetworkCommand(ctx, append([]string{o.Cluster.Cache.Bin(suite.Name + ".test"),
		"-test.v=test2json", "-test.timeout=2h",
		"-version=" + strings.TrimSpace(string(version))}, flags...)...)
	argv := append([]string{"tool", "-modfile=" + filepath.Join(root, "test", "tools", "sum", "go.mod"), "gotestsum",
		"--format=standard-verbose",
		"--junitfile=" + filepath.Join(o.Folder, suite.Name+".xml"), "--raw-command", "--", "go", "tool", "test2json",
		"-t", "-p", suite.Name}, tests.Args...)
	return exec.CommandContext(ctx, "go", argv...), nil
}

// readPolicyAPI counts the tests of a report of network-policy-api.
func readPolicyAPI(path string) (r Result, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	var report reports.ConformanceReport
	if err := yaml.UnmarshalStrict(text, &report); err != nil {
		return r, fmt.Errorf("%s: %w", path, err)
	}
	r.Skipped = map[string]string{}
	add := func(s reports.Status) {
		r.Passed, r.Failed = r.Passed+int(s.Passed), append(r.Failed, s.FailedTests...)
		for _, name := range s.SkippedTests {
			r.Skipped[name] = "skipped by its name"
		}
	}
	for _, profile := range report.ProfileReports {
		add(profile.Standard)
		if profile.Experimental != nil {
			add(profile.Experimental.Status)
		}
	}
	return r, nil
}
