package galaxy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating"
	"github.com/weft-network/weft/pkg/kubectl/galaxy"
	"github.com/weft-network/weft/pkg/manifest"
)

// objects reads manifests.
func objects(t *testing.T, text string) (found []*unstructured.Unstructured) {
	t.Helper()
	documents, err := manifest.Read("test", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range documents {
		found = append(found, d.Object)
	}
	return found
}

// config is a ConfigMap of Galaxy.
func config(ranges string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: floatingip-config}, data: {floatingips: '%s'}}\n", ranges)
}

// ip is a FloatingIP of Galaxy.
func ip(name, key string, policy int, more string) string {
	return fmt.Sprintf("---\n{apiVersion: galaxy.k8s.io/v1alpha1, kind: FloatingIP, metadata: {name: %q%s}, spec: {key: %s, policy: %d, "+
		`attribute: '{"NodeName":"n1","Uid":"u-%s"}', updateTime: "2026-01-02T03:04:05.6Z"}}`+"\n", name, more, key, policy, key)
}

const racks = `[{"nodeSubnets":["10.0.1.0/24"],"ips":["10.9.0.2~10.9.0.20"],"subnet":"10.9.0.0/24","gateway":"10.9.0.1","vlan":3},` +
	`{"routableSubnet":"10.0.2.0/24","ips":["10.9.1.5","10.9.1.7~10.9.1.9"],"subnet":"10.9.1.0/24","gateway":"10.9.1.1"}]`

var (
	db   = floating.Workload{APIVersion: "apps/v1", Kind: "StatefulSet", Namespace: "demo", Name: "db"}
	web  = floating.Workload{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "demo", Name: "web"}
	tapp = floating.Workload{APIVersion: "apps.tkestack.io/v1", Kind: "TApp", Namespace: "demo", Name: "game"}
)

// cluster has the nodes n1 and n2 in different racks, the StatefulSet db, the Deployment web, and pods of both.
func cluster() galaxy.Cluster {
	c := galaxy.Cluster{Workloads: map[floating.Workload]types.UID{db: "uid-db", web: "uid-web", tapp: "uid-game"},
		Pods: map[types.NamespacedName]*corev1.Pod{}}
	for i, name := range []string{"n1", "n2"} {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: "host-" + name}}}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name},
			{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.0.%d.5", i+1)}}
		c.Nodes = append(c.Nodes, n)
	}
	for name, key := range map[string]string{
		"db-0": "sts_demo_db_db-0", "web-x": "pool__blue_dp_demo_web_web-x", "web-y": "dp_demo_web_web-y",
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, UID: types.UID("u-" + key)}}
		p.Spec.NodeName = "n2"
		c.Pods[types.NamespacedName{Namespace: "demo", Name: name}] = p
	}
	return c
}

func convert(t *testing.T, text string, target galaxy.Target) galaxy.Result {
	t.Helper()
	source, err := galaxy.Read(objects(t, text))
	if err != nil {
		t.Fatal(err)
	}
	result, err := galaxy.Convert(source, cluster(), target)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// poolsText renders pools: "blue size 2: 10.9.0.4 10.9.1.5@host-n2".
func poolsText(pools []networkv1alpha1.IPPool) (texts []string) {
	for _, p := range pools {
		var b strings.Builder
		fmt.Fprintf(&b, "%s %s%s size %d:", p.Name, p.Spec.Location, p.Spec.Network, p.Spec.Size)
		for _, r := range p.Spec.Ranges {
			b.WriteString(" " + r.Addresses)
			if s := r.NodeSelector; s != nil && len(s.MatchExpressions) > 0 {
				b.WriteString("@" + strings.Join(s.MatchExpressions[0].Values, ","))
			} else if s != nil {
				b.WriteString("@" + s.MatchLabels[galaxy.SubnetLabel])
			}
		}
		texts = append(texts, b.String())
	}
	return texts
}

// ipsText renders FloatingIPs: "10.9.0.2 galaxy: StatefulSet demo/db uid-db Immutable db-0 u-sts 0 n2".
func ipsText(ips []networkv1alpha1.FloatingIP) (texts []string) {
	for i := range ips {
		f := &ips[i]
		text := string(f.Spec.Address) + " " + f.Spec.Pool + ":"
		if value, reserved := f.Labels[networkv1alpha1.ReservedLabel]; reserved {
			text += " reserved " + value
		}
		if h := f.Spec.Holder; h != nil {
			text += fmt.Sprintf(" %s %s %s %s %s %d %s", floating.WorkloadOf(h), h.UID, h.ReleasePolicy, h.Pod, h.PodUID, h.Index, h.Node)
		}
		texts = append(texts, text)
	}
	return texts
}

func compare(t *testing.T, what string, have, want []string) {
	t.Helper()
	for i := range max(len(have), len(want)) {
		switch {
		case i >= len(have):
			t.Errorf("%s %q is missing", what, want[i])
		case i >= len(want):
			t.Errorf("%s %q should not be there", what, have[i])
		case strings.TrimSpace(have[i]) != want[i]:
			t.Errorf("%s %q, want %q", what, have[i], want[i])
		}
	}
}

func TestWhatGalaxyHas(t *testing.T) {
	result := convert(t, config(racks)+
		ip("10.9.0.2", "sts_demo_db_db-0", 1, "")+
		ip("168361987", "sts_demo_db_db-1", 1, "")+ // 10.9.0.3
		ip("10.9.0.4", "pool__blue_dp_demo_web_web-x", 2, "")+
		ip("10.9.0.5", "pool__blue_", 2, "")+
		ip("10.9.0.6", "dp_demo_web_web-y", 0, "")+
		ip("10.9.0.7", "dp_demo_web_", 2, "")+
		ip("10.9.0.8", "dp_demo_web_web-gone", 0, "")+
		ip("10.9.0.9", "dp_demo_gone_", 1, "")+
		ip("10.9.0.10", "dp_demo_gone_", 2, "")+
		ip("10.9.0.11", "pool__reserved-for-node_", 2, ", labels: {reserved: this}")+
		ip("10.9.0.12", "cron_demo_x_y", 2, "")+
		ip("10.9.0.13", "tapp_demo_game_game-0", 1, "")+
		ip("10.9.0.14", "sts_demo_db_db-0", 1, "")+
		ip("10.9.9.9", "sts_demo_db_db-7", 1, "")+
		"---\n{apiVersion: galaxy.k8s.io/v1alpha1, kind: Pool, metadata: {name: blue, namespace: kube-system}, size: 3}\n"+
		"---\n{apiVersion: galaxy.k8s.io/v1alpha1, kind: Pool, metadata: {name: green, namespace: kube-system}, size: 2}\n",
		galaxy.Target{Location: networkv1alpha1.LocationUnderlay, Network: "vlan"})
	compare(t, "pool", poolsText(result.Pools), []string{
		"blue Underlayvlan size 3: 10.9.0.4-10.9.0.5@host-n1 10.9.0.15@host-n1",
		"galaxy Underlayvlan size 0: 10.9.0.2-10.9.0.3@host-n1 10.9.0.6-10.9.0.14@host-n1 10.9.0.18-10.9.0.20@host-n1 " +
			"10.9.1.5@host-n2 10.9.1.7-10.9.1.9@host-n2",
		"green Underlayvlan size 2: 10.9.0.16-10.9.0.17@host-n1",
	})
	compare(t, "address", ipsText(result.FloatingIPs), []string{
		"10.9.0.2 galaxy: StatefulSet demo/db uid-db Immutable db-0 u-sts_demo_db_db-0 0 n2",
		"10.9.0.3 galaxy: StatefulSet demo/db uid-db Immutable db-1  0",
		"10.9.0.4 blue: Deployment demo/web uid-web Pod web-x u-pool__blue_dp_demo_web_web-x 0 n2",
		"10.9.0.5 blue:",
		"10.9.0.6 galaxy: Deployment demo/web uid-web Pod web-y u-dp_demo_web_web-y 0 n2",
		"10.9.0.7 galaxy: Deployment demo/web uid-web Never   0",
		"10.9.0.10 galaxy: Deployment demo/gone  Never   0",
		"10.9.0.11 galaxy: reserved reserved-for-node",
		"10.9.0.12 galaxy: reserved cron_demo_x_y",
		"10.9.0.13 galaxy: TApp demo/game uid-game Immutable   0",
		"10.9.0.14 galaxy: StatefulSet demo/db uid-db Immutable db-0 u-sts_demo_db_db-0 1 n2",
	})
	if since := result.FloatingIPs[0].Spec.Holder.Since; !since.Equal(&metav1.Time{Time: time.Date(2026, 1, 2, 3, 4, 5, 6e8, time.UTC)}) {
		t.Errorf("since %s", since)
	}
	checkNotes(t, result.Notes, "FloatingIP 10.9.9.9 is in none of the ranges", "FloatingIP 10.9.0.8: its pod demo/web-gone does not exist",
		"FloatingIP 10.9.0.9: Deployment demo/gone does not exist", `FloatingIP 10.9.0.12: key "cron_demo_x_y" names no`,
		"gateway 10.9.0.1 and VLAN 3 of [10.9.0.2-10.9.0.20] have no field in an IPPool: Network vlan must have them",
		"the node subnets [10.0.1.0/24] of [10.9.0.2-10.9.0.20] are the nodes [host-n1]")
}

// checkNotes compares the notes with words that each must be in one.
func checkNotes(t *testing.T, notes []string, want ...string) {
	t.Helper()
	for _, words := range want {
		if !slices.ContainsFunc(notes, func(note string) bool { return strings.Contains(note, words) }) {
			t.Errorf("no note has %q:\n%s", words, strings.Join(notes, "\n"))
		}
	}
}

// A segment for all nodes needs no selector. A segment without nodes gets a label that nobody has yet.
func TestNodesOfASegment(t *testing.T) {
	result := convert(t, config(`[{"nodeSubnets":["10.0.0.0/8"],"ips":["10.9.0.2"]},{"nodeSubnets":["172.16.0.0/16"],"ips":["10.9.1.2"]}]`),
		galaxy.Target{Location: networkv1alpha1.LocationNAT})
	compare(t, "pool", poolsText(result.Pools), []string{"galaxy NAT size 0: 10.9.0.2 10.9.1.2@172.16.0.0-16"})
	checkNotes(t, result.Notes, "label the nodes that can carry these addresses network.weft.dev/galaxy-node-subnet=172.16.0.0-16",
		"have no counterpart for an IPPool with location NAT")
}

func TestPoolsLargerThanTheRanges(t *testing.T) {
	const pool = "---\n{apiVersion: galaxy.k8s.io/v1alpha1, kind: Pool, metadata: {name: %s}, size: %d}\n"
	result := convert(t, config(`[{"nodeSubnets":["10.0.0.0/8"],"ips":["10.9.0.2~10.9.0.4"]}]`)+fmt.Sprintf(pool, "big", 5000)+
		ip("10.9.0.2", "pool__No_Name_sts_demo_db_db-0", 1, ""), galaxy.Target{Location: networkv1alpha1.LocationNAT})
	compare(t, "pool", poolsText(result.Pools), []string{"big NAT size 4096: 10.9.0.3-10.9.0.4", "galaxy NAT size 0: 10.9.0.2"})
	checkNotes(t, result.Notes, "Pool big: its size is 5000, but only 2 addresses are left", "spec.size is at most 4096",
		`FloatingIP 10.9.0.2: pool "No" cannot be the name of an IPPool`)
}

func TestWhatCannotBeRead(t *testing.T) {
	good := config(`[{"nodeSubnets":["10.0.0.0/8"],"ips":["10.9.0.2"]}]`)
	const bare = "---\n{apiVersion: galaxy.k8s.io/v1alpha1, kind: FloatingIP, metadata: {name: 10.9.0.2}, "
	for want, text := range map[string]string{
		"no ranges: ConfigMap floatingip-config is missing or empty": ip("10.9.0.2", "x", 0, ""),
		"no ranges": config("[]"),
		"ConfigMap floatingip-config: data.floatingips: ": config("{"),
		"data.floatingips[0].ips: ":                       config(`[{"ips":["10.9.0.9~1"]}]`),
		"data.floatingips[0].nodeSubnets: ":               config(`[{"nodeSubnets":["x"]}]`),

		"ConfigMap other: data.floatingips is missing": "{apiVersion: v1, kind: ConfigMap, metadata: {name: other}, data: {}}",

		"Pod p: it is neither Galaxy's FloatingIP or Pool": "{apiVersion: v1, kind: Pod, metadata: {name: p}}",

		"FloatingIP web: its name is not an address":               good + ip("web", "x", 0, ""),
		"FloatingIP 10.9.0.2: spec.policy 3 is not 0, 1 or 2":      good + ip("10.9.0.2", "x", 3, ""),
		"FloatingIP 10.9.0.2: spec.attribute: ":                    good + bare + "spec: {attribute: '{'}}",
		"FloatingIP 10.9.0.2: spec.updateTime: parsing time":       good + bare + "spec: {updateTime: now}}",
		"Pool 10.9.0.2: .size accessor error: many is of the type": good + strings.Replace(bare, "FloatingIP", "Pool", 1) + "size: many}",
	} {
		if _, err := galaxy.Read(objects(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", text, err, want)
		}
	}
}

// A pool whose addresses lie too far apart is an error before anything is written.
func TestTooManyRanges(t *testing.T) {
	text := config(`[{"nodeSubnets":["10.0.0.0/8"],"ips":["10.9.0.0~10.9.0.255"]}]`)
	for i := range 65 {
		text += ip(fmt.Sprintf("10.9.0.%d", 2*i), "pool__blue_", 2, "")
	}
	source, err := galaxy.Read(objects(t, text))
	if err != nil {
		t.Fatal(err)
	}
	_, err = galaxy.Convert(source, cluster(), galaxy.Target{Location: networkv1alpha1.LocationNAT})
	if err == nil || !strings.Contains(err.Error(), "IPPool blue would have 65 ranges, at most 64 are possible") {
		t.Errorf("error: %v", err)
	}
}
