// Command lab-init is PID 1 of a lab machine; weft-lab builds and starts it. Its argument is the machine's spec.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/weft-network/weft/test/lab/initd"
)

func main() {
	if err := start(); err != nil {
		fmt.Fprintln(os.Stderr, "lab-init:", err)
		os.Exit(1)
	}
}

func start() error {
	if len(os.Args) != 2 || os.Getpid() != 1 {
		return fmt.Errorf("usage: lab-init SPEC, as PID 1 of new namespaces")
	}
	if err := awaitGo(); err != nil {
		return err
	}
	spec, err := initd.ReadSpec(os.Args[1])
	if err != nil {
		return err
	}
	return initd.Main(spec, tellListening)
}

// tellListening answers the starter on the file it passed. The daemons must not inherit that.
func tellListening() error {
	starter := os.NewFile(3, "starter")
	if _, err := starter.Write([]byte{1}); err != nil {
		return fmt.Errorf("tell the starter: %w", err)
	}
	return starter.Close()
}

// awaitGo waits for one byte on the standard input, sent once this process is on record for the teardown. If the
// starter dies first, the pipe ends and so does this process.
func awaitGo() error {
	if _, err := io.ReadFull(os.Stdin, make([]byte, 1)); err != nil {
		return fmt.Errorf("not put on record: %w", err)
	}
	return nil
}
