//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/uplink"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/invariant"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/process/admin"
)

// convergence bounds how long the databases may differ from the API; counts in a status are up to 5 s late.
const convergence = 30 * time.Second

// awaitConsistent fails the test unless all of Weft's state becomes exactly what the pods need.
func (b *testbed) awaitConsistent(t *testing.T) {
	t.Helper()
	eventually(t, convergence, func() error { return b.consistent(t.Context()) })
}

// consistent compares every place where Weft keeps state with the pods of the cluster. Nothing may be missing or
// left over.
func (b *testbed) consistent(ctx context.Context) error {
	all, err := b.pods(ctx)
	if err != nil {
		return err
	}
	nodes, err := b.Nodes()
	if err != nil {
		return err
	}
	networked := map[string][]corev1.Pod{} // node -> pods with a network of their own
	var flat []corev1.Pod
	for _, p := range all {
		if hasNetwork(&p) {
			networked[p.Spec.NodeName] = append(networked[p.Spec.NodeName], p)
			flat = append(flat, p)
		}
	}
	errs := []error{uniqueAddresses(flat), b.northboundIs(ctx, flat), b.clusterStatusIs(ctx, len(flat))}
	for _, n := range nodes {
		errs = append(errs, b.nodeIs(ctx, n.Name, networked[n.Name]))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return b.invariantsHold(ctx)
}

// invariantsHold makes the operator check all invariants over its whole database.
func (b *testbed) invariantsHold(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, convergence/2) // a check takes milliseconds, and 3 s more if it finds something
	defer cancel()
	out, err := b.Kubectl(ctx, "--namespace", product, "exec", "deployment/weft-operator", "--", "/usr/bin/weft", "admin", "check")
	if err != nil {
		return err
	}
	var answer admin.Violations
	if err := json.Unmarshal(out, &answer); err != nil {
		return fmt.Errorf("weft admin check: %w", err)
	}
	if len(answer.Checked) < len(invariant.All()) {
		return fmt.Errorf("only invariants %v were checked", answer.Checked)
	}
	var wrong error
	for _, v := range answer.Violations {
		wrong = errors.Join(wrong, errors.New(v.String()))
	}
	return wrong
}

func hasNetwork(p *corev1.Pod) bool {
	return p.Spec.NodeName != "" && !p.Spec.HostNetwork && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}

func uniqueAddresses(pods []corev1.Pod) error {
	holders := map[netip.Addr]string{}
	for i := range pods {
		addresses := addressesOf(&pods[i])
		if len(addresses) != 2 || addresses[0].Is4() == addresses[1].Is4() {
			return fmt.Errorf("pod %s has addresses %v, want one of each family", pods[i].Name, addresses)
		}
		for _, a := range addresses {
			if other, taken := holders[a]; taken {
				return fmt.Errorf("pods %s and %s both have %s", other, pods[i].Name, a)
			}
			holders[a] = pods[i].Name
		}
	}
	return nil
}

// same returns nil if two sets of names are equal.
func same(what string, want, have []string) error {
	slices.Sort(want)
	slices.Sort(have)
	if diff := cmp.Diff(want, have, cmpopts.EquateEmpty()); diff != "" {
		return fmt.Errorf("%s (-want +have):\n%s", what, diff)
	}
	return nil
}

// localnetOf returns the port that connects a node's gateway router to the network; empty without a gateway router.
func localnetOf(nn *networkv1alpha1.NodeNetwork) string {
	if g := nn.Status.Gateway; g != nil && g.Mode == networkv1alpha1.GatewayShared {
		return names.Localnet(g.Bridge, nn.Name)
	}
	return ""
}

// egressPortOf returns the port between the host and a node's gateway router in Local mode, and which of both there are: the router
// while the node may carry egress IPs or Services are the source of their pods, and the host's port also while the host answers for
// addresses of load balancers.
func (b *testbed) egressPortOf(ctx context.Context, nn *networkv1alpha1.NodeNetwork) (name string, host, router bool, err error) {
	var node corev1.Node
	var services corev1.ServiceList
	var pools networkv1alpha1.LoadBalancerPoolList
	if err := errors.Join(b.api.Get(ctx, client.ObjectKeyFromObject(nn), &node), b.api.List(ctx, &services),
		b.api.List(ctx, &pools)); err != nil {
		return "", false, false, err
	}
	if g := nn.Status.Gateway; g == nil || g.Mode != networkv1alpha1.GatewayLocal {
		return "", false, false, nil
	}
	_, carries := node.Labels[networkv1alpha1.EgressAssignableLabel]
	router = carries || facts.Leaving(services.Items)
	host = router || slices.ContainsFunc(pools.Items, func(p networkv1alpha1.LoadBalancerPool) bool {
		return slices.ContainsFunc(p.Status.Announcements, func(a networkv1alpha1.LoadBalancerAnnouncement) bool { return a.Node == nn.Name })
	})
	return names.EgressPort(nn.Name), host, router, nil
}

// northboundIs compares the pods' ports and addresses, and the fixed ports of each node and its gateway.
func (b *testbed) northboundIs(ctx context.Context, pods []corev1.Pod) error {
	ports, err := b.ports(ctx)
	if err != nil {
		return err
	}
	nodes, err := b.Nodes()
	if err != nil {
		return err
	}
	want := slices.Clone(ofEachZone)
	for _, n := range nodes {
		nn := nodeNetwork(n.Name)
		if err := b.api.Get(ctx, client.ObjectKeyFromObject(nn), nn); err != nil {
			return err
		}
		want = append(want, names.SwitchToRouter(n.Name), names.ManagementPort(n.Name))
		egress, _, hasRouter, err := b.egressPortOf(ctx, nn)
		if err != nil {
			return err
		}
		port := localnetOf(nn)
		if port == "" && hasRouter {
			port = egress
		}
		if port != "" {
			router := names.GatewayRouter(n.Name)
			if port == egress {
				router = names.EgressRouter(n.Name)
			}
			want = append(want, port, names.ExternalToRouter(router), names.JoinToRouter(router))
		}
	}
	var wrong error
	for i := range pods {
		port := portOf(&pods[i])
		want = append(want, port)
		wrong = errors.Join(wrong, portIs(ports[port], &pods[i]))
	}
	return errors.Join(wrong, same("logical switch ports", want, slices.Collect(maps.Keys(ports))))
}

func portOf(p *corev1.Pod) string { return names.PodPort(names.DefaultNetwork, p.Namespace, p.Name) }

func portIs(port row, p *corev1.Pod) error {
	if port == nil {
		return nil // the comparison of names reports it
	}
	for _, a := range addressesOf(p) {
		if !slices.Contains(strings.Fields(port.text("addresses")), a.String()) {
			return fmt.Errorf("port %s has addresses %q, the pod has %s", port.text("name"), port.text("addresses"), a)
		}
	}
	uid := p.UID
	if hash := p.Annotations["kubernetes.io/config.hash"]; hash != "" {
		uid = types.UID(hash)
	}
	if have := port.pairs("options")["iface-id-ver"]; have != string(uid) {
		return fmt.Errorf("port %s has UID %s, the pod has %s", port.text("name"), have, uid)
	}
	return nil
}

// clusterStatusIs compares the count of used addresses.
func (b *testbed) clusterStatusIs(ctx context.Context, pods int) error {
	var cn networkv1alpha1.ClusterNetwork
	if err := b.api.Get(ctx, types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, &cn); err != nil {
		return err
	}
	if len(cn.Status.Addresses) != len(cn.Spec.ClusterNetwork) {
		return fmt.Errorf("ClusterNetwork counts the addresses of %d networks, want %d", len(cn.Status.Addresses),
			len(cn.Spec.ClusterNetwork))
	}
	for _, a := range cn.Status.Addresses {
		if a.Used != int64(pods) || a.Total != a.Used+a.Free {
			return fmt.Errorf("ClusterNetwork reports %+v, want %d used", a, pods)
		}
	}
	return nil
}

// nodeIs compares Open vSwitch, the links and the guards of a node with its pods.
func (b *testbed) nodeIs(ctx context.Context, node string, pods []corev1.Pod) error {
	var nn networkv1alpha1.NodeNetwork
	if err := b.api.Get(ctx, types.NamespacedName{Name: node}, &nn); err != nil {
		return err
	}
	links, err := b.interfacesAre(ctx, &nn, pods)
	if err != nil {
		return err
	}
	return errors.Join(b.linksAre(ctx, node, links), b.guardsAre(ctx, node, slices.Concat(links, b.moved, lent(&nn)),
		nn.Status.DatapathType), countIs(&nn, len(pods)))
}

func countIs(nn *networkv1alpha1.NodeNetwork, pods int) error {
	if nn.Status.Pods != int32(pods) || nn.Status.Addresses == nil || nn.Status.Addresses.Used != int64(pods) {
		return fmt.Errorf("NodeNetwork %s reports %d pods and addresses %+v, want %d", nn.Name, nn.Status.Pods, nn.Status.Addresses, pods)
	}
	return nil
}

// interfacesAre compares Open vSwitch's interfaces and returns the pods' links.
func (b *testbed) interfacesAre(ctx context.Context, nn *networkv1alpha1.NodeNetwork, pods []corev1.Pod) (links []string, err error) {
	node := nn.Name
	rows, err := b.rows(ctx, node, "ovs-vsctl", "Interface", "name,type,external_ids,error")
	if err != nil {
		return nil, err
	}
	want, have := append(patchesOf(nn), names.ManagementPort(node)), []string{}
	egress, hasPort, _, err := b.egressPortOf(ctx, nn)
	if err != nil {
		return nil, err
	}
	if hasPort {
		want = append(want, egress)
	}
	for i := range pods {
		want = append(want, portOf(&pods[i]))
	}
	switched := append([]string{b.bridge(), "eth0"}, lent(nn)...)
	for _, link := range lent(nn) {
		switched = append(switched, uplink.BridgeName(link))
	}
	for _, r := range rows {
		port, name := r.pairs("external_ids")["iface-id"], r.text("name")
		switch {
		case r.text("error") != "":
			err = errors.Join(err, fmt.Errorf("node %s: interface %s: %s", node, name, r.text("error")))
		case port != "":
			have = append(have, port)
			if port != names.ManagementPort(node) && port != egress {
				links = append(links, name)
			}
		case r.text("type") == "patch":
			have = append(have, name)
		case name != names.IntegrationBridge && !slices.Contains(switched, name) && r.text("type") != "geneve":
			err = errors.Join(err, fmt.Errorf("node %s: interface %s belongs to no pod", node, name))
		}
	}
	return links, errors.Join(err, same("node "+node+": interfaces in Open vSwitch", want, have))
}

// patchesOf returns the two ends of the patch between br-int and the outside bridge, which ovn-controller creates.
func patchesOf(nn *networkv1alpha1.NodeNetwork) []string {
	localnet := localnetOf(nn)
	if localnet == "" {
		return nil
	}
	return []string{names.PatchToIntegration(localnet), "patch-" + names.IntegrationBridge + "-to-" + localnet}
}

// lent returns the node's links that only OVN uses.
func lent(nn *networkv1alpha1.NodeNetwork) []string {
	if g := nn.Status.Gateway; g != nil && g.Uplink == networkv1alpha1.UplinkInterface {
		return []string{g.Interface}
	}
	return nil
}

// linksAre compares the host's ends of the pods' links.
func (b *testbed) linksAre(ctx context.Context, node string, want []string) error {
	out, err := b.Exec(ctx, node, "ip", "-json", "link", "show", "type", "veth")
	if err != nil {
		return err
	}
	var links []struct{ IfName string }
	if err := json.Unmarshal(out, &links); err != nil {
		return fmt.Errorf("node %s: links: %w", node, err)
	}
	have := []string{}
	for _, l := range links {
		if l.IfName != "eth0" && l.IfName != secondLink { // the node's own links
			have = append(have, l.IfName)
		}
	}
	return same("node "+node+": veth links", slices.Concat([]string{}, want), have)
}

// guardsAre compares the nft chains that keep the host's stack from reading pods' frames on the userspace datapath.
func (b *testbed) guardsAre(ctx context.Context, node string, links []string, datapath networkv1alpha1.DatapathType) error {
	out, err := b.Exec(ctx, node, "nft", "-j", "list", "chains")
	if err != nil {
		return err
	}
	var listed struct {
		NFTables []struct{ Chain *struct{ Table, Name string } }
	}
	if err := json.Unmarshal(out, &listed); err != nil {
		return fmt.Errorf("node %s: chains: %w", node, err)
	}
	have := []string{}
	for _, item := range listed.NFTables {
		if item.Chain != nil && item.Chain.Table == "weft-guard" {
			have = append(have, item.Chain.Name)
		}
	}
	want := slices.Concat([]string{}, links)
	if datapath != networkv1alpha1.DatapathNetdev {
		want = []string{}
	}
	return same("node "+node+": guards", want, have)
}
