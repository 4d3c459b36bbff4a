package facts_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weft-network/weft/pkg/facts"
)

// A turn is as long as the timeout, but at least 10 s, and begins at the same time in each process.
func TestAffinityTurn(t *testing.T) {
	affine := func(timeout *int32) *corev1.Service {
		s := &corev1.Service{}
		s.Spec.ClusterIPs, s.Spec.SessionAffinity = []string{"10.96.0.10"}, corev1.ServiceAffinityClientIP
		if timeout != nil {
			s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: timeout}}
		}
		return s
	}
	none, headless := affine(nil), affine(nil)
	none.Spec.SessionAffinity, headless.Spec.ClusterIPs = corev1.ServiceAffinityNone, []string{corev1.ClusterIPNone}
	for name, c := range map[string]struct {
		service *corev1.Service
		at      time.Duration // since 1970
		turn    int
		left    time.Duration
	}{
		"no affinity":                 {none, time.Hour, 0, 0},
		"not balanced":                {headless, time.Hour, 0, 0},
		"the default timeout":         {affine(nil), 7 * time.Hour, 2, 2 * time.Hour},
		"a timeout":                   {affine(new(int32(60))), 59 * time.Second, 0, time.Second},
		"the end of a turn":           {affine(new(int32(60))), 60 * time.Second, 1, time.Minute},
		"a short timeout":             {affine(new(int32(1))), 25 * time.Second, 2, 5 * time.Second},
		"a timeout that may not be":   {affine(new(int32(-1))), 4 * time.Hour, 1, 2 * time.Hour},
		"a part of a second remains":  {affine(new(int32(60))), 119*time.Second + time.Millisecond, 1, 999 * time.Millisecond},
		"a time in the present":       {affine(new(int32(86400))), 20000*24*time.Hour + time.Hour, 20000, 23 * time.Hour},
		"a time before a turn begins": {affine(new(int32(86400))), 20000*24*time.Hour - 1, 19999, 1},
	} {
		turn, left := facts.AffinityTurn(c.service, time.Unix(0, int64(c.at)))
		if turn != c.turn || left != c.left {
			t.Errorf("%s: turn %d, %s left; want %d, %s", name, turn, left, c.turn, c.left)
		}
	}
}
