// Command weft-alerts scrapes targets, evaluates a file of alerts and writes each change of an alert to its output
// as one line of JSON. It ends with its input.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/weft-network/weft/test/alertrules/watch"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "weft-alerts:", err)
		os.Exit(1)
	}
}

func run() error {
	var o watch.Options
	flag.StringVar(&o.Rules, "rules", "dist/prometheus-rules.yaml", "file of rules")
	targets := flag.String("targets", "", "comma-separated ADDRESS:PORT whose /metrics is read")
	factors := flag.String("factors", "1", "comma-separated numbers; the rules are evaluated for each, with all durations divided by it")
	flag.DurationVar(&o.Interval, "interval", 30*time.Second, "time between two scrapes, and two evaluations")
	flag.Parse()
	o.Targets = strings.Split(*targets, ",")
	for text := range strings.SplitSeq(*factors, ",") {
		factor, err := strconv.Atoi(text)
		if err != nil || factor < 1 {
			return fmt.Errorf("factor %q is not a positive number", text)
		}
		o.Factors = append(o.Factors, factor)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // the starting process has ended
		stop()
	}()
	lines := json.NewEncoder(os.Stdout)
	return watch.Run(ctx, o, func(e watch.Event) {
		if lines.Encode(e) != nil {
			stop() // the reader is gone
		}
	})
}
