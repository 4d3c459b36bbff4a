package testbed

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/test/lab"
	"github.com/weft-network/weft/test/poll"
)

// patience bounds how long the operator and kubelet may take on a busy machine.
const patience = 90 * time.Second

// Parked returns a pod bound to a node whose kubelet cannot start it, because it mounts a missing secret and kubelet
// mounts before it creates a sandbox. So the pod has its port and address like any other, and the test creates its
// sandboxes.
func (b *Bed) Parked(name, node string) *corev1.Pod {
	p := b.Pausing(name, node)
	p.Spec.Volumes = []corev1.Volume{{Name: "never",
		VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "never"}}}}
	p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "never", MountPath: "/never"}}
	return p
}

// Pausing returns a pod that does nothing.
func (b *Bed) Pausing(name, node string) *corev1.Pod {
	none, no := int64(0), false
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: name},
		Spec: corev1.PodSpec{
			NodeName: node, TerminationGracePeriodSeconds: &none, AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
			Containers: []corev1.Container{{Name: "pause", Image: lab.PauseRef}},
		},
	}
}

// Park creates pods and waits until the node's agent can attach them, because their ports are in the southbound
// database.
func (b *Bed) Park(ctx context.Context, pods ...*corev1.Pod) error {
	for _, p := range pods {
		if err := b.API.Create(ctx, p); err != nil {
			return err
		}
	}
	central, err := b.Central(ctx)
	if err != nil {
		return err
	}
	return poll.Slowly(ctx, patience, func() error {
		ports, err := b.Rows(ctx, central, "ovn-sbctl", "Port_Binding", "logical_port")
		if err != nil {
			return err
		}
		there := map[string]bool{}
		for _, name := range ports {
			there[name] = true
		}
		for _, p := range pods {
			if !there[PortOf(p)] {
				return fmt.Errorf("pod %s has no port in the southbound database", p.Name)
			}
		}
		return nil
	})
}

// Remove deletes pods without a grace period and waits until they are gone.
func (b *Bed) Remove(ctx context.Context, pods ...*corev1.Pod) error {
	for _, p := range pods {
		if err := b.API.Delete(ctx, p, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return poll.Slowly(ctx, patience, func() error {
		for _, p := range pods {
			err := b.API.Get(ctx, client.ObjectKeyFromObject(p), &corev1.Pod{})
			if client.IgnoreNotFound(err) != nil || err == nil {
				return fmt.Errorf("pod %s still exists: %w", p.Name, err)
			}
		}
		return nil
	})
}

// PortOf returns the pod's logical port.
func PortOf(p *corev1.Pod) string { return names.PodPort(names.DefaultNetwork, p.Namespace, p.Name) }
