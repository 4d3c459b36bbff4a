package cli

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-network/weft/pkg/invariant"
	"github.com/weft-network/weft/pkg/process/admin"
)

// Leaks shows the rows that differ from the FloatingIPs, and no other violation. The invariants that it selects exist.
func TestRowsOfFloatingAddresses(t *testing.T) {
	var checked admin.Violations
	for _, i := range invariant.All() {
		checked.Violations = append(checked.Violations, invariant.Violation{Invariant: i.Name, Message: "something"})
	}
	want := []string{"FloatingHeldByOne: something", "FloatingWhereHeld: something"}
	if found := rowsOf(checked); !slices.Equal(found, want) {
		t.Errorf("rows: %v, want %v", found, want)
	}
}

func TestAges(t *testing.T) {
	now := time.Now()
	for ago, want := range map[time.Duration]string{
		-time.Minute: "0s", 5 * time.Second: "5s", 90 * time.Second: "1m", 61 * time.Minute: "1h1m", 50 * time.Hour: "2d2h",
	} {
		if got := age(&metav1.Time{Time: now.Add(-ago)}, now); got != want {
			t.Errorf("%s ago: %s, want %s", ago, got, want)
		}
	}
}
