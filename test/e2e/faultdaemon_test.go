//go:build e2e

package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/health"
	"github.com/weft-network/weft/pkg/ports"
	"github.com/weft-network/weft/test/lab"
	"github.com/weft-network/weft/test/lab/pki"
)

const (
	wholeNetwork = "ClusterNetwork/default"
	ofNodes      = networkv1alpha1.AreaNodes
	ofDatabases  = networkv1alpha1.AreaDatabases
)

// daemonFaults are daemons that stop or hang, and daemons that lose their connections.
func daemonFaults(t *testing.T) []fault {
	away, lost := networkv1alpha1.ReasonDatabaseUnavailable, networkv1alpha1.ReasonNodeLost
	home := bed.operatorNode(t)
	far := other(home) // the operator's own node must keep its link, or nothing reports the fault
	return []fault{
		{name: "ovn-controller killed", area: ofNodes, reason: networkv1alpha1.ReasonControllerUnavailable,
			object: "NodeNetwork/n1", inject: stopped("n1", "ovn-controller")},
		{name: "ovn-controller hangs", area: ofNodes, reason: networkv1alpha1.ReasonControllerUnavailable,
			object: "NodeNetwork/n1", inject: frozen("n1", controller)},
		{name: "ovn-controller cut off from the southbound database", area: ofNodes, reason: away,
			object: "NodeNetwork/n1", says: "ovn-controller does not reach", inject: controllerCutOff},
		{name: "ovn-controller with a stranger's certificate", area: ofNodes, reason: away, object: "NodeNetwork/n1",
			says: "ovn-controller does not reach", inject: strangersCertificate, slow: true},
		{name: "agent cut off from the southbound database", area: ofNodes, reason: away, object: "NodeNetwork/n1",
			says: "is not connected", inject: blocked("n1", ports.SouthboundReader)},
		{name: "agent cannot start", area: ofNodes, reason: networkv1alpha1.ReasonAgentUnavailable, object: "Node/n1", inject: imageGone},
		// The node's link is on its bridge, so no component on the node can report anything: its silence is the
		// symptom.
		{name: "ovs-vswitchd killed", area: ofNodes, reason: lost, object: "Node/" + far, inject: stopped(far, "ovs-vswitchd")},
		{name: "Open vSwitch's ovsdb-server killed", area: ofNodes, reason: lost, object: "Node/" + far,
			inject: stopped(far, "ovsdb-server"), slow: true},
		{name: "kubelet killed", area: ofNodes, reason: lost, object: "Node/n1", inject: stopped("n1", "kubelet"), slow: true},
		{name: "node's link down", area: ofNodes, reason: lost, object: "Node/" + far, inject: linkDown(far), slow: true},
		{name: "northbound server killed", area: ofDatabases, reason: away, object: wholeNetwork, says: "northbound",
			inject: stopped("cp", "nb")},
		{name: "northbound server hangs", area: ofDatabases, reason: away, object: wholeNetwork, says: "northbound",
			inject: frozen("cp", northbound)},
		{name: "operator cut off from the northbound database", area: ofDatabases, reason: away, object: wholeNetwork,
			says: "northbound", inject: blocked(home, ports.Northbound)},
		{name: "southbound server killed", area: ofDatabases, reason: away, object: wholeNetwork, says: "southbound",
			inject: stopped("cp", "sb")},
		{name: "southbound server hangs", area: ofDatabases, reason: away, object: wholeNetwork, says: "southbound",
			inject: frozen("cp", southbound)},
		{name: "ovn-northd killed", area: networkv1alpha1.AreaControlPlane,
			reason: networkv1alpha1.ReasonNorthdSilent, object: wholeNetwork,
			inject: northdSilent(stopped("cp", "northd")), slow: true},
		{name: "ovn-northd left paused", area: networkv1alpha1.AreaControlPlane,
			reason: networkv1alpha1.ReasonNorthdSilent, object: wholeNetwork, inject: northdSilent(paused),
			slow: true},
		{name: "no operator", area: networkv1alpha1.AreaControlPlane, reason: health.ReasonNoLeader,
			object: "Deployment/weft-operator", inject: noOperator, slow: true, unwritten: true},
	}
}

// stopped keeps a daemon down.
func stopped(machine, name string) func(*wound) {
	return func(w *wound) {
		w.cure(func() { must(w.T, bed.Start(machine, name)) })
		must(w.T, bed.Stop(machine, name, syscall.SIGKILL))
	}
}

// frozen stops a daemon with SIGSTOP: its connections stay open.
func frozen(machine string, d daemon) func(*wound) {
	return func(w *wound) {
		w.cure(func() { bed.signal(w.T, machine, d, syscall.SIGCONT) })
		bed.signal(w.T, machine, d, syscall.SIGSTOP)
	}
}

// blocked drops what a node's programs send to a TCP port without a reset, so that connections are half open.
func blocked(node string, port int) func(*wound) {
	return func(w *wound) {
		w.cure(func() { w.on(node, "nft", "delete table inet weft-fault") })
		w.on(node, "nft",
			"add table inet weft-fault; add chain inet weft-fault out { type filter hook output priority 0; }; add "+
				"rule inet weft-fault out tcp dport "+strconv.Itoa(port)+" drop")
	}
}

// controllerCutOff closes the port for ovn-controller only, and makes all clients reconnect. ovn-controller itself
// would probe its connection only after minutes.
func controllerCutOff(w *wound) {
	blocked("n1", ports.Southbound)(w)
	reconnectSouthbound(w)
}

func reconnectSouthbound(w *wound) {
	w.on("cp", "ovs-appctl", "-t", "/run/ovn/ovnsb_db.ctl", "ovsdb-server/reconnect")
}

func linkDown(node string) func(*wound) {
	return func(w *wound) {
		w.cure(func() { w.on(node, "ip", "link", "set", "eth0", "up") })
		w.on(node, "ip", "link", "set", "eth0", "down")
	}
}

func paused(w *wound) {
	northd := func(command string) { w.on("cp", "ovn-appctl", "-t", "ovn-northd", command) }
	w.cure(func() { northd("resume") })
	northd("pause")
}

// northdSilent also changes a service's endpoints repeatedly, because the operator checks ovn-northd after it wrote to the
// northbound database, at most once a minute.
func northdSilent(inject func(*wound)) func(*wound) {
	return func(w *wound) {
		inject(w)
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fault"},
			Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
		slice := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"198.51.100.10"}}}}
		slice.Namespace, slice.Name, slice.Labels = namespace, "fault", map[string]string{discoveryv1.LabelServiceName: "fault"}
		port := int32(80)
		slice.Ports = []discoveryv1.EndpointPort{{Port: &port}}
		w.create(service, slice)
		w.again(5*time.Second, func() error {
			before := client.MergeFrom(slice.DeepCopy())
			port = 161 - port // 80 or 81
			return bed.api.Patch(cleanup(), slice, before)
		})
	}
}

// imageGone removes the product's image from a node before its agent restarts. No registry has the image.
func imageGone(w *wound) {
	const node, kept = "n1", "weft.invalid/kept:dev"
	images := func(argv ...string) { w.on(node, append([]string{"ctr", "images"}, argv...)...) }
	restart := func() {
		pod, err := bed.pod(cleanup(), agent, node)
		if err == nil {
			err = client.IgnoreNotFound(bed.api.Delete(cleanup(), pod))
		}
		must(w.T, err)
	}
	images("tag", lab.ProductRef, kept)
	w.cure(func() {
		images("tag", "--force", kept, lab.ProductRef)
		images("rm", kept)
		restart() // otherwise kubelet retries only after its back-off
	})
	images("rm", lab.ProductRef)
	restart()
}

// strangersCertificate gives a node's ovn-controller a key pair signed by another authority, and makes all clients
// reconnect.
func strangersCertificate(w *wound) {
	const pair = "ovn-n1"
	stranger, err := pki.NewAuthority("stranger", time.Now())
	must(w.T, err)
	was := map[string][]byte{}
	for _, file := range []string{pair + ".key", pair + ".crt"} {
		was[file], err = os.ReadFile(filepath.Join(pkiDir(), file))
		must(w.T, err)
	}
	w.cure(func() {
		must(w.T, bed.RotateSouthbound(cleanup(), func(dir string) (failed error) {
			for file, text := range was {
				failed = errors.Join(failed, os.WriteFile(filepath.Join(dir, file), text, 0o600))
			}
			return failed
		}))
	})
	must(w.T, bed.RotateSouthbound(w.Context(), func(dir string) error { return sign(stranger, dir, pair, pki.Subject{Name: "n1"}) }))
	reconnectSouthbound(w)
}

func noOperator(w *wound) {
	scale := func(replicas string) {
		_, err := bed.Kubectl(cleanup(), "-n", product, "scale", "deployment", "weft-operator", "--replicas="+replicas)
		must(w.T, err)
	}
	w.cure(func() { scale("1") })
	scale("0")
}
