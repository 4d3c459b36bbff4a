package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"
)

// pour sends as much as the network takes until the client disconnects.
func pour(w http.ResponseWriter, r *http.Request) {
	block := make([]byte, 1<<15)
	for r.Context().Err() == nil {
		if _, err := w.Write(block); err != nil {
			return
		}
	}
}

// taken is the measured rate, in bits per second.
type taken struct {
	First float64 // in the first part
	Rest  float64 // after it
}

func newTake() *cobra.Command {
	var from string
	var first, rest time.Duration
	cmd := &cobra.Command{
		Use:   "take",
		Short: "Receive a peer's stream over one TCP connection, and print its rate",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			got, err := takeFrom(cmd.Context(), from, first, rest)
			if err != nil {
				return err
			}
			return json.NewEncoder(os.Stdout).Encode(got)
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "ADDRESS:PORT of a peer's HTTP server")
	cmd.Flags().DurationVar(&first, "first", 2*time.Second, "how long a burst may last")
	cmd.Flags().DurationVar(&rest, "rest", 4*time.Second, "how long to measure afterwards")
	return cmd
}

func takeFrom(ctx context.Context, from string, first, rest time.Duration) (got taken, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+from+"/pour", http.NoBody)
	if err != nil {
		return got, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return got, err
	}
	defer response.Body.Close()
	buffer, start := make([]byte, 1<<16), time.Now()
	bytes := [2]float64{}
	for elapsed := time.Duration(0); elapsed < first+rest; elapsed = time.Since(start) {
		n, err := response.Body.Read(buffer)
		if err != nil {
			return got, fmt.Errorf("after %s: %w", elapsed, err)
		}
		if elapsed < first {
			bytes[0] += float64(n)
		} else {
			bytes[1] += float64(n)
		}
	}
	return taken{First: bytes[0] * 8 / first.Seconds(), Rest: bytes[1] * 8 / rest.Seconds()}, nil
}
