// Command kubectl-weft is the kubectl plugin: what the network would change, what differs from what it should be, and the repair
// of its databases.
package main

import (
	"os"

	"github.com/weft-network/weft/pkg/cli"
)

func main() { os.Exit(cli.Run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
