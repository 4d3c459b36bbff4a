package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"path/filepath"

	"github.com/weft-network/weft/pkg/trace"
	"github.com/weft-network/weft/pkg/trace/tracer"
)

// traceCommand answers "kubectl weft trace" beside the databases. It reads a trace.Request and writes a trace.Answer.
// It only reads the databases.
func traceCommand(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	var run, program string
	flags := flag.NewFlagSet("weft-ovn trace", flag.ContinueOnError)
	flags.StringVar(&run, "run-dir", "/run/ovn", "folder of ovnnb_db.sock and ovnsb_db.sock")
	flags.StringVar(&program, "ovn-trace", "ovn-trace", "path of ovn-trace")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var request trace.Request
	if err := json.NewDecoder(in).Decode(&request); err != nil {
		return fmt.Errorf("cannot parse the packets to trace: %w", err)
	}
	answer, err := tracer.Tracer{Northbound: filepath.Join(run, "ovnnb_db.sock"), Southbound: filepath.Join(run, "ovnsb_db.sock"),
		Program: program, Dir: run}.Run(ctx, request)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(answer)
}
