// Command weft is the operator: it builds an OVN logical topology from Nodes and Pods and keeps it converged.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/weft-network/weft/controllers/program"
	"github.com/weft-network/weft/pkg/kubectl/connectivity/probe"
	"github.com/weft-network/weft/pkg/process/admin"
	"github.com/weft-network/weft/pkg/process/logging"
)

func main() {
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "weft:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "admin":
			logging.StartAnyway()
			return admin.Command(context.Background(), args[1:], os.Stdin, os.Stdout)
		case "api":
			return program.API(args[1:])
		case "operands":
			return program.Operands(args[1:])
		case "extender":
			return program.Extender(args[1:])
		case "preflight":
			return program.Preflight(args[1:])
		case "probe":
			logging.StartAnyway()
			return probe.Command(args[1:], os.Stdin, os.Stdout)
		}
	}
	return program.Operator(args)
}
