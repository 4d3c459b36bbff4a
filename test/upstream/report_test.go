package upstream

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

// report is the relevant part of ginkgo's output.
const report = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="5" failures="1" errors="0"><testsuite name="Kubernetes e2e suite">
<testcase name="[It] [sig-network] Services should serve" status="passed" time="3.1"></testcase>
<testcase name="[It] [sig-network] Services should not" status="failed" time="3.1">
<failure message="it did" type="failed"></failure></testcase>
<testcase name="[It] [sig-network] Services on a cloud" status="skipped" time="0">
<skipped message="skipped - only on a cloud"></skipped></testcase>
<testcase name="[It] [sig-storage] of others" status="skipped" time="0"><skipped message="skipped"></skipped></testcase>
<testcase name="[SynchronizedBeforeSuite]" status="passed" time="0"></testcase>
</testsuite></testsuites>`

// policyReport is the relevant part of a report of network-policy-api's tests.
const policyReport = `kind: ConformanceReport
profiles:
- name: ClusterNetworkPolicy
  standard:
    result: failure
    summary: ""
    statistics: {Passed: 8, Skipped: 1, Failed: 1}
    skippedTests: [CNPAdminTierGress]
    failedTests: [CNPAdminTierIntegration]
  experimental:
    result: partial
    statistics: {Passed: 4, Skipped: 1, Failed: 0}
    skippedTests: [CNPAdminTierEgressNodePeers]
`

func written(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "report")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPolicyReports(t *testing.T) {
	got, err := readPolicyAPI(written(t, policyReport))
	if err != nil {
		t.Fatal(err)
	}
	want := Result{Passed: 12, Failed: []string{"CNPAdminTierIntegration"},
		Skipped: map[string]string{"CNPAdminTierGress": "skipped by its name",
			"CNPAdminTierEgressNodePeers": "skipped by its name"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read as %+v, want %+v", got, want)
	}
	if got, err := readPolicyAPI(written(t, "profile: []")); err == nil {
		t.Errorf("an invalid file was read as %+v", got)
	}
}

func TestReports(t *testing.T) {
	got, err := read(written(t, report))
	if err != nil {
		t.Fatal(err)
	}
	want := Result{Passed: 1, Failed: []string{"[sig-network] Services should not"},
		Skipped: map[string]string{"[sig-network] Services on a cloud": "only on a cloud"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read as %+v, want %+v", got, want)
	}
	var text strings.Builder
	got.Suite, got.Took = "conformance", 61*time.Second
	if err := write(&text, []Result{got}); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{`conformance +1 +1 +1 +1m1s`, `failed: \[sig-network\] Services should not`} {
		if !regexp.MustCompile(line).MatchString(text.String()) {
			t.Errorf("the table lacks %s:\n%s", line, text.String())
		}
	}
	if _, err := read(filepath.Join(t.TempDir(), "absent.xml")); err == nil {
		t.Error("a missing report was read")
	}
}
