package lint

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/weft-network/weft/pkg/manifest"
)

const workload = `
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: demo, name: web}
spec:
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: c, ports: [{name: http, containerPort: 8080}]}]}
---
apiVersion: batch/v1
kind: CronJob
metadata: {namespace: demo, name: job}
spec: {jobTemplate: {spec: {template: {metadata: {labels: {app: job}}, spec: {containers: [{name: c, image: c}]}}}}}
---
`

const policy = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {namespace: demo, name: p}\nspec: "

const service = "apiVersion: v1\nkind: Service\nmetadata: {namespace: demo, name: s}\nspec: "

const firewall = "apiVersion: network.weft.dev/v1alpha1\nkind: EgressFirewall\nmetadata: {namespace: demo, name: default}\nspec: "

// existing is a cluster with a namespace and a client in it.
func existing() Cluster {
	return Cluster{Namespaces: map[string]labels.Set{"other": {"team": "blue"}},
		Pods: []Pod{PodOf("other", labels.Set{"app": "client"}, corev1.PodSpec{Containers: []corev1.Container{
			{Ports: []corev1.ContainerPort{{Name: "dns", ContainerPort: 53, Protocol: corev1.ProtocolUDP}}}}})}}
}

func TestLint(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []string // "field: message"
	}{
		"a policy that is right": {policy + `{podSelector: {matchLabels: {app: web}}, ingress: [{ports: [{port: http}, {port: 8080}],
  from: [{namespaceSelector: {matchLabels: {team: blue}}, podSelector: {matchLabels: {app: client}}},
  {ipBlock: {cidr: 192.0.2.0/24}}]}]}`, nil},
		"a policy for nobody": {policy + `{podSelector: {matchLabels: {app: wbe}}}`,
			[]string{"spec.podSelector: selects no pod in namespace demo, so the policy has no effect"}},
		"deny all": {policy + `{podSelector: {}, policyTypes: [Ingress, Egress]}`, nil},
		"a selector that cannot be read": {policy + `{podSelector: {matchExpressions: [{key: app, operator: Like}]}}`,
			[]string{`spec.podSelector: cannot be read: "Like" is not a valid label selector operator`}},
		"peers that are nobody": {policy + `{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: client}}},
  {namespaceSelector: {matchLabels: {team: red}}}]}]}`, []string{"spec.ingress[0].from[0].podSelector: selects no pod",
			"spec.ingress[0].from[1].namespaceSelector: selects no namespace"}},
		"ports that no container has": {policy + `{podSelector: {matchLabels: {app: web}}, ingress: [{ports: [{port: htpp}, {port: 80},
  {port: 8080, protocol: UDP}, {port: 1, endPort: 9}]}]}`, []string{
			"spec.ingress[0].ports[0].port: no container of the 1 selected pods has TCP port htpp",
			"spec.ingress[0].ports[1].port: no container of the 1 selected pods has TCP port 80",
			"spec.ingress[0].ports[2].port: no container of the 1 selected pods has UDP port 8080"}},
		"a number, and a pod that lists no ports": {policy + `{podSelector: {}, ingress: [{ports: [{port: 80}]}]}`, nil},
		"a port of egress is that of the peers": {policy + `{podSelector: {}, policyTypes: [Egress], egress: [
  {ports: [{port: dns, protocol: UDP}, {port: dns}], to: [{namespaceSelector: {}, podSelector: {matchLabels: {app: client}}}]},
  {ports: [{port: 443}], to: [{ipBlock: {cidr: 0.0.0.0/0}}]}]}`,
			[]string{"spec.egress[0].ports[1].port: no container of the 1 selected pods has TCP port dns"}},
		"rules of a direction that is not isolated": {policy + `{podSelector: {}, policyTypes: [Egress], ingress: [{}]}`,
			[]string{"spec.ingress: has no effect, because policyTypes lacks Ingress"}},
		"a rule within another": {policy + `{podSelector: {matchLabels: {app: web}}, ingress: [
  {from: [{ipBlock: {cidr: 192.0.2.0/24}}], ports: [{port: 8080}]}, {ports: [{port: 8000, endPort: 9000}]},
  {ports: [{port: 8000, endPort: 9000}]}]}`,
			[]string{"spec.ingress[0]: has no effect, because rule 1 of the same direction allows all of it",
				"spec.ingress[2]: has no effect, because rule 1 of the same direction allows all of it"}},
		"rules that overlap": {policy + `{podSelector: {matchLabels: {app: web}}, ingress: [
  {ports: [{port: 8000, endPort: 8500}]}, {ports: [{port: 8080, endPort: 9000}]}]}`, nil},
		"a service for nobody": {service + `{selector: {app: wbe}, ports: [{port: 80}]}`,
			[]string{"spec.selector: no pod in namespace demo has the labels app=wbe"}},
		"a service that is right": {service + `{selector: {app: web}, ports: [{port: 80, targetPort: http}, {port: 8080}]}`, nil},
		"a service to other ports": {service + `{selector: {app: web}, ports: [{port: 80}, {port: 81, targetPort: https}]}`, []string{
			"spec.ports[0].targetPort: no container of the 1 selected pods has TCP port 80",
			"spec.ports[1].targetPort: no container of the 1 selected pods has TCP port https"}},
		"a service without selector": {service + `{ports: [{port: 80}]}`, nil},
		"shadowed rules of a firewall": {firewall + `{egress: [
  {type: Allow, to: {cidrSelector: 192.0.2.0/24}, ports: [{port: 443, protocol: TCP}]},
  {type: Deny, to: {cidrSelector: 0.0.0.0/0}}, {type: Allow, to: {cidrSelector: 192.0.2.1/32}},
  {type: Allow, to: {cidrSelector: "2001:db8::/32"}},
  {type: Allow, to: {dnsName: a.example}}, {type: Deny, to: {dnsName: A.example.}}]}`, []string{
			"spec.egress[2]: has no effect, because spec.egress[1] decides first about all of its packets",
			"spec.egress[5]: has no effect, because spec.egress[4] decides first about all of its packets"}},
		"an annotation with a typo": {"apiVersion: v1\nkind: Service\nmetadata: {name: s, annotations: " +
			"{weft.dev/load-balancer-ip: 192.0.2.1}}\n",
			[]string{"metadata.annotations[weft.dev/load-balancer-ip]: Weft has no annotation weft.dev/load-balancer-ip, so that it has no " +
				"effect; did you mean weft.dev/load-balancer-ips?"}},
		"a value that nobody understands": {"apiVersion: v1\nkind: Service\nmetadata: {name: s, annotations: " +
			"{network.weft.dev/idle: \"yes\"}}\n",
			[]string{"metadata.annotations[network.weft.dev/idle]: annotation network.weft.dev/idle: \"yes\" is neither \"true\" " +
				"nor \"false\", and counts as \"false\""}},
		"an annotation of a workload's pods": {"apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: w}\nspec: {template: {metadata: " +
			"{annotations: {network.weft.dev/ip-pol: web}}}}\n",
			[]string{"spec.template.metadata.annotations[network.weft.dev/ip-pol]: " +
				"Weft has no annotation network.weft.dev/ip-pol, so that it has no effect; did you mean network.weft.dev/ip-pool?"}},
		"another kind": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			documents, err := manifest.Read("f.yaml", strings.NewReader(workload+test.text))
			if err != nil {
				t.Fatal(err)
			}
			found, err := Lint(documents, existing(), "default")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range found {
				if !strings.HasPrefix(f.Source, "f.yaml, document 3 (") {
					t.Errorf("%s is not about the third document", f)
				}
				got = append(got, f.Field+": "+f.Message)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestUnreadableObjectIsNamed(t *testing.T) {
	documents, err := manifest.Read("f.yaml", strings.NewReader(service+"{ports: many}"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lint(documents, Cluster{}, "demo"); err == nil || !strings.Contains(err.Error(), "f.yaml, document 1 (Service demo/s)") {
		t.Errorf("error %v, want the document", err)
	}
}
