package member

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
)

// Ask gives a member its order and returns how it is.
func Ask(ctx context.Context, address string, id Identity, order Order) (state State, err error) {
	conn, err := dial(ctx, net.JoinHostPort(address, Port), id, protocolOrder)
	if err != nil {
		return state, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if err := json.NewEncoder(conn).Encode(order); err != nil {
		return state, fmt.Errorf("order: %w", err)
	}
	if err := json.NewDecoder(conn).Decode(&state); err != nil {
		return state, fmt.Errorf("state: %w", err)
	}
	return state, nil
}
