package cni

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// disableTxOffload does what "ethtool -K tx off" does on a veth. The kernel also disables the features that depend on
// checksum offload, such as segmentation.
func disableTxOffload(_ *netlink.Handle, _ netlink.Link, want PodInterface) error {
	if !want.DisableTxOffload {
		return nil
	}
	if err := setTxChecksum(want.IfName, 0); err != nil {
		return fmt.Errorf("disable transmit checksum offload: %w", err)
	}
	return nil
}

// ethtoolValue is struct ethtool_value of linux/ethtool.h.
type ethtoolValue struct{ command, data uint32 }

// ethtoolRequest is struct ifreq of linux/if.h with a pointer in its union. The kernel reads the whole union.
type ethtoolRequest struct {
	name  [unix.IFNAMSIZ]byte
	value *ethtoolValue
	_     [24 - unsafe.Sizeof(uintptr(0))]byte
}

// setTxChecksum sets the checksum features of a device in the thread's namespace with a single value. The ethtool
// library would first fetch the names of all features into a buffer of 1 MiB per pod, which would be most of the
// agent's garbage.
func setTxChecksum(device string, on uint32) error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(socket)
	request := ethtoolRequest{value: &ethtoolValue{unix.ETHTOOL_STXCSUM, on}}
	if copy(request.name[:unix.IFNAMSIZ-1], device) < len(device) {
		return fmt.Errorf("interface %s: the name is too long", device)
	}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(socket), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
	runtime.KeepAlive(&request)
	if errno != 0 {
		return os.NewSyscallError("ioctl SIOCETHTOOL", errno)
	}
	return nil
}
