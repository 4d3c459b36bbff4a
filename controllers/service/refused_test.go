package service

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
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
