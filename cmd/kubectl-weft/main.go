// Command kubectl-weft is a kubectl plugin. It shows the network's status and its planned changes, finds and repairs
// drift in its databases, and installs and removes it.
package main

import (
	"os"

	"github.com/weft-network/weft/pkg/kubectl/cli"
)

func main() { os.Exit(cli.Run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
