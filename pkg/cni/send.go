package cni

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// Send sends Ethernet frames from the pod's interface. Without frames it does nothing.
func Send(from PodInterface, frames [][]byte) error {
	if len(frames) == 0 {
		return nil
	}
	ns, err := openNetNS(from.NetNS)
	if err != nil {
		return err
	}
	defer ns.Close()
	if err := inNetNS(ns, func() error { return send(from.IfName, frames) }); err != nil {
		return fmt.Errorf("send from interface %s: %w", from.IfName, err)
	}
	return nil
}

func send(ifName string, frames [][]byte) error {
	link, err := net.InterfaceByName(ifName)
	if err != nil {
		return err
	}
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("packet socket: %w", err)
	}
	for _, frame := range frames {
		err = errors.Join(err, unix.Sendto(socket, frame, 0, &unix.SockaddrLinklayer{Ifindex: link.Index}))
	}
	return errors.Join(err, unix.Close(socket))
}
