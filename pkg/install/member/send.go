package member

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"

	"github.com/weft-network/weft/pkg/ports"
)

// Send delivers an order to the member at address and returns the member's state. An empty order only reads the
// state.
func Send(ctx context.Context, address string, id Identity, order Order) (state State, err error) {
	conn, err := dial(ctx, net.JoinHostPort(address, strconv.Itoa(ports.Members)), id, protocolOrder)
	if err != nil {
		return state, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if err := json.NewEncoder(conn).Encode(order); err != nil {
		return state, fmt.Errorf("cannot send the order: %w", err)
	}
	if err := json.NewDecoder(conn).Decode(&state); err != nil {
		return state, fmt.Errorf("cannot read the member's state: %w", err)
	}
	return state, nil
}
