//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/cni/cniwire"
	"github.com/weft-network/weft/pkg/ipam"
)

func TestBadClusterNetworkIsRefused(t *testing.T) {
	for _, test := range []struct {
		name, cidr string
		says       []string
	}{
		{"overlap with pods", "10.244.128.0/17", []string{"10.244.0.0/16", "10.244.128.0/17"}},
		{"overlap with services", "10.96.64.0/18", []string{"status.serviceNetwork 10.96.0.0/16"}},
		{"overlap with the join switch", "100.64.0.0/20", []string{"100.64.0.0/16", "100.64.0.0/20"}},
		{"malformed", "10.300.0.0/16", []string{"10.300.0.0/16"}},
		{"host bits", "10.250.1.0/16", []string{"10.250.1.0/16"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var cn networkv1alpha1.ClusterNetwork
			must(t, bed.api.Get(t.Context(), types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, &cn))
			cn.Spec.ClusterNetwork = append(cn.Spec.ClusterNetwork,
				networkv1alpha1.ClusterNetworkEntry{CIDR: networkv1alpha1.CIDR(test.cidr), HostPrefix: 24})
			err := bed.api.Update(t.Context(), &cn, client.DryRunAll)
			if !apierrors.IsInvalid(err) {
				t.Fatalf("the API server says %v, want invalid", err)
			}
			for _, text := range test.says {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("the API server does not name %s: %v", text, err)
				}
			}
		})
	}
}

// TestExhaustedNode fills a node's subnet. The node exists only in the API, so no kubelet has to run its pods.
func TestExhaustedNode(t *testing.T) {
	const name = "full"
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	bed.create(t, node)
	subnet := adoptNode(t, name)
	capacity := int(ipam.Capacity(subnet))
	t.Cleanup(func() { removeBoundPods(t, name) })
	must(t, createBoundPods(t.Context(), name, capacity+1))

	var event corev1.Event
	eventually(t, convergence, func() (err error) {
		event, err = warning(t.Context(), "FailedAddressAllocation")
		return err
	})
	if event.Type != corev1.EventTypeWarning || !strings.Contains(event.Message, subnet.String()) ||
		!strings.Contains(event.Message, fmt.Sprint(capacity)) {
		t.Errorf("event %s: %s; want a warning with the subnet %s and the count %d", event.Type, event.Message, subnet, capacity)
	}
	waiting := event.InvolvedObject.Name
	eventually(t, convergence, func() error { return portsOfNode(t.Context(), name, capacity) })

	bed.run(t, bed.peerPod("elsewhere", "n1")) // other nodes are not affected

	victim := fmt.Sprintf("%s-%d", name, 0)
	if victim == waiting {
		victim = fmt.Sprintf("%s-%d", name, 1)
	}
	now := int64(0)
	must(t, bed.api.Delete(t.Context(), bed.peerPod(victim, name), &client.DeleteOptions{GracePeriodSeconds: &now}))
	took := eventually(t, 2*time.Minute, func() error {
		ports, err := bed.ports(t.Context())
		if err == nil && ports[portOf(bed.peerPod(waiting, name))] == nil {
			err = fmt.Errorf("pod %s still has no address", waiting)
		}
		return err
	})
	t.Logf("the waiting pod got the freed address after %s", milliseconds(took))
}

// adoptNode reports a chassis for a node in place of its missing agent, and returns the node's IPv4 subnet.
func adoptNode(t *testing.T, name string) netip.Prefix {
	t.Helper()
	var nn networkv1alpha1.NodeNetwork
	api := asAgent(t, name)
	eventually(t, convergence, func() error {
		if err := bed.api.Get(t.Context(), types.NamespacedName{Name: name}, &nn); err != nil {
			return err
		}
		if len(nn.Spec.PodSubnets) == 0 {
			return errors.New("the node has no subnet")
		}
		before := nn.DeepCopy()
		nn.Status.Chassis = name
		return api.Status().Patch(t.Context(), &nn, client.MergeFrom(before))
	})
	for _, cidr := range nn.Spec.PodSubnets {
		if subnet, err := cidr.Prefix(); err == nil && subnet.Addr().Is4() {
			return subnet
		}
	}
	t.Fatalf("node %s has subnets %v, want an IPv4 subnet", name, nn.Spec.PodSubnets)
	return netip.Prefix{}
}

func createBoundPods(ctx context.Context, node string, count int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(20)
	for i := range count {
		group.Go(func() error {
			p := bed.peerPod(fmt.Sprintf("%s-%d", node, i), node)
			p.Labels = map[string]string{"app": node}
			return bed.api.Create(ctx, p)
		})
	}
	return group.Wait()
}

func removeBoundPods(t *testing.T, node string) {
	now := int64(0)
	err := bed.api.DeleteAllOf(cleanup(), &corev1.Pod{}, client.InNamespace(namespace), client.MatchingLabels{"app": node},
		&client.DeleteAllOfOptions{DeleteOptions: client.DeleteOptions{GracePeriodSeconds: &now}})
	if err != nil {
		t.Error(err)
	}
}

func warning(ctx context.Context, reason string) (corev1.Event, error) {
	var events corev1.EventList
	if err := bed.api.List(ctx, &events, client.InNamespace(namespace)); err != nil {
		return corev1.Event{}, err
	}
	for _, e := range events.Items {
		if e.Reason == reason {
			return e, nil
		}
	}
	return corev1.Event{}, fmt.Errorf("no event with reason %s", reason)
}

func portsOfNode(ctx context.Context, node string, want int) error {
	ports, err := bed.ports(ctx)
	if err != nil {
		return err
	}
	have := 0
	for _, p := range ports {
		if p.pairs("options")["requested-chassis"] == node && p.pairs("external_ids")["pod"] == "true" {
			have++
		}
	}
	if have != want {
		return fmt.Errorf("node %s has %d pod ports, want %d", node, have, want)
	}
	return nil
}

// TestGarbage checks that malformed requests harm neither the agent nor its pods.
func TestGarbage(t *testing.T) {
	a, b := bed.peerPod("garbage-1", "n1"), bed.peerPod("garbage-2", "n2")
	bed.run(t, a, b)
	before, err := bed.pod(t.Context(), agent, "n1")
	must(t, err)
	t.Run("on the socket", testGarbageOnSocket)
	t.Run("to the plugin", testGarbageToPlugin)
	bed.mustReach(t, a, b)
	bed.run(t, bed.peerPod("garbage-3", "n1"))
	after, err := bed.pod(t.Context(), agent, "n1")
	must(t, err)
	if after.UID != before.UID || restarts(after) != restarts(before) {
		t.Errorf("the agent restarted: %d restarts, before %d", restarts(after), restarts(before))
	}
}

func restarts(p *corev1.Pod) (n int32) {
	for _, s := range p.Status.ContainerStatuses {
		n += s.RestartCount
	}
	return n
}

func testGarbageOnSocket(t *testing.T) {
	for _, test := range []struct {
		name, sent string
		code       uint // 0: the agent closes the connection without an answer
	}{
		{"nothing", "", 0},
		{"a truncated length", "\x00\x00", cniwire.CodeDecodingFailure},
		{"a length without a message", "\x00\x00\x00\x10ab", cniwire.CodeDecodingFailure},
		{"a length beyond the limit", "\xff\xff\xff\xff", cniwire.CodeDecodingFailure},
		{"no JSON", "\x00\x00\x00\x04nope", cniwire.CodeDecodingFailure},
		{"another type", "\x00\x00\x00\x02[]", cniwire.CodeDecodingFailure},
		{"another version", "\x00\x00\x00\x0e{\"version\":99}", cniwire.CodeTryAgainLater},
		{"noise", strings.Repeat("\x07\xa5\x00\x13", 4096), cniwire.CodeDecodingFailure},
	} {
		t.Run(test.name, func(t *testing.T) {
			cmd, err := bed.Command(t.Context(), "n1", bed.peerDir+"/peer", "socket", "/run/weft/cni.sock")
			must(t, err)
			cmd.Stdin = strings.NewReader(test.sent)
			out, err := cmd.Output()
			must(t, err)
			var response cniwire.Response
			err = cniwire.Read(bytes.NewReader(out), &response)
			switch {
			case test.code == 0 && len(out) == 0:
			case err != nil:
				t.Errorf("the agent answered %q: %v, want no answer", out, err)
			case response.Error == nil || response.Error.Code != test.code:
				t.Errorf("the agent answered %s, want code %d", out, test.code)
			}
		})
	}
}

func testGarbageToPlugin(t *testing.T) {
	const good = `{"cniVersion":"1.0.0","name":"weft","type":"weft-cni","socket":"/run/weft/cni.sock"}`
	pod := []string{"CNI_CONTAINERID=garbage", "CNI_IFNAME=eth0", "CNI_PATH=/opt/cni/bin", "CNI_NETNS=/run/netns/none",
		"CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=e2e;K8S_POD_NAME=garbage;K8S_POD_UID=garbage"}
	for _, test := range []struct {
		name, command, stdin string
		env                  []string
		code                 uint
	}{
		{"no JSON", "ADD", "nope", pod, cniwire.CodeDecodingFailure},
		{"nothing", "ADD", "", pod, cniwire.CodeDecodingFailure},
		{"no variables", "ADD", good, nil, cniwire.CodeInvalidEnvironment},
		{"an unknown command", "STEAL", good, pod, cniwire.CodeInvalidEnvironment},
		{"a network namespace that does not exist", "ADD", good, append(pod, "CNI_NETNS=/etc/passwd"), cniwire.CodeInvalidEnvironment},
		{"an invalid interface name", "ADD", good, append(pod, "CNI_IFNAME=../eth0"), cniwire.CodeInvalidEnvironment},
		{"an invalid pod name", "ADD", good,
			append(pod, "CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=e2e;K8S_POD_NAME=UP_down"),
			cniwire.CodeInvalidEnvironment},
	} {
		t.Run(test.name, func(t *testing.T) {
			argv := append([]string{"env", "CNI_COMMAND=" + test.command}, test.env...)
			cmd, err := bed.Command(t.Context(), "n1", append(argv, "/opt/cni/bin/weft-cni")...)
			must(t, err)
			cmd.Stdin = strings.NewReader(test.stdin)
			out, err := cmd.Output()
			var exit *exec.ExitError
			if !errors.As(err, &exit) {
				t.Fatalf("the plugin returned %v and %s, want a failure", err, out)
			}
			var printed cniwire.Error
			if err := json.Unmarshal(out, &printed); err != nil || printed.Code != test.code || printed.Msg == "" {
				t.Errorf("the plugin printed %s, want code %d", out, test.code)
			}
		})
	}
}
