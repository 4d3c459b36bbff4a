package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/weft-network/weft/pkg/install/beside"
	"github.com/weft-network/weft/pkg/ovn/wire"
	"github.com/weft-network/weft/pkg/trace"
	"github.com/weft-network/weft/pkg/trace/tracer"
)

const (
	// copyPatience limits a trace in a copy of the databases. A client that is gone does not end it earlier.
	copyPatience = 90 * time.Second
	// copyMemory bounds the address space of each program of a copy.
	copyMemory = 2 << 30
)

// traceFlags are the flags of "weft-ovn trace".
type traceFlags struct {
	run, program string
	programs     beside.Programs
}

// traceCommand answers "kubectl weft trace" beside the databases. It reads a trace.Request and writes a trace.Answer.
// It only reads the live databases.
func traceCommand(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	var f traceFlags
	flags := flag.NewFlagSet("weft-ovn trace", flag.ContinueOnError)
	flags.StringVar(&f.run, "run-dir", "/run/ovn", "folder of ovnnb_db.sock and ovnsb_db.sock")
	flags.StringVar(&f.program, "ovn-trace", "ovn-trace", "path of ovn-trace")
	flags.StringVar(&f.programs.OVSDBServer, "ovsdb-server", "ovsdb-server", "path of ovsdb-server")
	flags.StringVar(&f.programs.OVSDBTool, "ovsdb-tool", "ovsdb-tool", "path of ovsdb-tool")
	flags.StringVar(&f.programs.Northd, "ovn-northd", "ovn-northd", "path of ovn-northd")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var request trace.Request
	if err := json.NewDecoder(in).Decode(&request); err != nil {
		return fmt.Errorf("cannot parse the packets to trace: %w", err)
	}
	answer, err := f.answer(ctx, request)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(answer)
}

// answer traces packets in the live databases, or with changes in a copy.
func (f *traceFlags) answer(ctx context.Context, request trace.Request) (trace.Answer, error) {
	t := tracer.Tracer{Northbound: filepath.Join(f.run, "ovnnb_db.sock"), Southbound: filepath.Join(f.run, "ovnsb_db.sock"),
		Program: f.program, Dir: f.run}
	if len(request.Changes) == 0 {
		return t.Run(ctx, request)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, copyPatience, fmt.Errorf("no answer within %s", copyPatience))
	defer cancel()
	changes, err := wire.ParseOperations(request.Changes)
	if err != nil {
		return trace.Answer{}, err
	}
	// If memory runs short, the kernel must end the copy and not the live ovn-northd of this container.
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0); err != nil {
		return trace.Answer{}, err
	}
	c, err := beside.StartCopy(ctx, beside.Source{NB: "unix:" + t.Northbound, SB: "unix:" + t.Southbound, RunDir: f.run,
		Programs: f.programs, Memory: copyMemory}, changes...)
	if err != nil {
		return trace.Answer{}, err
	}
	defer c.Stop()
	t.Northbound, t.Southbound = c.Sockets()
	return t.Run(ctx, request)
}
