// Package capture records the packets at a pod's interface. Weft's image has it as the program weft-capture, which
// kubectl weft capture executes in the agent's container of the pod's node.
//
// The program is not part of the agent, because the tables of its library would enlarge the memory of every agent.
package capture

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// Options say what to record, and how much at most.
type Options struct {
	// Link is a link of this network namespace.
	Link   string
	Filter Filter
	// For is how long, and Packets how many packets at most.
	For     time.Duration
	Packets int
	// Bytes is how many bytes of each packet are recorded, 64 to 65535.
	Bytes int
}

// Run writes the packets of a link as a pcap file with nanoseconds, until a limit of the options or the end of ctx. A
// packet is written at once, for a reader that follows. It returns how many packets it wrote, and how many more matched
// for which the kernel had no room.
func Run(ctx context.Context, o Options, out io.Writer) (written int, lost uint64, err error) {
	program, err := o.Filter.program()
	if err != nil {
		return 0, 0, err
	}
	handle, err := pcapgo.NewEthernetHandle(o.Link)
	if err != nil {
		return 0, 0, err
	}
	defer handle.Close()
	if err := errors.Join(handle.SetCaptureLength(o.Bytes), handle.SetBPF(program)); err != nil {
		return 0, 0, fmt.Errorf("capture at %s: %w", o.Link, err)
	}
	buffered := bufio.NewWriter(out)
	writer := pcapgo.NewWriterNanos(buffered)
	snapshot := uint32(o.Bytes) //nolint:gosec // at most 65535
	if err := errors.Join(writer.WriteFileHeader(snapshot, layers.LinkTypeEthernet), buffered.Flush()); err != nil {
		return 0, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.For)
	defer cancel()
	defer context.AfterFunc(ctx, func() { handle.Close() })()
	for written < o.Packets {
		packet, info, err := handle.ZeroCopyReadPacketData()
		if err != nil && ctx.Err() != nil {
			break
		}
		if err == nil {
			err = errors.Join(writer.WritePacket(info, packet), buffered.Flush())
		}
		if err != nil {
			return written, lost, fmt.Errorf("capture at %s: %w", o.Link, err)
		}
		written++
	}
	if stats, err := handle.Stats(); err == nil {
		lost = uint64(stats.Drops)
	}
	return written, lost, nil
}
