// Command weft-apidocs writes docs/user/api.md. Its argument is the repository's root.
package main

import (
	"fmt"
	"os"

	"github.com/weft-network/weft/test/apidocs"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: weft-apidocs ROOT")
		os.Exit(2)
	}
	if err := apidocs.Write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
