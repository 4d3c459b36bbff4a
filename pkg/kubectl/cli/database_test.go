package cli

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/install/beside"
	"github.com/weft-network/weft/pkg/install/rebuild"
)

// The databases are files and sockets of one host. On another host the command would fail half-way.
func TestRebuildRunsWhereTheDatabasesAre(t *testing.T) {
	var out, errs bytes.Buffer
	if code := Run([]string{"db", "rebuild"}, nil, &out, &errs); code != exitError || !strings.Contains(errs.String(), "--local") {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
	errs.Reset()
	args := []string{"db", "rebuild", "--local", "-o", "yaml"}
	if code := Run(args, nil, &out, &errs); code != exitError || !strings.Contains(errs.String(), "yaml") {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
}

func TestChassisOfNodeNetworks(t *testing.T) {
	node := func(name string, ready corev1.ConditionStatus) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
		return n
	}
	network := func(name, chassis, address string) networkv1alpha1.NodeNetwork {
		nn := networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: name}}
		nn.Status.Chassis, nn.Status.EncapIP = chassis, networkv1alpha1.IP(address)
		return nn
	}
	got := chassisOf([]corev1.Node{node("a", corev1.ConditionFalse), node("b", corev1.ConditionUnknown)}, []networkv1alpha1.NodeNetwork{
		network("a", "id-a", "192.0.2.1"), network("b", "id-b", "2001:db8::2"), network("gone", "id-c", "192.0.2.3"),
		network("new", "", ""), network("without an address", "id-d", ""),
	})
	want := []beside.Chassis{
		// A node that is not Ready, perhaps because of its network, still has a kubelet and so an ovn-controller.
		{Name: "id-a", Hostname: "a", EncapType: "geneve", EncapIP: "192.0.2.1", Alive: true},
		{Name: "id-b", Hostname: "b", EncapType: "geneve", EncapIP: "2001:db8::2"},
		{Name: "id-c", Hostname: "gone", EncapType: "geneve", EncapIP: "192.0.2.3"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("chassis: %+v, want %+v", got, want)
	}
}

func TestPortsOfPods(t *testing.T) {
	pod := func(name, ip string, change func(*corev1.Pod)) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}}
		if ip != "" {
			p.Status.PodIPs = []corev1.PodIP{{IP: ip}}
		}
		if change != nil {
			change(&p)
		}
		return p
	}
	got := portsOf([]corev1.Pod{
		pod("runs", "192.0.2.1", nil), pod("waits", "", nil),
		pod("host", "192.0.2.2", func(p *corev1.Pod) { p.Spec.HostNetwork = true }),
		pod("done", "192.0.2.3", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
		pod("failed", "192.0.2.4", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
	})
	if want := []string{"demo_runs"}; !slices.Equal(got, want) {
		t.Errorf("ports: %v, want %v", got, want)
	}
}

func TestRebuildIsPrinted(t *testing.T) {
	var out bytes.Buffer
	printStep(&out, rebuild.Step{Name: "seed chassis", Detail: "2 chassis", Seconds: 0.0584})
	printStep(&out, rebuild.Step{Name: "swap", Seconds: 1, Error: errors.New("broken").Error()})
	printReport(&out, rebuild.Report{Seconds: 1.34, PausedSeconds: 0.54, Silent: []string{"n2"}, Unbound: []string{"demo_web-0"},
		Previous: []string{"/f.before-rebuild"}})
	want := `  0.058s  seed chassis                     2 chassis
  1.000s  swap                             FAILED
silent chassis: n2
no longer bound: demo_web-0
previous file: /f.before-rebuild
rebuilt in 1.3 s; ovn-northd paused for 0.5 s
`
	if out.String() != want {
		t.Errorf("printed:\n%s\nwant\n%s", out.String(), want)
	}
}
