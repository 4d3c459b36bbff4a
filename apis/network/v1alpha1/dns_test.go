package v1alpha1

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPodsDNS(t *testing.T) {
	two, cluster := "2", DNS{Nameservers: []IP{"10.96.0.10", "fd00:10:96::a"}, Domain: "cluster.local"}
	server, v6, own := netip.MustParseAddr("10.96.0.10"), netip.MustParseAddr("fd00:10:96::a"), netip.MustParseAddr("192.0.2.53")
	searches := []string{"demo.svc.cluster.local", "svc.cluster.local", "cluster.local"}
	config := &corev1.PodDNSConfig{
		Nameservers: []string{"192.0.2.53", "10.96.0.10"}, Searches: []string{"example.org", "cluster.local"},
		Options: []corev1.PodDNSConfigOption{{Name: "ndots", Value: &two}, {Name: "edns0"}},
	}
	for _, test := range []struct {
		name    string
		cluster DNS
		spec    corev1.PodSpec
		want    *PodDNS
	}{
		{"the cluster's", cluster, corev1.PodSpec{DNSPolicy: corev1.DNSClusterFirst},
			&PodDNS{[]netip.Addr{server, v6}, searches, []string{"ndots:5"}}},
		{"no domain", DNS{Nameservers: []IP{"10.96.0.10"}}, corev1.PodSpec{}, &PodDNS{[]netip.Addr{server}, nil, []string{"ndots:5"}}},
		{"the cluster's and its own", cluster, corev1.PodSpec{DNSPolicy: corev1.DNSClusterFirst, DNSConfig: config},
			&PodDNS{[]netip.Addr{server, v6, own}, append(searches[:3:3], "example.org"), []string{"ndots:2", "edns0"}}},
		{"only its own", cluster, corev1.PodSpec{DNSPolicy: corev1.DNSNone, DNSConfig: config},
			&PodDNS{[]netip.Addr{own, server}, []string{"example.org", "cluster.local"}, []string{"ndots:2", "edns0"}}},
		{"the node's", cluster, corev1.PodSpec{DNSPolicy: corev1.DNSDefault, DNSConfig: config}, nil},
		{"not configured", DNS{}, corev1.PodSpec{DNSPolicy: corev1.DNSClusterFirst, DNSConfig: config}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := test.cluster.ForPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo"}, Spec: test.spec})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got, compareAddresses); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	if _, err := (DNS{Nameservers: []IP{"web"}}).ForNamespace("demo"); err == nil || !strings.Contains(err.Error(), "web") {
		t.Errorf("error: %v", err)
	}
}
