package operator

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
)

// logs sets how an object logs its ACLs; empty: no logging.
func (w *world) logs(o client.Object, text string) {
	w.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, networkv1alpha1.ACLLoggingAnnotation, text)
	if text == "" {
		patch = fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, networkv1alpha1.ACLLoggingAnnotation)
	}
	w.must(api.Patch(w.Context(), o, client.RawPatch(types.MergePatchType, []byte(patch))))
}

// logged waits until exactly these ACLs are logged, each as "name severity rate".
func (w *world) logged(want ...string) {
	w.Helper()
	want = slices.Sorted(slices.Values(want))
	w.until(func() error {
		rows := w.selectRows()
		rates := map[string]string{}
		for _, meter := range rows[nbdb.MeterTable] {
			rates[meter["name"][0]] = rows[nbdb.MeterBandTable][meter["bands"][0]]["rate"][0]
		}
		var have []string
		for _, acl := range rows[nbdb.ACLTable] {
			if acl["log"][0] != "true" {
				continue
			}
			have = append(have, acl["name"][0]+" "+acl["severity"][0]+" "+rates[acl["meter"][0]])
		}
		if slices.Sort(have); !slices.Equal(have, want) || len(rates) != len(want) || len(rows[nbdb.MeterBandTable]) != len(want) {
			return fmt.Errorf("logged ACLs are %q with %d meters and %d bands, want %q", have, len(rates),
				len(rows[nbdb.MeterBandTable]), want)
		}
		return nil
	})
}

// TestACLLogging checks that a namespace sets the logging of its policies and a policy its own. An unreadable
// annotation logs nothing, and an event on its object reports it.
func TestACLLogging(t *testing.T) {
	w := newWorld(t)
	w.settled([]string{"n1"}, 1)
	namespace := &corev1.Namespace{}
	namespace.Name = "default"
	defer w.logs(namespace, "") // other tests use the namespace too
	w.podLabelled("n1", "web", "web")
	first, second := policyObject("first", "web", "client"), policyObject("second", "web")
	w.must(api.Create(w.Context(), first))
	w.must(api.Create(w.Context(), second))
	w.firewall("default", allowCIDR("192.0.2.0/24"), denyCIDR("0.0.0.0/0"))
	w.isolates("first", 3)
	w.isolates("second", 2)
	w.logged()

	w.logs(namespace, `{"deny":"warning"}`)
	denied := []string{"NP:default/first:ingress isolation warning 20",
		"NP:default/second:ingress isolation warning 20", "EF:default:" + denyText + " warning 20"}
	w.logged(denied...)
	w.logs(first, `{"allow":"info","rate":7}`)
	w.logged("NP:default/first:ingress[0] info 7", denied[1], denied[2])
	w.logs(second, `{"deny":"loud"}`)
	w.says(w.event("second", networkv1alpha1.ReasonInvalidAnnotation), `deny: "loud" is not one of`)
	w.logged("NP:default/first:ingress[0] info 7", denied[2])
	w.logs(namespace, `?`)
	w.says(w.event("default", networkv1alpha1.ReasonInvalidAnnotation), "nothing is logged")
	w.logged("NP:default/first:ingress[0] info 7")
	w.must(api.Delete(w.Context(), first))
	w.logged()
	w.clearPolicies(w.Context())
}

const denyText = "Deny cidrSelector 0.0.0.0/0"
