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
	return initd.Main(spec, notifyListening)
}

// notifyListening writes a byte to the starter's pipe and closes it, because the daemons must not inherit it.
func notifyListening() error {
	starter := os.NewFile(3, "starter")
	if _, err := starter.Write([]byte{1}); err != nil {
		return fmt.Errorf("notify the starter: %w", err)
	}
	return starter.Close()
}

// awaitGo waits for one byte on the standard input, which the starter sends after it has recorded this process for
// the teardown. If the starter ends first, the pipe ends and so does this process.
func awaitGo() error {
	if _, err := io.ReadFull(os.Stdin, make([]byte, 1)); err != nil {
		return fmt.Errorf("the starter did not record this process: %w", err)
	}
	return nil
}
