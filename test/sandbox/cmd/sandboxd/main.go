// Command sandboxd serves package sandbox on its standard input and output.
package main

import (
	"fmt"
	"os"

	"github.com/weft-network/weft/test/sandbox"
)

func main() {
	if err := sandbox.Serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sandboxd:", err)
		os.Exit(1)
	}
}
