package database

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weft-network/weft/pkg/ovndb"
)

// Only ovn-northd's own silence counts. It ends with northd's response, whether or not all chassis respond.
func TestNorthdIsSilentUntilItAnswers(t *testing.T) {
	changes := 0
	p := NewPropagation(nil, nil, func() { changes++ })
	for i, step := range []struct {
		err           error
		silent, again bool
		changes       int
	}{
		{nil, false, false, 0},
		{errors.New("offline"), false, false, 0},
		{ovndb.ErrNotAll, false, false, 0},
		{fmt.Errorf("request: %w", ovndb.ErrNotCopied), true, true, 1},
		{ovndb.ErrNotCopied, true, true, 2},
		{errors.New("offline"), true, true, 2},
		{ovndb.ErrNotAll, false, false, 3},
		{ovndb.ErrNotCopied, true, true, 4},
		{nil, false, false, 5},
	} {
		again := p.judge(step.err)
		if (p.Silent() != "") != step.silent || (again != nil) != step.again || changes != step.changes {
			t.Errorf("step %d, %v: silent %q, measures again %v, %d changes; want %+v", i, step.err, p.Silent(),
				again != nil, changes, step)
		}
	}
}
