//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/test/lab/tools"
)

const (
	// plugsVariable is the environment variable with the number of changes that TestHotPlug makes.
	plugsVariable = "WEFT_E2E_PLUGS"
	plugsDefault  = 30
	// plugsPerFault is the number of changes between two faults.
	plugsPerFault = 20
	// plugTimeout bounds a change. kubelet delays the restart of a container that was killed repeatedly.
	plugTimeout = 6 * time.Minute
)

// plugging is a run of TestHotPlug.
type plugging struct {
	*testing.T
	random *rand.Rand
	pods   []*corev1.Pod
	wire   *nadv1.NetworkAttachmentDefinition
	took   []time.Duration // from annotation to network-status, without faults
}

// TestHotPlug changes what running pods request while their nodes ping them on the cluster network, and kills the agent,
// the operator and containerd meanwhile: no packet to a pod of the same node is lost, network-status is what the pods
// have, and nothing is left at the end.
func TestHotPlug(t *testing.T) {
	t.Run("changes", testHotPlug) // its Networks are gone at its end
	bed.awaitConsistent(t)
}

func testHotPlug(t *testing.T) {
	podNetwork(t, "plug", networkv1alpha1.TopologyLayer2, networkv1alpha1.NetworkSubnet{CIDR: "10.102.0.0/24"},
		networkv1alpha1.NetworkSubnet{CIDR: "fd00:102::/64"})
	podNetwork(t, "route", networkv1alpha1.TopologyLayer3, networkv1alpha1.NetworkSubnet{CIDR: "10.103.0.0/16", HostPrefix: 24})
	f := &plugging{T: t, random: rand.New(rand.NewPCG(1, 2)),
		wire: delegateDefinition(t, "wire", `{"type":"bridge","bridge":"wire0"}`, "main/bridge")}
	must(t, bed.api.Create(t.Context(), f.wire))
	t.Cleanup(func() { must(t, client.IgnoreNotFound(bed.api.Delete(cleanup(), f.wire))) })
	t.Cleanup(func() { removeLink(t, "wire0") })
	for i, annotation := range []string{"", "plug", "route,wire", "plug,route"} {
		f.pods = append(f.pods, requesting(fmt.Sprint("plug-", i), fmt.Sprint("n", 1+i%2), annotation))
	}
	bed.run(t, f.pods...)
	here := []*pings{startHostPings(t, "n1", f.pods[0], f.pods[2]), startHostPings(t, "n2", f.pods[1], f.pods[3])}
	across := startHostPings(t, "n1", f.pods[1], f.pods[3])
	n := plugs(t)
	for i := range n {
		if i%plugsPerFault == plugsPerFault-1 {
			f.disturb(i / plugsPerFault)
			continue
		}
		p := f.pods[f.random.IntN(len(f.pods))]
		f.took = append(f.took, f.change(p, randomRequest(f.random)))
	}
	for _, running := range here {
		running.mustLoseNothing(t)
	}
	f.lostBetweenNodes(across)
	slices.Sort(f.took)
	t.Logf("%d changes; from annotation to network-status: p50 %s, p99 %s", n, f.took[len(f.took)/2], f.took[len(f.took)*99/100])
	for _, p := range f.pods {
		bed.remove(t, p)
	}
	f.nothingLeft()
}

func plugs(t *testing.T) int {
	text := os.Getenv(plugsVariable)
	if text == "" {
		return plugsDefault
	}
	n, err := strconv.Atoi(text)
	must(t, err)
	return n
}

// change gives a pod an annotation and waits until the pod has what it requests.
func (f *plugging) change(p *corev1.Pod, annotation string) time.Duration {
	f.Helper()
	annotate(f.T, p, annotation)
	return eventually(f.T, plugTimeout, func() error { return hasRequested(f.T, p, annotation) })
}

func annotate(t *testing.T, p *corev1.Pod, annotation string) {
	t.Helper()
	must(t, bed.api.Get(t.Context(), client.ObjectKeyFromObject(p), p))
	before := p.DeepCopy()
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, networks.Annotation, annotation)
	must(t, bed.api.Patch(t.Context(), p, client.MergeFrom(before)))
}

// disturb causes one of the faults in turn, and changes a pod of each node at the same moment.
func (f *plugging) disturb(i int) {
	f.Helper()
	faults := []struct {
		name  string
		cause func(*testing.T)
	}{
		{"agent killed", killAgent},
		{"operator killed", killOperator},
		{"definition deleted", f.deleteDefinition},
		{"containerd restarted", restartContainerd},
	}
	fault := faults[i%len(faults)]
	wanted := map[*corev1.Pod]string{}
	for _, p := range f.pods[:2] {
		wanted[p] = randomRequest(f.random)
	}
	began := time.Now()
	fault.cause(f.T)
	for p, annotation := range wanted {
		annotate(f.T, p, annotation)
	}
	for p, annotation := range wanted {
		eventually(f.T, plugTimeout, func() error { return hasRequested(f.T, p, annotation) })
	}
	f.Logf("%s: two changes came true after %s", fault.name, time.Since(began).Round(time.Millisecond))
}

// deleteDefinition deletes a definition of a delegate and a Network's definition. Attachments of the first must go by
// their record when they are unplugged, and the operator must restore the second.
func (f *plugging) deleteDefinition(t *testing.T) {
	t.Helper()
	p := f.pods[3]
	f.change(p, `[{"name":"wire","interface":"wire"},{"name":"plug"}]`)
	must(t, bed.api.Delete(t.Context(), f.wire))
	f.change(p, `[{"name":"plug","interface":"net2"}]`)
	f.wire.ResourceVersion = ""
	must(t, bed.api.Create(t.Context(), f.wire))
	own := &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "plug"}}
	must(t, bed.api.Delete(t.Context(), own))
}

func restartContainerd(t *testing.T) {
	t.Helper()
	for _, node := range []string{"n1", "n2"} {
		init, err := bed.Init(node)
		must(t, err)
		must(t, init.Signal("containerd", syscall.SIGTERM))
		must(t, init.Close())
	}
}

// lostBetweenNodes logs what is lost in the tunnel. The userspace datapath, which a lab without Open vSwitch's kernel
// module uses, reads its routes again at each change of a link, and drops packets to tunnels meanwhile.
func (f *plugging) lostBetweenNodes(running *pings) {
	f.Helper()
	for _, result := range running.stop(f.T) {
		longest := 0
		for _, gap := range result.Gaps {
			longest = max(longest, gap.Lost)
		}
		f.Logf("%d of %d packets through the tunnel to %s are lost, at most %d in a row", result.Lost, result.Sent, result.To, longest)
		if result.Lost > result.Sent/4 {
			f.Errorf("more is lost than the switch itself loses: %+v", result.Gaps)
		}
	}
}

// nothingLeft waits until no trace of the pods is in the database, on the nodes and in the Networks' status.
func (f *plugging) nothingLeft() {
	f.Helper()
	eventually(f.T, readyTimeout, func() error {
		left, err := bed.rows(f.Context(), bed.central, "ovn-nbctl", "logical_switch_port", "name")
		for _, row := range left {
			if name := fmt.Sprint(row["name"]); strings.HasPrefix(name, "plug_") || strings.HasPrefix(name, "route_") {
				return fmt.Errorf("port %s is left", name)
			}
		}
		return err
	})
	for _, node := range []string{"n1", "n2"} {
		eventually(f.T, readyTimeout, func() error {
			out, err := bed.Exec(f.Context(), node, "sh", "-c",
				"find /var/lib/weft/networks -type f; ip -o link show master wire0 2>/dev/null; true")
			if text := strings.TrimSpace(string(out)); text != "" {
				return fmt.Errorf("node %s has %s", node, text)
			}
			return err
		})
	}
	for _, name := range []string{"plug", "route"} {
		eventually(f.T, readyTimeout, func() error {
			n := &networkv1alpha1.Network{}
			err := bed.api.Get(f.Context(), client.ObjectKey{Name: name}, n)
			if n.Status.Attachments != 0 {
				return fmt.Errorf("Network %s counts %d attachments", name, n.Status.Attachments)
			}
			return err
		})
	}
}

// randomRequest returns an annotation with some of three networks, at times with requested addresses, a requested MAC
// or another name of the interface.
func randomRequest(r *rand.Rand) string {
	var elements []string
	if r.IntN(2) == 0 {
		elements = append(elements, `{"name":"wire","interface":"wire"}`)
	}
	for _, network := range []string{"plug", "route"} {
		switch r.IntN(4) {
		case 0:
		case 1:
			elements = append(elements, fmt.Sprintf(`{"name":%q}`, network))
		case 2:
			elements = append(elements, fmt.Sprintf(`{"name":%q,"interface":"data%d"}`, network, len(elements)))
		case 3:
			if network == "route" { // its addresses depend on the node
				elements = append(elements, fmt.Sprintf(`{"name":"route","mac":"02:00:00:00:03:%02x"}`, r.IntN(256)))
				continue
			}
			host := 0x100 + r.IntN(0x60)
			elements = append(elements, fmt.Sprintf(`{"name":"plug","ips":["10.102.0.%d","fd00:102::%x"]}`, host-0x80, host))
		}
	}
	return "[" + strings.Join(elements, ",") + "]"
}

// hasRequested returns an error unless network-status has what the annotation requests, and the pod has these links and
// addresses and no others.
func hasRequested(t *testing.T, p *corev1.Pod, annotation string) error {
	status, err := networkStatus(t, p)
	if err != nil {
		return err
	}
	requests, err := networks.Parse(map[string]string{networks.Annotation: annotation}, p.Namespace)
	must(t, err)
	want := []string{"eth0"}
	for _, request := range requests {
		want = append(want, request.Interface)
		have := status[request.Interface]
		for _, address := range request.Addresses {
			if !slices.Contains(have, address.Addr().String()) {
				return fmt.Errorf("%s: network-status is %v, want %s", p.Name, status, request)
			}
		}
		if len(have) == 0 && request.Element.Name != "wire" {
			return fmt.Errorf("%s: network-status is %v, without addresses of %s", p.Name, status, request)
		}
	}
	slices.Sort(want)
	if have := slices.Sorted(maps.Keys(status)); !slices.Equal(have, want) {
		return fmt.Errorf("%s: network-status has %v, want %v", p.Name, have, want)
	}
	inside, err := addressesIn(t.Context(), p)
	if err != nil {
		return err
	}
	for ifName := range status {
		slices.Sort(status[ifName])
	}
	if !maps.EqualFunc(status, inside, slices.Equal) {
		return fmt.Errorf("%s: network-status is %v, the pod has %v", p.Name, status, inside)
	}
	return nil
}

// addressesIn reads the addresses of a pod's links, without the loopback and link-local ones: interface -> addresses.
func addressesIn(ctx context.Context, p *corev1.Pod) (map[string][]string, error) {
	out, err := bed.in(ctx, p, "sh", "-c", "ls /sys/class/net; echo; ip -o addr")
	if err != nil {
		return nil, err
	}
	links, addresses, _ := strings.Cut(string(out), "\n\n")
	found := map[string][]string{}
	for _, link := range strings.Fields(links) {
		if link != "lo" && !strings.HasPrefix(link, "ifb") {
			found[link] = nil
		}
	}
	for line := range strings.Lines(addresses) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[2], "inet") {
			continue
		}
		prefix, err := netip.ParsePrefix(fields[3])
		if _, known := found[fields[1]]; err == nil && known && !prefix.Addr().IsLinkLocalUnicast() {
			found[fields[1]] = append(found[fields[1]], prefix.Addr().String())
		}
	}
	for ifName := range found {
		slices.Sort(found[ifName])
	}
	return found, nil
}

// delegateDefinition installs plugins of the CNI project on the nodes and returns a definition that delegates to them.
func delegateDefinition(t *testing.T, name, config string, plugins ...string) *nadv1.NetworkAttachmentDefinition {
	t.Helper()
	for _, plugin := range plugins {
		installPlugin(t, plugin)
	}
	return &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: strings.Replace(config, "{", `{"cniVersion":"1.0.0","name":"`+name+`",`, 1)}}
}

func removeLink(t *testing.T, link string) {
	for _, node := range []string{"n1", "n2"} {
		_, err := bed.Exec(cleanup(), node, "sh", "-c", `[ ! -e "/sys/class/net/$0" ] || ip link del "$0"`, link)
		must(t, err)
	}
}

// installPlugin builds a plugin of the CNI project and puts it where runtimes look for plugins.
func installPlugin(t *testing.T, pkg string) {
	t.Helper()
	root, err := tools.SourceRoot()
	must(t, err)
	file, installed := filepath.Join(bed.peerDir, path.Base(pkg)), "/opt/cni/bin/"+path.Base(pkg)
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-modfile=test/tools/cni/go.mod", "-o", file,
		"github.com/containernetworking/plugins/plugins/"+pkg)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, text)
	}
	for _, node := range []string{"n1", "n2"} {
		bed.mustExec(t, node, "cp", file, installed)
		t.Cleanup(func() {
			_, err := bed.Exec(cleanup(), node, "rm", "-f", installed)
			must(t, err)
		})
	}
}
