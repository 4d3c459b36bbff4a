package tracer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weft-network/weft/pkg/ovn/unixctl"
	"github.com/weft-network/weft/pkg/trace"
)

// northdPatience is how long ovn-northd may take to respond. It computes a large cluster from scratch in a few seconds.
const northdPatience = 5 * time.Second

var errNorthdSilent = fmt.Errorf("no answer within %s", northdPatience)

// northd returns the state of the ovn-northd beside the databases.
func (t Tracer) northd(ctx context.Context) (*trace.NorthdState, error) {
	state := &trace.NorthdState{}
	ctx, cancel := context.WithTimeoutCause(ctx, northdPatience, errNorthdSilent)
	defer cancel()
	text, err := t.northdStatus(ctx)
	switch _, status, ok := strings.Cut(text, ":"); {
	case errors.Is(err, errNorthdSilent):
		state.Why = errNorthdSilent.Error()
		return state, nil
	case err != nil:
		state.Why = err.Error()
		return state, nil
	case ok: // "Status: active"
		state.Status = strings.TrimSpace(status)
	default:
		state.Status = text
	}
	found, err := read(ctx, t.Northbound, northbound, selectAll("NB_Global", "nb_cfg", "sb_cfg"))
	if err != nil {
		return nil, err
	}
	for _, r := range found[0] {
		state.Behind = max(0, r.Number("nb_cfg")-r.Number("sb_cfg"))
	}
	return state, nil
}

func (t Tracer) northdStatus(ctx context.Context) (string, error) {
	socket := t.Northd
	if socket == "" {
		var err error
		if socket, err = unixctl.Socket(t.Dir, "ovn-northd"); err != nil {
			return "", err
		}
	}
	return unixctl.Call(ctx, socket, "status")
}
