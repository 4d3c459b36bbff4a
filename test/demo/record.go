package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// showRecord prints a pod's VIF record. It is written after the pod was attached, so it may appear with a delay.
func (d *demo) showRecord(ctx context.Context, pod Pod) error {
	_, err := d.Cluster.Kubectl(ctx, "-n", Namespace, "wait", "pod/"+pod.Name, "--timeout=20s",
		`--for=jsonpath={.metadata.annotations.network\.weft\.dev/pod-networks}`)
	if err != nil {
		return err
	}
	text, err := d.Cluster.Kubectl(ctx, "-n", Namespace, "get", "pod", pod.Name, "-o", "json")
	if err != nil {
		return err
	}
	var object corev1.Pod
	if err := json.Unmarshal(text, &object); err != nil {
		return err
	}
	record := object.Annotations[networkv1alpha1.PodNetworksAnnotation]
	if err := checkRecord(record, pod); err != nil {
		return fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	d.Screen.title("The VIF record of pod %s (annotation %s)", pod.Name, networkv1alpha1.PodNetworksAnnotation)
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, []byte(record), "", "  "); err != nil {
		return err
	}
	fmt.Fprintln(d.Screen, pretty.String())
	return nil
}

// checkRecord parses the record as its users do. Its addresses must equal the pod's status.
func checkRecord(record string, pod Pod) error {
	vifs, err := networkv1alpha1.ParsePodNetworks(record)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(vifs, func(n networkv1alpha1.PodNetwork) bool { return n.Default }) // the parser guarantees exactly one
	var addresses []netip.Addr
	for _, prefix := range vifs[i].Addresses {
		addresses = append(addresses, prefix.Addr())
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	if status := slices.SortedFunc(slices.Values(pod.Addresses), netip.Addr.Compare); !slices.Equal(addresses, status) {
		return fmt.Errorf("VIF record: addresses %v are not the pod's %v", addresses, status)
	}
	return nil
}
