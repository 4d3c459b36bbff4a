package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"time"

	"github.com/spf13/cobra"
)

// carried is the result of a bulk transfer.
type carried struct {
	Echoed int64  `json:"echoed"` // bytes
	Error  string `json:"error,omitempty"`
}

func newBulk() *cobra.Command {
	var to string
	var size int64 = 1 << 20
	cmd := &cobra.Command{
		Use:   "bulk",
		Short: "Send many bytes over one TCP connection to a peer that echoes them, and compare what comes back",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			n, err := bulk(cmd.Context(), to, size)
			c := carried{Echoed: n}
			if err != nil {
				c.Error = err.Error()
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(c)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "ADDRESS:PORT")
	cmd.Flags().Int64Var(&size, "bytes", size, "to send")
	return cmd
}

func bulk(ctx context.Context, to string, size int64) (int64, error) {
	const patience = 20 * time.Second
	conn, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, "tcp", to)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return 0, err
	}
	sent, got := sha256.New(), sha256.New()
	go func() {
		noise := rand.NewChaCha8([32]byte{})
		_, _ = io.Copy(io.MultiWriter(conn, sent), io.LimitReader(noise, size)) // an error shows as missing bytes
	}()
	n, err := io.Copy(got, io.LimitReader(conn, size))
	if err != nil {
		return n, err
	}
	if n != size || string(sent.Sum(nil)) != string(got.Sum(nil)) {
		return n, fmt.Errorf("%d of %d bytes came back unchanged", n, size)
	}
	return n, nil
}
