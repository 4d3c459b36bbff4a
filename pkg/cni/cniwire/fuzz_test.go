package cniwire

import (
	"errors"
	"strings"
	"testing"
)

// For any CNI_ARGS, ParseArgs returns either an error that has a code and names the variable, or values that occur in
// the text.
func FuzzParseArgs(f *testing.F) {
	f.Add("IgnoreUnknown=1;K8S_POD_NAMESPACE=demo;K8S_POD_NAME=web-0;K8S_POD_INFRA_CONTAINER_ID=c0ffee;K8S_POD_UID=u")
	f.Add("")
	f.Add(";;")
	f.Add("K8S_POD_NAME")
	f.Add("K8S_POD_NAME=a=b;K8S_POD_NAME=../../etc")
	f.Fuzz(func(t *testing.T, text string) {
		args, err := ParseArgs(text)
		if err != nil {
			var coded *Error
			if !errors.As(err, &coded) || !strings.Contains(err.Error(), "CNI_ARGS") {
				t.Errorf("%q: error without a code or name: %v", text, err)
			}
			return
		}
		for _, value := range []string{args.PodNamespace, args.PodName, args.PodUID, args.InfraContainerID} {
			if strings.Contains(value, ";") || !strings.Contains(text, value) {
				t.Errorf("%q was parsed as %+v", text, args)
			}
		}
		invalid := len(args.PodName) > maxSubdomain || strings.ContainsAny(args.PodNamespace+args.PodName, "/_;= \x00")
		if args.validate() == nil && invalid {
			t.Errorf("%+v was accepted", args)
		}
	})
}
