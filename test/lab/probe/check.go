package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

// target is an address to ping, a URL to get, or both.
type target struct {
	Name string `json:"name"`
	Ping string `json:"ping,omitempty"`
	HTTP string `json:"http,omitempty"`
}

// result is the outcome of all tries of one kind at one target.
type result struct {
	Name   string  `json:"name"`
	Kind   string  `json:"kind"` // ping or http
	Target string  `json:"target"`
	OK     bool    `json:"ok"`
	RTTms  float64 `json:"rttMs,omitempty"` // of the successful try
	Tries  int     `json:"tries"`
	Answer *answer `json:"answer,omitempty"`
	Error  string  `json:"error,omitempty"`
}

// effort bounds the tries for a target.
type effort struct {
	timeout  time.Duration // of each try
	attempts int           // tries until one succeeds
	interval time.Duration // least time between the starts of two tries
	parallel int           // targets tried at a time
}

func newCheck() *cobra.Command {
	var targets string
	e := effort{timeout: 2 * time.Second, attempts: 1, parallel: 16}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Ping and HTTP-get targets, print the results as JSON, and fail unless all were reached",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := readTargets(targets)
			if err != nil {
				return err
			}
			return report(cmd.OutOrStdout(), checkAll(cmd.Context(), list, e))
		},
	}
	cmd.Flags().StringVar(&targets, "targets", "", `JSON [{"name","ping","http"}], or a file with it, or - for the standard input`)
	cmd.Flags().DurationVar(&e.timeout, "timeout", e.timeout, "timeout of each try")
	cmd.Flags().IntVar(&e.attempts, "attempts", e.attempts, "tries per target until one succeeds")
	cmd.Flags().DurationVar(&e.interval, "interval", e.interval, "least time between the starts of two tries")
	cmd.Flags().IntVar(&e.parallel, "parallel", e.parallel, "targets at a time")
	return cmd
}

func readTargets(arg string) (list []target, err error) {
	text := []byte(arg)
	switch {
	case arg == "-":
		text, err = io.ReadAll(os.Stdin)
	case !strings.HasPrefix(strings.TrimSpace(arg), "["):
		text, err = os.ReadFile(arg)
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("targets: %w", err)
	}
	return list, nil
}

// checkAll keeps the order of the targets, ping before HTTP.
func checkAll(ctx context.Context, targets []target, e effort) []result {
	var results []result
	for _, t := range targets {
		if t.Ping != "" {
			results = append(results, result{Name: t.Name, Kind: "ping", Target: t.Ping})
		}
		if t.HTTP != "" {
			results = append(results, result{Name: t.Name, Kind: "http", Target: t.HTTP})
		}
	}
	var group errgroup.Group
	group.SetLimit(max(e.parallel, 1)) // 0 would block for ever
	for i := range results {
		group.Go(func() error { results[i].try(ctx, e); return nil })
	}
	_ = group.Wait() // results hold their own errors
	return results
}

func (r *result) try(ctx context.Context, e effort) {
	for r.Tries < e.attempts {
		next := time.After(e.interval)
		r.Tries++
		if r.once(ctx, e.timeout); r.OK || ctx.Err() != nil {
			return
		}
		if r.Tries < e.attempts {
			<-next
		}
	}
}

func (r *result) once(ctx context.Context, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	start := time.Now()
	err := r.reach(ctx)
	r.OK, r.Error, r.RTTms = err == nil, "", float64(time.Since(start).Microseconds())/1000
	if err != nil {
		r.Error, r.RTTms = err.Error(), 0
	}
}

func (r *result) reach(ctx context.Context) error {
	if r.Kind == "http" {
		return r.get(ctx)
	}
	address, err := netip.ParseAddr(r.Target)
	if err != nil {
		return err
	}
	return ping(ctx, address)
}

func (r *result) get(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.Target, nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", response.Status)
	}
	var a answer
	if json.NewDecoder(response.Body).Decode(&a) == nil { // other servers may be targets too
		r.Answer = &a
	}
	return nil
}

func report(out io.Writer, results []result) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(results); err != nil {
		return err
	}
	failed := 0
	for _, r := range results {
		if !r.OK {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d tries failed", failed, len(results))
	}
	return nil
}
