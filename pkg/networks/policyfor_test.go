package networks_test

import (
	"fmt"
	"strings"
	"testing"

	cniv1beta1 "github.com/weft-network/weft/apis/cni/v1beta1"
	"github.com/weft-network/weft/pkg/networks"
)

// What can be read of a policy's list is served. The rest is named.
func TestPolicyFor(t *testing.T) {
	for text, want := range map[string]string{
		"blue":                   "[demo/blue] <nil>",
		" blue , other/green,":   `[demo/blue other/green] annotation k8s.v1.cni.cncf.io/policy-for: element 2 ""`,
		"blue,demo/blue":         "[demo/blue] <nil>",
		"blue, Bad, other/a/b":   `[demo/blue] annotation k8s.v1.cni.cncf.io/policy-for: element 1 "Bad"`,
		"blue, other/a/b":        `element 1 "other/a/b": "a/b"`,
		"/blue":                  `[] annotation k8s.v1.cni.cncf.io/policy-for: element 0 "/blue": ""`,
		"":                       "[] annotation k8s.v1.cni.cncf.io/policy-for: no NetworkAttachmentDefinition is listed",
		"  ":                     "no NetworkAttachmentDefinition is listed",
		"other/green, other/b.c": "[other/green other/b.c] <nil>",
	} {
		found, err := networks.PolicyFor(map[string]string{cniv1beta1.PolicyForAnnotation: text}, "demo")
		if got := fmt.Sprint(found, " ", err); !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
