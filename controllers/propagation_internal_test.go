package controllers

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weft-network/weft/pkg/ovndb"
)

// Only ovn-northd's own silence counts, and it ends with its answer, whether all chassis answer too or not.
func TestNorthdIsSilentUntilItAnswers(t *testing.T) {
	told := 0
	p := newPropagation(nil, nil, func() { told++ })
	for i, step := range []struct {
		err           error
		silent, again bool
		told          int
	}{
		{nil, false, false, 0},
		{errors.New("offline"), false, false, 0},
		{ovndb.ErrNotAll, false, false, 0},
		{fmt.Errorf("asked: %w", ovndb.ErrNotCopied), true, true, 1},
		{ovndb.ErrNotCopied, true, true, 2},
		{errors.New("offline"), true, true, 2},
		{ovndb.ErrNotAll, false, false, 3},
		{ovndb.ErrNotCopied, true, true, 4},
		{nil, false, false, 5},
	} {
		again := p.judge(step.err)
		if (p.silent() != "") != step.silent || (again != nil) != step.again || told != step.told {
			t.Errorf("step %d, %v: silent %q, asks again %v, told %d times; want %+v", i, step.err, p.silent(), again != nil, told, step)
		}
	}
}
