package service

import (
	"fmt"
	"strings"
	"testing"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestEachReservedPortIsNamed is about a Service that requests many reserved ports: its condition names all of them.
func TestEachReservedPortIsNamed(t *testing.T) {
	var reserved []string
	for port := range 100 {
		reserved = append(reserved, fmt.Sprintf("TCP 192.0.2.1:%d is reserved for a test", 10000+port))
	}
	message := addressesReady(&corev1.Service{}, lacks{reserved: reserved}).Message
	for _, text := range reserved {
		if !strings.Contains(message, text) {
			t.Fatalf("%q lacks %q", message, text)
		}
	}
}

// A reconciliation whose cache lacks the condition of the one before does not end the condition. The update that brings it reconciles the
// Service again.
func TestAConditionIsReadAgain(t *testing.T) {
	before := &corev1.Service{}
	after := before.DeepCopy()
	after.Status.Conditions = []metav1.Condition{{Type: networkv1alpha1.ServiceAddressesReady, Status: metav1.ConditionFalse, Reason: "Why"}}
	if !serviceChanged(before, after) || serviceChanged(after, after.DeepCopy()) {
		t.Errorf("the update that brings the condition passes: %t", serviceChanged(before, after))
	}
}
