package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"github.com/vishvananda/netlink"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent"
	"github.com/weft-network/weft/pkg/cni/cniwire"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// requester is a pod of the API server that requests networks.
type requester struct {
	pod
	*node
	object *corev1.Pod
	// selected are the groups and sets of policies that select the pod's ports on blue.
	selected []unit.Key
}

// newRequester creates a pod with an annotation, and its port on the cluster network.
func (n *node) newRequester(name string, slot int, annotation string) *requester {
	n.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}
	n.must(ignoreExists(api.Create(n.Context(), namespace)))
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name},
		Spec: corev1.PodSpec{NodeName: nodeName, Containers: []corev1.Container{{Name: "c", Image: "none"}}}}
	metav1.SetMetaDataAnnotation(&object.ObjectMeta, networks.Annotation, annotation)
	n.must(api.Create(n.Context(), object))
	n.Cleanup(func() { n.must(client.IgnoreNotFound(api.Delete(cleanup(), object, client.GracePeriodSeconds(0)))) })
	r := &requester{pod: n.newPod(name, slot), node: n, object: object}
	r.uid = string(object.UID)
	r.giveClusterPort()
	return r
}

// giveClusterPort writes the pod's port on the cluster network as the operator does for the present annotation.
func (r *requester) giveClusterPort() {
	r.Helper()
	r.apply(topology.PodUnit(topology.Pod{Namespace: "demo", Name: r.name, UID: r.uid, Node: nodeName, Chassis: r.status().Chassis,
		Addresses: r.addresses(), MAC: r.mac(), Slot: r.slot, Networks: networks.Generation(r.object.Annotations)}))
}

// givePorts writes the pod's ports on Networks as the operator does for the present annotation. Each gets the
// requested address, or a fixed one.
func (r *requester) givePorts() {
	r.Helper()
	requests, err := networks.Parse(r.object.Annotations, "demo")
	r.must(err)
	var ports []topology.PodPort
	for i, request := range requests {
		if !strings.HasPrefix(request.Element.Name, "blue") {
			continue
		}
		address := netip.MustParsePrefix(fmt.Sprintf("10.100.0.%d/24", 50+i))
		if len(request.Addresses) > 0 {
			address = netip.PrefixFrom(request.Addresses[0].Addr(), 24)
		}
		ports = append(ports, topology.PodPort{Namespace: "demo", Name: r.name, UID: r.uid, Node: nodeName, Chassis: r.status().Chassis,
			Network: blue(), Interface: request.Interface, Request: request.Hash(), Addresses: []netip.Prefix{address},
			MAC: ipam.MAC([]netip.Addr{address.Addr()}), Slot: 16*r.slot + i, Selected: r.selected})
	}
	r.apply(topology.PodPortsUnit("demo", r.name, ports))
}

// request changes the annotation, and then writes what the operator would.
func (r *requester) request(annotation string) {
	r.Helper()
	before := r.object.DeepCopy()
	metav1.SetMetaDataAnnotation(&r.object.ObjectMeta, networks.Annotation, annotation)
	if annotation == "" {
		delete(r.object.Annotations, networks.Annotation)
	}
	r.must(api.Patch(r.Context(), r.object, client.MergeFrom(before)))
	r.giveClusterPort()
	r.givePorts()
}

// annotate changes an annotation, and nothing else.
func (r *requester) annotate(key, value string) {
	r.Helper()
	before := r.object.DeepCopy()
	metav1.SetMetaDataAnnotation(&r.object.ObjectMeta, key, value)
	r.must(api.Patch(r.Context(), r.object, client.MergeFrom(before)))
}

func blue() facts.PodNetwork {
	return facts.PodNetwork{Name: "blue", Topology: networkv1alpha1.TopologyLayer2,
		Subnets: []ipam.Network{{CIDR: netip.MustParsePrefix("10.100.0.0/24")}}, MTU: 1300}
}

// define creates a NetworkAttachmentDefinition.
func (n *node) define(name, config string) *nadv1.NetworkAttachmentDefinition {
	n.Helper()
	nad := &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name},
		Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: config}}
	n.must(ignoreExists(api.Create(n.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}})))
	n.must(api.Create(n.Context(), nad))
	n.Cleanup(func() { n.must(client.IgnoreNotFound(api.Delete(cleanup(), nad))) })
	return nad
}

// links lists the pod's interfaces but lo with their IPv4 addresses: "eth0 10.244.1.5/24".
func (r *requester) links() []string {
	for {
		found, err := r.listLinks()
		if !errors.Is(err, netlink.ErrDumpInterrupted) { // a link has changed meanwhile
			r.must(err)
			return found
		}
	}
}

func (r *requester) listLinks() (found []string, err error) {
	err = inNetNS(r.netNS, func() error {
		links, err := netlink.LinkList()
		for _, link := range links {
			text := link.Attrs().Name
			addresses, err := netlink.AddrList(link, netlink.FAMILY_V4)
			if err != nil {
				return err
			}
			for _, a := range addresses {
				text += " " + a.IPNet.String()
			}
			if text != "lo" && !strings.HasPrefix(text, "lo ") && !strings.HasPrefix(text, "ifb") {
				found = append(found, text)
			}
		}
		return err
	})
	slices.Sort(found)
	return found, err
}

// networkStatus returns the interfaces that network-status names, with their addresses.
func (r *requester) networkStatus() (found []string) {
	var pod corev1.Pod
	r.must(api.Get(r.Context(), client.ObjectKeyFromObject(r.object), &pod))
	var all []nadv1.NetworkStatus
	if text := pod.Annotations[nadv1.NetworkStatusAnnot]; text != "" {
		r.must(json.Unmarshal([]byte(text), &all))
	}
	for _, s := range all {
		found = append(found, fmt.Sprintf("%s %s %s default=%t", s.Name, s.Interface, strings.Join(s.IPs, ","), s.Default))
	}
	return found
}

// wantLinks waits until the pod has these interfaces, and network-status names them.
func (r *requester) wantLinks(links, status string) {
	r.Helper()
	r.until("interfaces "+links, func() error {
		haveLinks, haveStatus := strings.Join(r.links(), "; "), strings.Join(r.networkStatus(), "; ")
		if haveLinks != links || haveStatus != status {
			return fmt.Errorf("links %q, want %q; status %q, want %q", haveLinks, links, haveStatus, status)
		}
		return nil
	})
}

const (
	eth0Link   = "eth0 10.244.1.5/24"
	eth0Status = "weft eth0 10.244.1.5,fd00:10:244:1::5 default=true"
)

// readyNodeWithNetworks returns a node whose agent runs the plugins of package plugins.
func readyNodeWithNetworks(t *testing.T) *node {
	t.Helper()
	state := t.TempDir()
	n := readyNodeWith(t, func(o *agent.Options) { o.State, o.Delegates = state, true })
	n.define("blue", networks.ConfigOf("blue"))
	n.apply(topology.PodNetworkUnit(blue()))
	return n
}

// A pod gets all networks with its sandbox, a running pod gets and loses them, and nothing is left at the end.
func TestNetworksArePlugged(t *testing.T) {
	n := readyNodeWithNetworks(t)
	web := n.newRequester("plugged", 5, "blue")
	answers, _ := n.startAdd(web.pod)
	n.awaitWaitFor(web.pod, names.NetworkPort("blue", "demo", web.name, "net1"), answers, noPort)
	web.givePorts()
	if a := <-answers; a.err != nil {
		t.Fatal(a.err)
	}
	web.wantLinks(eth0Link+"; net1 10.100.0.50/24", eth0Status+"; demo/blue net1 10.100.0.50 default=false")
	n.wantTraffic(web.pod)

	t.Run("another address replaces the interface", func(t *testing.T) {
		web.request(`[{"name":"blue","ips":["10.100.0.99"]}]`)
		web.wantLinks(eth0Link+"; net1 10.100.0.99/24", eth0Status+"; demo/blue net1 10.100.0.99 default=false")
	})
	t.Run("a second interface on the same network", func(t *testing.T) {
		web.request(`[{"name":"blue","ips":["10.100.0.99"]},{"name":"blue","interface":"data"}]`)
		web.wantLinks("data 10.100.0.51/24; "+eth0Link+"; net1 10.100.0.99/24",
			eth0Status+"; demo/blue net1 10.100.0.99 default=false; demo/blue data 10.100.0.51 default=false")
	})
	t.Run("a restart changes nothing", func(t *testing.T) {
		n.stopAgent()
		n.startAgent()
		n.awaitCondition(networkv1alpha1.ConditionReady, metav1.ConditionTrue)
		web.wantLinks("data 10.100.0.51/24; "+eth0Link+"; net1 10.100.0.99/24",
			eth0Status+"; demo/blue net1 10.100.0.99 default=false; demo/blue data 10.100.0.51 default=false")
	})
	t.Run("a change while no agent runs", func(t *testing.T) {
		n.stopAgent()
		web.request(`[{"name":"blue","interface":"data","ips":["10.100.0.51"]}]`)
		n.startAgent()
		n.awaitCondition(networkv1alpha1.ConditionReady, metav1.ConditionTrue)
		web.wantLinks("data 10.100.0.51/24; "+eth0Link, eth0Status+"; demo/blue data 10.100.0.51 default=false")
	})
	t.Run("no annotation", func(t *testing.T) {
		web.request("")
		web.wantLinks(eth0Link, eth0Status)
	})
	n.wantTraffic(web.pod)
	web.request("blue")
	web.wantLinks(eth0Link+"; net1 10.100.0.50/24", eth0Status+"; demo/blue net1 10.100.0.50 default=false")
	n.del(web.pod)
	n.awaitPods()
	if left := n.hostLinks(); len(left) > 0 {
		t.Errorf("links %v are left", left)
	}
}

// Weft called for another interface of a pod, as a meta plugin does without a Network, is refused, and eth0 stays.
func TestASecondInterfaceOnTheClusterNetworkIsRefused(t *testing.T) {
	n := readyNode(t)
	web := n.newPod("single", 5)
	n.givePort(web)
	n.add(web)
	req := web.request(n, cniwire.Add)
	req.IfName = "net1"
	var coded *cniwire.Error
	if _, err := n.send(t.Context(), req); !errors.As(err, &coded) || coded.Code != cniwire.CodeInvalidConfig ||
		!strings.Contains(coded.Msg, "has interface eth0") {
		t.Errorf("ADD of net1: %v", err)
	}
	n.wantTraffic(web)
}

// Weft called for a definition of a Network, as Multus does, attaches the pod's port on the Network beside eth0.
func TestMultusCallsForANetwork(t *testing.T) {
	n := readyNodeWithNetworks(t)
	web := n.newRequester("called", 5, "")
	web.annotate(networks.Annotation, "blue") // the operator leaves the annotation to Multus, and the pod's own port as it is
	web.givePorts()
	n.add(web.pod)
	req := web.pod.request(n, cniwire.Add)
	req.IfName = "net1"
	req.Config = json.RawMessage(strings.Replace(networks.ConfigOf("blue"), "{", fmt.Sprintf(`{"socket":%q,`, n.socket()), 1))
	result, err := n.send(t.Context(), req)
	if err != nil || !strings.Contains(string(result), "10.100.0.50/24") {
		t.Fatalf("ADD of the delegate: %s, %v", result, err)
	}
	const both = eth0Link + "; net1 10.100.0.50/24"
	if links := strings.Join(web.links(), "; "); links != both {
		t.Errorf("links %q", links)
	}
	req.Command = cniwire.Check
	req.Config = json.RawMessage(strings.Replace(string(req.Config), "{", fmt.Sprintf(`{"prevResult":%s,`, result), 1))
	if _, err := n.send(t.Context(), req); err != nil {
		t.Errorf("CHECK of the delegate: %v", err)
	}
	n.stopAgent()
	n.startAgent()
	n.awaitCondition(networkv1alpha1.ConditionReady, metav1.ConditionTrue)
	n.wantTraffic(web.pod)
	if links, status := strings.Join(web.links(), "; "), web.networkStatus(); links != both || len(status) > 0 {
		t.Errorf("after a restart, links %q, status %q: Multus writes it", links, status)
	}
	req.Command = cniwire.Del
	if _, err := n.send(t.Context(), req); err != nil {
		t.Errorf("DEL of the delegate: %v", err)
	}
	n.until("DEL of the delegate", func() error { // an agent that has not read its record yet does it then
		links := strings.Join(web.links(), "; ")
		return isTrue(links == eth0Link, links)
	})
	n.del(web.pod)
	n.awaitPods()
}

// The definition that a pod names for eth0 is the cluster network's, or the pod has no sandbox and an event says why.
func TestTheDefaultNetworkOfAPod(t *testing.T) {
	n := readyNodeWithNetworks(t)
	n.define("cluster", `{"cniVersion":"1.0.0","name":"weft","type":"weft-cni"}`)
	n.define("other", `{"cniVersion":"1.0.0","name":"other","type":"bridge"}`)
	web := n.newRequester("defaulted", 5, "blue")
	web.givePorts()
	for value, want := range map[string]string{
		"demo/other": "demo/other: the definition is not of the cluster network",
		"demo/blue":  "demo/blue: the definition is not of the cluster network",
		"none":       "kube-system/none: the NetworkAttachmentDefinition does not exist",
		"a, b":       "2 definitions are named",
	} {
		web.annotate(networks.DefaultAnnotation, value)
		answers, _ := n.startAdd(web.pod)
		if a := <-answers; a.err == nil || !strings.Contains(a.err.Error(), "annotation "+networks.DefaultAnnotation+": "+want) {
			t.Errorf("%s: ADD: %v, want %q", value, a.err, want)
		}
	}
	if links := web.links(); len(links) > 0 {
		t.Errorf("a refused ADD left %v", links)
	}
	web.annotate(networks.DefaultAnnotation, "demo/cluster")
	n.add(web.pod)
	web.wantLinks(eth0Link+"; net1 10.100.0.50/24", eth0Status+"; demo/blue net1 10.100.0.50 default=false")
	web.request("cluster")
	n.until("the condition", func() error {
		c := web.attachedCondition()
		return isTrue(strings.Contains(c.Message, "demo/cluster@net1: the definition is of the cluster network"), fmt.Sprint(c))
	})
	n.del(web.pod)
}

// plugin builds a plugin of the CNI project into the runtime's folder.
func (n *node) plugin(kind, name string) {
	n.Helper()
	path := n.path("bin", name)
	out, err := exec.Command("go", "build", "-trimpath", "-modfile=../../test/tools/cni/go.mod", "-o", path,
		"github.com/containernetworking/plugins/plugins/"+kind+"/"+name).CombinedOutput()
	if err != nil {
		n.Fatalf("build %s: %v\n%s", name, err, out)
	}
}

// Definitions of other plugins are delegated; all or nothing; a DEL needs no definition.
func TestDelegates(t *testing.T) {
	n := readyNodeWithNetworks(t)
	n.plugin("main", "bridge")
	n.plugin("ipam", "static")
	const bridge = `{"cniVersion":"1.0.0","name":"lab","type":"bridge","bridge":"lab%[1]d",` +
		`"ipam":{"type":"static","addresses":[{"address":"10.50.0.%[1]d/24"}]}}`
	good := n.define("good", fmt.Sprintf(bridge, 1))
	n.define("more", fmt.Sprintf(bridge, 2))
	n.define("bad", `{"cniVersion":"1.0.0","name":"bad","type":"no-such-plugin"}`)
	t.Cleanup(func() {
		for _, name := range []string{"lab1", "lab2"} { // CHECK compares a bridge's MAC, which another port would change
			if link, err := netlink.LinkByName(name); err == nil {
				_ = netlink.LinkDel(link)
			}
		}
	})
	web := n.newRequester("delegating", 5, "good, blue, bad")
	web.givePorts()
	before := n.hostLinks()
	answers, _ := n.startAdd(web.pod)
	if a := <-answers; a.err == nil || !strings.Contains(a.err.Error(), "demo/bad@net3") ||
		!strings.Contains(a.err.Error(), "no-such-plugin") {
		t.Fatalf("ADD with a plugin that does not exist: %v", a.err)
	}
	if links := web.links(); len(links) > 0 || !slices.Equal(n.hostLinks(), before) {
		t.Errorf("a failed ADD left %v and %v", links, n.hostLinks())
	}
	web.request("good, blue, more")
	result := n.add(web.pod)
	web.wantLinks(eth0Link+"; net1 10.50.0.1/24; net2 10.100.0.51/24; net3 10.50.0.2/24",
		eth0Status+"; demo/good net1 10.50.0.1 default=false; demo/blue net2 10.100.0.51 default=false; demo/more net3 10.50.0.2 default=false")
	n.must(api.Delete(t.Context(), good))
	n.gc("weft", []pod{web.pod}) // GC and CHECK need no definition either
	if err := n.check(web.pod, result); err != nil {
		t.Errorf("CHECK: %v", err)
	}
	n.must(inNetNS(web.netNS, func() error {
		link, err := netlink.LinkByName("net1")
		if err != nil {
			return err
		}
		return netlink.LinkDel(link)
	}))
	if err := n.check(web.pod, result); err == nil || !strings.Contains(err.Error(), "interface net1 of demo/good") {
		t.Errorf("CHECK without the link of a delegate: %v", err)
	}
	web.request(`[{"name":"blue","interface":"net2"},{"name":"more","interface":"net3"}]`)
	web.wantLinks(eth0Link+"; net2 10.100.0.50/24; net3 10.50.0.2/24",
		eth0Status+"; demo/blue net2 10.100.0.50 default=false; demo/more net3 10.50.0.2 default=false")
	n.del(web.pod)
	n.awaitPods()
	if links := web.links(); len(links) > 0 {
		t.Errorf("DEL left %v", links)
	}
	if entries, err := os.ReadDir(n.path("state")); err == nil && len(entries) > 0 {
		t.Errorf("records are left: %v", entries)
	}
}

// kubelet answers for the devices of a pod.
type kubelet struct {
	podresources.UnimplementedPodResourcesListerServer
}

// List implements podresources.PodResourcesListerServer.
func (kubelet) List(context.Context, *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	devices := []*podresources.ContainerDevices{{ResourceName: "example.com/vf", DeviceIds: []string{"vf-7"}}}
	return &podresources.ListPodResourcesResponse{PodResources: []*podresources.PodResources{{Namespace: "demo", Name: "device",
		Containers: []*podresources.ContainerResources{{Name: "c", Devices: devices}}}}}, nil
}

// A plugin gets the device that kubelet gave the pod for the definition's resource.
func TestADeviceOfKubelet(t *testing.T) {
	state := t.TempDir()
	socket := filepath.Join(state, "kubelet.sock")
	n := readyNodeWith(t, func(o *agent.Options) { o.State, o.Delegates, o.PodResources = state, true, socket })
	listener, err := net.Listen("unix", socket)
	n.must(err)
	server := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(server, kubelet{})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		<-served
	})
	n.must(os.WriteFile(n.path("bin", "devices"), []byte(`#!/bin/sh
cat >"$(dirname "$0")/config.$CNI_COMMAND"
[ "$CNI_COMMAND" != ADD ] || echo '{"cniVersion":"1.0.0","interfaces":[{"name":"net1","sandbox":"/run/netns/x"}]}'
`), 0o700))
	nad := n.define("vf", `{"cniVersion":"1.0.0","name":"vf","type":"devices"}`)
	metav1.SetMetaDataAnnotation(&nad.ObjectMeta, networks.ResourceAnnotation, "example.com/vf")
	n.must(api.Update(t.Context(), nad))
	web := n.newRequester("device", 5, "vf")
	n.add(web.pod)
	n.del(web.pod)
	for _, verb := range []string{"ADD", "DEL"} {
		config, err := os.ReadFile(n.path("bin", "config."+verb))
		if err != nil || !strings.Contains(string(config), `"deviceID":"vf-7"`) {
			t.Errorf("the plugin's %s has %s, %v", verb, config, err)
		}
	}
	web = n.newRequester("deviceless", 6, "vf")
	answers, _ := n.startAdd(web.pod)
	if a := <-answers; a.err == nil || !strings.Contains(a.err.Error(), "resource example.com/vf: kubelet gave the pod 0 devices") {
		t.Errorf("ADD of a pod without devices: %v", a.err)
	}
}

// A request that cannot be served is named in an event and in the pod's condition, and holds nothing else up.
func TestAFailedPlugIsReported(t *testing.T) {
	n := readyNodeWithNetworks(t)
	web := n.newRequester("plugged", 5, "blue")
	web.givePorts()
	n.add(web.pod)
	web.request(`[{"name":"none","interface":"x"},{"name":"blue","interface":"data"}]`)
	web.wantLinks("data 10.100.0.51/24; "+eth0Link, eth0Status+"; demo/blue data 10.100.0.51 default=false")
	n.until("the condition", func() error {
		c := web.attachedCondition()
		return isTrue(c.Status == corev1.ConditionFalse && strings.Contains(c.Message,
			"demo/none@x: the NetworkAttachmentDefinition does not exist"), fmt.Sprint(c))
	})
	web.request(`[{"name":"blue","interface":"data"}]`)
	n.until("the condition is over", func() error { return isTrue(web.attachedCondition().Status == corev1.ConditionTrue, "it is not") })
}

// attachedCondition returns the pod's condition of its networks.
func (r *requester) attachedCondition() (c corev1.PodCondition) {
	var pod corev1.Pod
	r.must(api.Get(r.Context(), client.ObjectKeyFromObject(r.object), &pod))
	for _, one := range pod.Status.Conditions {
		if one.Type == networkv1alpha1.PodNetworksAttached {
			c = one
		}
	}
	return c
}

// The agents rely on it: a patch of a pod's status with a UID is refused for a pod that was recreated under the name.
func TestAPatchNamesItsPod(t *testing.T) {
	n := readyNode(t)
	web := n.newRequester("patched", 5, "")
	before := web.object.DeepCopy()
	before.ResourceVersion, before.UID, web.object.ResourceVersion = "", "", ""
	other := web.object.DeepCopy()
	other.UID = "another"
	metav1.SetMetaDataAnnotation(&other.ObjectMeta, nadv1.NetworkStatusAnnot, "[]")
	if err := api.Status().Patch(t.Context(), other, client.StrategicMergeFrom(before)); !apierrors.IsInvalid(err) ||
		!strings.Contains(err.Error(), "metadata.uid") {
		t.Errorf("a patch with another UID: %v", err)
	}
	metav1.SetMetaDataAnnotation(&web.object.ObjectMeta, nadv1.NetworkStatusAnnot, "[]")
	if err := api.Status().Patch(t.Context(), web.object, client.StrategicMergeFrom(before)); err != nil {
		t.Errorf("a patch with the pod's UID: %v", err)
	}
}

func ignoreExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// cleanup is a context for what runs after a test's own has ended.
func cleanup() context.Context { return context.Background() }
