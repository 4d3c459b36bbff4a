// Command weft-bench-compare compares two results of `make bench`. It fails if the second is worse than the first.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/weft-network/weft/test/bench/figures"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "weft-bench-compare:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) != 2 {
		return fmt.Errorf("usage: weft-bench-compare A.json B.json")
	}
	a, err := figures.Read(args[0])
	if err != nil {
		return err
	}
	b, err := figures.Read(args[1])
	if err != nil {
		return err
	}
	all := figures.Compare(a, b)
	if len(all) == 0 {
		return fmt.Errorf("%s and %s have no run of one controller and size in common", args[0], args[1])
	}
	worse, err := figures.WriteComparison(out, all)
	if err != nil {
		return err
	}
	if worse > 0 {
		return fmt.Errorf("%d figures are worse: by more than a fifth, or a count by any amount", worse)
	}
	return nil
}
