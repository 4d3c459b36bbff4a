// Package policyapi runs the conformance tests of network-policy-api. By default these are the tests of
// ClusterNetworkPolicy. With v1alpha1.mod and the tag v1alpha1 they are the tests of AdminNetworkPolicy and
// BaselineAdminNetworkPolicy, which only older versions of that module have. Upstream's program cannot skip tests by
// name; the report lists the skipped tests.
package policyapi

import (
	"context"
	"flag"
	"os"
	"regexp"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	reports "sigs.k8s.io/network-policy-api/conformance/apis/v1alpha1"
	"sigs.k8s.io/network-policy-api/conformance/tests"
	"sigs.k8s.io/network-policy-api/conformance/utils/flags"
	"sigs.k8s.io/network-policy-api/conformance/utils/suite"
	"sigs.k8s.io/yaml"
)

var focus = flag.String("focus", "", "only the tests with matching names, including SCTP tests on a kernel without SCTP")

// speaksSCTP matches the tests that send SCTP, possibly among other protocols.
var speaksSCTP = regexp.MustCompile(`SCTP$|Gress$|InlineCIDRPeers$|EgressNodePeers$`)

func TestConformance(t *testing.T) {
	rest, err := config.GetConfig()
	if err != nil {
		t.Fatal(err)
	}
	direct, err := client.NewWithWatch(rest, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := install(direct.Scheme()); err != nil {
		t.Fatal(err)
	}
	set, err := kubernetes.NewForConfig(rest)
	if err != nil {
		t.Fatal(err)
	}
	options := suite.Options{Client: direct, ClientSet: set, KubeConfig: *rest, CleanupBaseResources: true,
		SupportedFeatures: suite.AllFeatures}
	sctp := hasSCTP()
	if !sctp {
		options.Client = interceptor.NewClient(direct, interceptor.Funcs{Create: withoutSCTP})
	}
	wanted := regexp.MustCompile(*focus).MatchString
	if !sctp && *focus == "" {
		wanted = func(name string) bool { return !speaksSCTP.MatchString(name) }
	}
	for _, test := range tests.ConformanceTests {
		if !wanted(test.ShortName) {
			options.SkipTests = append(options.SkipTests, test.ShortName)
		}
	}
	run(t, options)
}

// run runs the tests and writes their report.
func run(t *testing.T, options suite.Options) {
	tested, err := suite.NewConformanceProfileTestSuite(suite.ConformanceProfileOptions{Options: options,
		ConformanceProfiles: profiles, Implementation: reports.Implementation{
			Organization: "weft-network", Project: "weft", URL: "https://github.com/weft-network/weft",
			Version: *flags.ImplementationVersion}})
	if err != nil {
		t.Fatal(err)
	}
	tested.Setup(t)
	if err := tested.Run(t, tests.ConformanceTests); err != nil {
		t.Fatal(err)
	}
	report, err := tested.Report()
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(*flags.ReportOutput, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// hasSCTP checks this kernel, which is also the nodes'.
func hasSCTP() bool {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP)
	if err == nil {
		unix.Close(fd)
	}
	return err == nil
}

// withoutSCTP removes the SCTP servers from the tests' pods. Without SCTP sockets they would end immediately, and no
// pod would become ready.
func withoutSCTP(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
	if set, ok := object.(*unstructured.Unstructured); ok && set.GetKind() == "StatefulSet" {
		path := []string{"spec", "template", "spec", "containers"}
		containers, _, err := unstructured.NestedSlice(set.Object, path...)
		if err != nil {
			return err
		}
		if err := unstructured.SetNestedSlice(set.Object, slices.DeleteFunc(containers, servesSCTP), path...); err != nil {
			return err
		}
	}
	return c.Create(ctx, object, options...)
}

func servesSCTP(container any) bool {
	text, err := yaml.Marshal(container)
	return err == nil && regexp.MustCompile(`name: SERVE_SCTP_PORT_`).Match(text)
}
