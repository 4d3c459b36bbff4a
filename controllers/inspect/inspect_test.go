package inspect

import (
	"errors"
	"strings"
	"testing"

	"github.com/weft-network/weft/pkg/admin"
)

// Two replicas listen. The replica that does not lead has no database.
func TestOperatorThatDoesNotLeadSaysSo(t *testing.T) {
	a := &Inspector{elected: make(chan struct{})}
	_, planned := a.Plan(t.Context(), admin.PlanRequest{})
	_, drift := a.Drift(t.Context())
	_, checked := a.Check(t.Context())
	for question, err := range map[string]error{"plan": planned, "drift": drift, "check": checked} {
		if !errors.Is(err, admin.ErrUnavailable) || !strings.Contains(err.Error(), "does not lead") {
			t.Errorf("%s: %v", question, err)
		}
	}
}
