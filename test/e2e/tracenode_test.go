//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/lab"
)

// nodeRow is a question whose packet a node, and not OVN, lets pass or drops.
type nodeRow struct {
	name, from string
	caller     caller
	to         []netip.Addr
	port       uint16
	// says are words of the verdict. A verdict of exit code 0 says that a server answers, and one of 2 nothing.
	says string
	code int
}

// TestTraceSaysWhatNodesDrop compares kubectl weft trace with packets, over both families and in both modes: source ranges of a load
// balancer, ports that it does not have, cluster IPs that no service has, and cluster IPs from outside. It
// does the same for host ports, at the address of the node's gateway and at an address that only the host has.
func TestTraceSaysWhatNodesDrop(t *testing.T) {
	plugin := newWeft(t)
	pool := &networkv1alpha1.LoadBalancerPool{ObjectMeta: metav1.ObjectMeta{Name: "e2e"}}
	pool.Spec.Addresses = poolRange(t)
	client, web := labelled(bed.peerPod("tn-client", "n1"), "tn-client"), labelled(bed.peerPod("tn-web", "n2"), "tn-web")
	web.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: whoPort, HostPort: tracedHostPort, Protocol: corev1.ProtocolTCP}}
	limited := balanced("tn", corev1.ServiceExternalTrafficPolicyCluster)
	limited.Spec.Selector = map[string]string{"app": "tn-web"}
	for _, a := range both(lab.Far()) {
		limited.Spec.LoadBalancerSourceRanges = append(limited.Spec.LoadBalancerSourceRanges, netip.PrefixFrom(a, a.BitLen()).String())
	}
	bed.create(t, pool, limited)
	bed.run(t, client, web)
	bed.serveOn(t, lab.Outside().Name)
	bed.mustExec(t, "n2", "ip", "address", "add", furtherOfNode.String()+"/32", "dev", "lo")
	t.Cleanup(func() {
		_, _ = bed.Exec(cleanup(), "n2", "ip", "address", "del", furtherOfNode.String()+"/32", "dev", "lo")
	})
	shared := column{networkv1alpha1.GatewayShared, networkv1alpha1.UplinkBridge}
	t.Cleanup(func() { bed.setGateway(t, cleanup(), shared) })
	for _, c := range []column{shared, {networkv1alpha1.GatewayLocal, networkv1alpha1.UplinkBridge}} {
		bed.setGateway(t, t.Context(), c)
		balancing{pool: pool}.addressed(t, limited)
		for _, row := range append(nodeRows(t, client, limited, c.mode), hostPortRows(client, web)...) {
			t.Run(string(c.mode)+"/"+row.name, func(t *testing.T) { row.test(t, &weft{t, plugin.folder}) })
		}
	}
}

// tracedHostPort is a host port of a pod on n2, which has furtherOfNode at its host alone.
const tracedHostPort = 18091

var furtherOfNode = netip.MustParseAddr("198.51.100.77")

func hostPortRows(client, web *corev1.Pod) []nodeRow {
	from, itself := client.Namespace+"/"+client.Name, web.Namespace+"/"+web.Name
	at, further := both(lab.Node(2)), []netip.Addr{furtherOfNode}
	return []nodeRow{
		{"outside to a host port", "", bed.hostCaller(lab.Outside().Name), at, tracedHostPort, "delivered to pod " + itself, 0},
		{"a pod to a host port of another node", from, bed.podCaller(client), at, tracedHostPort, "delivered to pod " + itself, 0},
		{"a pod to its own host port", itself, bed.podCaller(web), at, tracedHostPort, "delivered to pod " + itself, 0},
		{"a pod to its own host port further on", itself, bed.podCaller(web), further, tracedHostPort, "delivered to pod " + itself, 0},
		{"another node to a host port", "node/n1", bed.hostCaller("n1"), at, tracedHostPort, "delivered to pod " + itself, 0},
		{"the node to its host port", "node/n2", bed.hostCaller("n2"), at, tracedHostPort, "delivered to pod " + itself, 0},
		{"the node to its host port further on", "node/n2", bed.hostCaller("n2"), further, tracedHostPort, "delivered to pod " + itself, 0},
		{"outside to no host port", "", bed.hostCaller(lab.Outside().Name), at, tracedHostPort + 1, "the host itself answers", 2},
	}
}

func nodeRows(t *testing.T, pod *corev1.Pod, s *corev1.Service, mode networkv1alpha1.GatewayMode) []nodeRow {
	var balancer []netip.Addr
	for _, ingress := range s.Status.LoadBalancer.Ingress {
		balancer = append(balancer, netip.MustParseAddr(ingress.IP))
	}
	clusterIPs := addressList(s.Spec.ClusterIPs...)
	unused := addressList("10.96.200.200", "fd00:10:96::c8c8")
	name := pod.Namespace + "/" + pod.Name
	outside, far, inside, node := bed.hostCaller(lab.Outside().Name), bed.hostCaller(lab.Far().Name), bed.podCaller(pod), bed.hostCaller("n1")
	nodes, err := bed.Nodes()
	must(t, err)
	for i, via := range both(nodes[0]) { // nobody else sends packets to cluster IPs to a node
		for _, to := range []netip.Addr{clusterIPs[i], unused[i]} {
			bed.mustExec(t, lab.Router().Name, "ip", "route", "replace", to.String(), "via", via.String())
			t.Cleanup(func() { _, _ = bed.Exec(cleanup(), lab.Router().Name, "ip", "route", "del", to.String()) })
		}
	}
	rows := []nodeRow{
		{"outside, in the ranges", "", far, balancer, 80, "", 0},
		{"outside, out of the ranges", "", outside, balancer, 80, "spec.loadBalancerSourceRanges, which do not contain", 1},
		{"a pod to the balancer's address", name, inside, balancer, 80, "", 0},
		{"a node to the balancer's address", "node/n1", node, balancer, 80, "", 0},
		{"outside to a port that the service lacks", "", far, balancer, 81, "Service " + s.Namespace + "/tn has no TCP port 81", 1},
		{"a pod to a port that the service lacks", name, inside, balancer, 81, "Service " + s.Namespace + "/tn has no TCP port 81", 1},
		{"a pod to a port that the cluster IP lacks", name, inside, clusterIPs, 81, "Service " + s.Namespace + "/tn has no TCP port 81", 1},
		{"a node to a port that it lacks", "node/n1", node, clusterIPs, 81, "Service " + s.Namespace + "/tn has no TCP port 81", 1},
		{"a pod to a cluster IP of nobody", name, inside, unused, 80, "no Service has the cluster IP", 1},
		{"a node to a cluster IP of nobody", "node/n1", node, unused, 80, "no Service has the cluster IP", 1},
		{"outside to a cluster IP of nobody", "", outside, unused, 80, "no Service has the cluster IP", 1},
	}
	if mode == networkv1alpha1.GatewayShared { // in Local mode the host forwards it, and the reply may come from another node
		rows = append(rows, nodeRow{"outside to a cluster IP", "", outside, clusterIPs, 80, "serves pods and nodes at its cluster IP", 1})
	}
	return rows
}

func (r nodeRow) test(t *testing.T, plugin *weft) {
	for _, to := range r.to {
		from := r.from
		if from == "" {
			machine := lab.Outside()
			if strings.HasSuffix(r.caller.name, lab.Far().Name) {
				machine = lab.Far()
			}
			from = family2(both(machine), to.Is6()).String()
		}
		eventually(t, recoveryTimeout, func() error {
			out, errs, code := plugin.run("", "trace", from, to.String(), "--port", fmt.Sprint(r.port))
			if code != r.code || !strings.Contains(out, r.says) {
				return fmt.Errorf("exit code %d, want %d and %q:\n%s%s", code, r.code, r.says, out, errs)
			}
			became, err := r.caller.callAll(t.Context(), []calls{{Protocol: "tcp", To: netip.AddrPortFrom(to, r.port).String(), Count: 1}})
			if err == nil && r.code < 2 && (became[0][0].Error == "") != (r.code == 0) {
				err = fmt.Errorf("the packet became %+v, and trace says\n%s", became[0][0], out)
			}
			return err
		})
	}
}
