// Command weft-capture records the packets at an interface of a pod of this node, as pcap on standard output: see package
// capture. kubectl weft capture executes it in the agent's container.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/weft-network/weft/pkg/kubectl/capture"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "weft-capture:", err)
		os.Exit(1)
	}
}

// lookupPatience is how long Open vSwitch's database may take to answer.
const lookupPatience = 10 * time.Second

func run(ctx context.Context, args []string, out, notes io.Writer) error {
	flags := flag.NewFlagSet("weft-capture", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // an error is returned; the usage is that of kubectl weft capture
	remote := flags.String("ovs", "unix:/run/openvswitch/db.sock", "OVSDB remote of Open vSwitch")
	uid := flags.String("pod-uid", "", "UID of the pod")
	ifName := flags.String("interface", "eth0", "name of the interface in the pod")
	o := capture.Options{}
	flags.DurationVar(&o.For, "for", 30*time.Second, "how long")
	flags.IntVar(&o.Packets, "packets", math.MaxInt32, "how many packets at most")
	flags.IntVar(&o.Bytes, "bytes", math.MaxUint16, "how many bytes of each packet, 64 to 65535")
	flags.StringVar(&o.Filter.Protocol, "protocol", "", fmt.Sprintf("only one of %v", capture.Protocols))
	flags.TextVar(&o.Filter.Host, "host", netip.Addr{}, "only packets from or to an address")
	port := flags.Uint("port", 0, "only packets from or to a port")
	if err := flags.Parse(args); err != nil {
		return err
	}
	const fewest = 64 // headers
	if *port > math.MaxUint16 || o.Bytes < fewest || o.Bytes > math.MaxUint16 {
		return fmt.Errorf("--port is at most %d, and --bytes from %d to %d", math.MaxUint16, fewest, math.MaxUint16)
	}
	o.Filter.Port, o.Filter.Host = uint16(*port), o.Filter.Host.Unmap()
	if err := o.Filter.Check(); err != nil {
		return err
	}
	lookup, cancel := context.WithTimeout(ctx, lookupPatience)
	defer cancel()
	var err error
	if o.Link, err = capture.LinkOf(lookup, *remote, *uid, *ifName); err != nil {
		return err
	}
	written, lost, err := capture.Run(ctx, o, out)
	if err == nil && lost > 0 {
		fmt.Fprintf(notes, "%d packets recorded, %d more were lost: the kernel had no room for them\n", written, lost)
	}
	return err
}
