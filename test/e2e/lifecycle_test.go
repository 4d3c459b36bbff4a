//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// TestPodOfTheSameName checks that a StatefulSet's pod that returns under the same name is another pod with a port
// of its own.
func TestPodOfTheSameName(t *testing.T) {
	other := bed.peerPod("same-other", "n2")
	bed.run(t, other)
	bed.create(t, statefulSet("same"))
	first := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "same-0"}}
	bed.awaitReady(t, first)
	before := portRow(t, first)
	must(t, bed.api.Delete(t.Context(), first))

	second := &corev1.Pod{ObjectMeta: first.ObjectMeta}
	eventually(t, readyTimeout, func() error {
		if err := bed.api.Get(t.Context(), client.ObjectKeyFromObject(first), second); err != nil {
			return err
		}
		if second.UID == first.UID {
			return errors.New("the first pod still exists")
		}
		return notReady(second)
	})
	after := portRow(t, second)
	if after.uuid("_uuid") == before.uuid("_uuid") || after.pairs("options")["iface-id-ver"] != string(second.UID) {
		t.Errorf("the port of the second pod (UID %s) is %v, the first pod's was %v", second.UID, after, before)
	}
	bed.mustReach(t, second, other)
	bed.awaitConsistent(t)
}

func statefulSet(name string) *appsv1.StatefulSet {
	like := bed.peerDeployment(name, 1)
	s := &appsv1.StatefulSet{ObjectMeta: like.ObjectMeta}
	s.Spec.Replicas, s.Spec.Selector, s.Spec.Template = like.Spec.Replicas, like.Spec.Selector, like.Spec.Template
	s.Spec.Template.Spec.NodeName = "n1"
	return s
}

func portRow(t *testing.T, p *corev1.Pod) row {
	t.Helper()
	ports, err := bed.ports(t.Context())
	must(t, err)
	port, ok := ports[portOf(p)]
	if !ok {
		t.Fatalf("pod %s has no port", p.Name)
	}
	return port
}

// TestStaticPod runs a static pod: kubelet gives the CNI plugin the UID of the pod's file, and the API has the UID
// of its mirror.
func TestStaticPod(t *testing.T) {
	const node, dir = "n1", "/etc/weft-lab/static"
	bed.mustExec(t, node, "mkdir", "-p", dir)
	bed.mustExec(t, node, "sh", "-c",
		"grep -q staticPodPath /etc/weft-lab/kubelet.yaml || { echo staticPodPath: "+dir+" >> /etc/weft-lab/kubelet.yaml; }")
	must(t, bed.Kill(node, "kubelet")) // kubelet reads its configuration only when it starts
	spec := bed.peerPod("static", "")
	spec.APIVersion, spec.Kind = "v1", "Pod"
	text, err := json.Marshal(spec)
	must(t, err)
	cmd, err := bed.Command(t.Context(), node, "sh", "-c", "cat > "+dir+"/static.json")
	must(t, err)
	cmd.Stdin = bytes.NewReader(text)
	must(t, cmd.Run())

	mirror, other := bed.peerPod("static-"+node, node), bed.peerPod("static-other", "n2")
	t.Cleanup(func() { bed.remove(t, mirror) }) // remove waits until kubelet releases the pod
	t.Cleanup(func() {
		if _, err := bed.Exec(cleanup(), node, "rm", "-f", dir+"/static.json"); err != nil {
			t.Error(err)
		}
	})
	bed.run(t, other)
	bed.awaitReady(t, mirror)
	if hash := mirror.Annotations["kubernetes.io/config.hash"]; hash == string(mirror.UID) || hash == "" {
		t.Errorf("the mirror pod has hash %q and UID %q", hash, mirror.UID)
	}
	bed.mustReach(t, mirror, other)
	bed.awaitConsistent(t)
}

func TestHostNetworkPodHasNoPort(t *testing.T) {
	p := bed.peerPod("host-network", "n1")
	p.Spec.HostNetwork = true
	bed.run(t, p)
	ports, err := bed.ports(t.Context())
	must(t, err)
	if port, ok := ports[portOf(p)]; ok {
		t.Errorf("the pod has port %v, want no port", port)
	}
	bed.awaitConsistent(t)
}

// TestEndedPodsReleaseTheirAddresses checks that a Job's ended pods, which stay in the API, release their addresses.
func TestEndedPodsReleaseTheirAddresses(t *testing.T) {
	three := int32(3)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ends"}}
	job.Spec.Completions, job.Spec.Parallelism = &three, &three
	job.Spec.Template.Spec = bed.peerSpec("")
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	job.Spec.Template.Spec.Containers[0].Command = []string{"cat", "/sys/class/net/eth0/mtu"} // fails without a network
	job.Spec.Template.Spec.Containers[0].ReadinessProbe = nil
	bed.create(t, job)
	var pods []corev1.Pod
	eventually(t, readyTimeout, func() (err error) {
		pods, err = bed.pods(t.Context(), client.InNamespace(namespace), client.MatchingLabels{"job-name": job.Name})
		if err == nil && (len(pods) != 3 || slices.ContainsFunc(pods, func(p corev1.Pod) bool {
			return p.Status.Phase != corev1.PodSucceeded
		})) {
			err = fmt.Errorf("the job's %d pods have not succeeded", len(pods))
		}
		return err
	})
	bed.awaitConsistent(t) // it compares the counts with the pods that have not ended
	ports, err := bed.ports(t.Context())
	must(t, err)
	for i := range pods {
		if _, ok := ports[portOf(&pods[i])]; ok {
			t.Errorf("pod %s has ended and still has a port", pods[i].Name)
		}
	}
}

func TestPodRecord(t *testing.T) {
	p, plain := bed.peerPod("record", "n1"), bed.peerPod("no-record", "n1")
	p.Annotations = map[string]string{networkv1alpha1.PodRecordAnnotation: "true"}
	bed.run(t, p, plain)
	eventually(t, convergence, func() error {
		if err := bed.api.Get(t.Context(), named(p.Name), p); err != nil {
			return err
		}
		if p.Annotations[networkv1alpha1.PodNetworksAnnotation] == "" {
			return errors.New("the pod has no record")
		}
		return nil
	})
	networks, err := networkv1alpha1.ParsePodNetworks(p.Annotations[networkv1alpha1.PodNetworksAnnotation])
	must(t, err)
	if len(networks) != 1 {
		t.Fatalf("the record has %d networks, want 1: %+v", len(networks), networks)
	}
	n := networks[0]
	have := []string{n.InterfaceID, string(n.PodUID), n.MACAddress, fmt.Sprint(n.MTU)}
	for _, a := range n.Addresses {
		have = append(have, a.Addr().String())
	}
	want := []string{portOf(p), string(p.UID), macOf(t, p), fmt.Sprint(linkMTU(t, p))}
	for _, a := range addressesOf(p) {
		want = append(want, a.String())
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("record (-want +have):\n%s", diff)
	}
	routes := string(bed.mustIn(t, p, "ip", "route")) + string(bed.mustIn(t, p, "ip", "-6", "route"))
	for _, g := range n.Gateways {
		if !strings.Contains(routes, "default via "+g.String()) {
			t.Errorf("the record's gateway %s is not in the pod's routes:\n%s", g, routes)
		}
	}
	must(t, bed.api.Get(t.Context(), named(plain.Name), plain))
	if text := plain.Annotations[networkv1alpha1.PodNetworksAnnotation]; text != "" {
		t.Errorf("a pod without the annotation has the record %s", text)
	}
}
