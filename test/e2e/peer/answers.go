package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/pkg/agent/neighbour"
)

// answersPatience is how long answers waits for an answer.
const answersPatience = 2 * time.Second

func newAnswers() *cobra.Command {
	var link, from, address string
	var count int
	cmd := &cobra.Command{
		Use:   "answers",
		Short: "Resolve an address again and again by ARP or neighbour discovery, and print the MACs that answer",
		Long:  `Each request follows an answer to the one before. So another machine that answers, too, is seen with any request but the last.`,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			macs, err := answers(cmd.Context(), link, from, address, count)
			if err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(macs)
		},
	}
	cmd.Flags().StringVar(&link, "link", "eth0", "the link to send on")
	cmd.Flags().StringVar(&from, "from", "", "this machine's address")
	cmd.Flags().StringVar(&address, "address", "", "the address to resolve")
	cmd.Flags().IntVar(&count, "count", 20, "requests")
	return cmd
}

// answers returns the MACs that answer, sorted. An address that nobody answers for has none.
func answers(ctx context.Context, name, from, text string, count int) (macs []string, err error) {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return nil, err
	}
	frames, err := openPacketSocket(link.Index)
	if err != nil {
		return nil, err
	}
	defer frames.Close()
	stop := context.AfterFunc(ctx, func() { frames.Close() })
	defer stop()
	address, err := netip.ParseAddr(text)
	if err != nil {
		return nil, err
	}
	macs = []string{}
	for range count {
		if err := request(name, from, address).send(); err != nil {
			return nil, err
		}
		seen, err := await(frames, address, link.HardwareAddr)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		} else if err != nil {
			return nil, err
		}
		if !slices.Contains(macs, seen) {
			macs = append(macs, seen)
		}
	}
	slices.Sort(macs)
	return macs, nil
}

// request returns a frame that resolves an address, to everyone or to the multicast group of the address.
func request(link, from string, address netip.Addr) frame {
	if address.Is4() {
		return frame{kind: "arp-request", link: link, dstMAC: "ff:ff:ff:ff:ff:ff", src: from, dst: address.String()}
	}
	low := address.As16()
	group := netip.MustParseAddr("ff02::1:ff00:0").As16()
	copy(group[13:], low[13:])
	return frame{kind: "solicitation", link: link, dstMAC: fmt.Sprintf("33:33:ff:%02x:%02x:%02x", low[13], low[14], low[15]),
		src: from, dst: netip.AddrFrom16(group).String(), claim: address.String()}
}

// await returns the MAC of the next answer of another machine.
func await(frames *os.File, address netip.Addr, own net.HardwareAddr) (string, error) {
	if err := frames.SetReadDeadline(time.Now().Add(answersPatience)); err != nil {
		return "", err
	}
	buffer := make([]byte, 1<<16)
	for {
		n, err := frames.Read(buffer)
		if errors.Is(err, unix.EAGAIN) {
			continue
		} else if err != nil {
			return "", err
		}
		if claimed, mac, ok := neighbour.Claim(buffer[:n]); ok && claimed == address && !bytes.Equal(mac, own) {
			return mac.String(), nil
		}
	}
}
