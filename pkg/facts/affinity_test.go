package facts_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weft-network/weft/pkg/facts"
)

// A turn is as long as the timeout, but at least 10 s. Turns follow each other, and begin at another time for each service.
func TestAffinityTurn(t *testing.T) {
	affine := func(name string, timeout *int32) *corev1.Service {
		s := &corev1.Service{}
		s.Namespace, s.Name = "demo", name
		s.Spec.ClusterIPs, s.Spec.SessionAffinity = []string{"10.96.0.10"}, corev1.ServiceAffinityClientIP
		if timeout != nil {
			s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: timeout}}
		}
		return s
	}
	now := time.Date(2026, 11, 26, 20, 0, 0, 0, time.UTC).UnixNano()
	begins := map[int64]bool{}
	for name, c := range map[string]struct {
		timeout *int32
		length  time.Duration
	}{
		"default": {nil, 3 * time.Hour}, "minute": {new(int32(60)), time.Minute}, "short": {new(int32(1)), 10 * time.Second},
		"invalid": {new(int32(-1)), 3 * time.Hour}, "longest": {new(int32(86400)), 24 * time.Hour}, "other": {nil, 3 * time.Hour},
	} {
		s := affine(name, c.timeout)
		turn, left := facts.AffinityTurn(s, now)
		if left <= 0 || left > int64(c.length) {
			t.Errorf("%s: %d ns are left of %s", name, left, c.length)
		}
		if last, rest := facts.AffinityTurn(s, now+left-1); last != turn || rest != 1 {
			t.Errorf("%s: turn %d becomes %d before its end, with %d ns left", name, turn, last, rest)
		}
		if next, whole := facts.AffinityTurn(s, now+left); next != turn+1 || whole != int64(c.length) {
			t.Errorf("%s: turn %d follows %d, with %d ns left of %s", name, next, turn, whole, c.length)
		}
		begins[left] = true
	}
	if len(begins) < 6 {
		t.Errorf("services begin their turns together: %v", begins)
	}

	none, headless := affine("none", nil), affine("headless", nil)
	none.Spec.SessionAffinity, headless.Spec.ClusterIPs = corev1.ServiceAffinityNone, []string{corev1.ClusterIPNone}
	for _, s := range []*corev1.Service{none, headless} {
		if turn, left := facts.AffinityTurn(s, now); turn != 0 || left != 0 {
			t.Errorf("%s: turn %d, %d ns left", s.Name, turn, left)
		}
	}
}
