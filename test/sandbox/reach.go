package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

const (
	// reachEvery is the time between two echo requests, and so the resolution of Reach.
	reachEvery = time.Millisecond
	// reachLimit ends a Reach that no reply ends.
	reachLimit = time.Minute
	// resolveEvery is the time between two ARP requests of the interface, in milliseconds. The kernel's default of a second would count
	// when the first ARP request is sent before the interface carries packets.
	resolveEvery = "2"
)

// run waits until the interface exists and To answers through it.
func (r Reach) run() error {
	ended := make(chan error, 1)
	go func() { ended <- r.inside() }()
	return <-ended
}

// inside sacrifices its thread, which stays in the namespace and ends with the goroutine.
func (r Reach) inside() error {
	runtime.LockOSThread()
	file, err := os.Open(r.NetNS)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter %s: %w", r.NetNS, err)
	}
	to, err := netip.ParseAddr(r.To)
	if err != nil {
		return err
	}
	var conn net.PacketConn
	for until := time.Now().Add(reachLimit); time.Now().Before(until); {
		if conn == nil {
			if conn, err = listenOn(r.IfName); err != nil {
				conn = nil // the interface does not exist yet
				time.Sleep(reachEvery)
				continue
			}
			defer conn.Close()
			if err := os.WriteFile("/proc/sys/net/ipv4/neigh/"+r.IfName+"/retrans_time_ms", []byte(resolveEvery), 0); err != nil {
				return err
			}
		}
		if err = echo(conn, to); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%s does not answer through %s of %s: %w", r.To, r.IfName, r.NetNS, err)
}

// listenOn opens a socket for ICMP that sends and receives through one interface.
func listenOn(ifName string) (net.PacketConn, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		return errors.Join(raw.Control(func(fd uintptr) { err = unix.BindToDevice(int(fd), ifName) }), err)
	}}
	return config.ListenPacket(context.Background(), "ip4:icmp", "0.0.0.0")
}

// echo sends an echo request and reads for a moment. It returns nil after an echo reply of the address.
func echo(conn net.PacketConn, to netip.Addr) error {
	request := icmp.Message{Type: ipv4.ICMPTypeEcho, Body: &icmp.Echo{ID: os.Getpid() & 0xffff, Data: []byte("weft")}}
	data, err := request.Marshal(nil)
	if err != nil {
		return err
	}
	deadline := time.Now().Add(reachEvery)
	if _, err := conn.WriteTo(data, &net.IPAddr{IP: to.AsSlice()}); err != nil {
		time.Sleep(time.Until(deadline)) // the interface has no address yet
		return err
	}
	if err := conn.SetReadDeadline(deadline); err != nil {
		return err
	}
	buffer := make([]byte, 1500)
	for {
		n, from, err := conn.ReadFrom(buffer)
		if err != nil {
			return err
		}
		reply, err := icmp.ParseMessage(1, buffer[:n])
		if err == nil && reply.Type == ipv4.ICMPTypeEchoReply && from.String() == to.String() {
			return nil
		}
	}
}
