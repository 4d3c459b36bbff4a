package facts

import (
	"fmt"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

func TestChooseServiceNetworks(t *testing.T) {
	const four, six, other = "10.96.0.0/12", "fd00:10:96::/112", "10.200.0.0/16"
	kubernetes := func(cidrs ...string) networkingv1.ServiceCIDR {
		return networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}}
	}
	extra := kubernetes(other)
	extra.Name = "extra"
	for name, test := range map[string]struct {
		clusters, spec, status []networkv1alpha1.CIDR
		given                  []networkingv1.ServiceCIDR
		want                   string // networks, or a part of the error with which the plan is refused
		refused                bool
	}{
		"of the API server": {clusters: []networkv1alpha1.CIDR{"10.244.0.0/16"}, given: []networkingv1.ServiceCIDR{extra, kubernetes(four)},
			want: "[10.96.0.0/12]"},
		"of the families of pods": {clusters: []networkv1alpha1.CIDR{"10.244.0.0/16"}, given: []networkingv1.ServiceCIDR{kubernetes(six, four)},
			want: "[10.96.0.0/12]"},
		"both families": {clusters: []networkv1alpha1.CIDR{"fd00:10:244::/48", "10.244.0.0/16", "10.245.0.0/16"},
			given: []networkingv1.ServiceCIDR{kubernetes(four, six)}, want: "[fd00:10:96::/112 10.96.0.0/12]"},
		"the status keeps": {clusters: []networkv1alpha1.CIDR{"10.244.0.0/16"}, status: []networkv1alpha1.CIDR{four},
			given: []networkingv1.ServiceCIDR{kubernetes(other)}, want: "[10.96.0.0/12]"},
		"a family is added": {clusters: []networkv1alpha1.CIDR{"10.244.0.0/16", "fd00:10:244::/48"}, status: []networkv1alpha1.CIDR{four},
			given: []networkingv1.ServiceCIDR{kubernetes(four, six)}, want: "[10.96.0.0/12 fd00:10:96::/112]"},
		"a family is removed": {clusters: []networkv1alpha1.CIDR{"10.244.0.0/16"}, status: []networkv1alpha1.CIDR{four, six},
			want: "[10.96.0.0/12]"},
		"the spec has it": {clusters: []networkv1alpha1.CIDR{"10.244.0.0/16"}, spec: []networkv1alpha1.CIDR{other},
			status: []networkv1alpha1.CIDR{four}, given: []networkingv1.ServiceCIDR{kubernetes(four)}, want: "[]"},
		"no ServiceCIDR": {clusters: []networkv1alpha1.CIDR{"10.244.0.0/16"}, refused: true,
			want: "spec.serviceNetwork is empty, and the API server"},
		"not of both families": {clusters: []networkv1alpha1.CIDR{"10.244.0.0/16", "fd00:10:244::/48"},
			given: []networkingv1.ServiceCIDR{kubernetes(four)}, refused: true,
			want: "spec.clusterNetwork fd00:10:244::/48: the API server's ServiceCIDR"},
		"overlaps pods": {clusters: []networkv1alpha1.CIDR{"10.100.0.0/16"}, given: []networkingv1.ServiceCIDR{kubernetes(four)},
			refused: true, want: "spec.clusterNetwork 10.100.0.0/16 overlaps the API server's network of services 10.96.0.0/12"},
		"overlaps the join network": {clusters: []networkv1alpha1.CIDR{"10.244.0.0/16"},
			given: []networkingv1.ServiceCIDR{kubernetes("100.64.0.0/20")}, refused: true, want: "spec.joinSubnet 100.64.0.0/16 overlaps"},
	} {
		t.Run(name, func(t *testing.T) {
			cn := &networkv1alpha1.ClusterNetwork{}
			for _, cidr := range test.clusters {
				cn.Spec.ClusterNetwork = append(cn.Spec.ClusterNetwork, networkv1alpha1.ClusterNetworkEntry{CIDR: cidr})
			}
			cn.Spec.ServiceNetwork, cn.Spec.JoinSubnet = test.spec, []networkv1alpha1.CIDR{"100.64.0.0/16"}
			cn.Status.ServiceNetwork = test.status
			cn.Status.ServiceNetwork = ChooseServiceNetworks(cn, test.given)
			_, err := ParseClusterNetwork(cn)
			if test.refused {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("the error is %v, want %q", err, test.want)
				}
				return
			}
			if got := fmt.Sprint(cn.Status.ServiceNetwork); got != test.want || err != nil {
				t.Errorf("chosen %s, %v; want %s", got, err, test.want)
			}
		})
	}
}
