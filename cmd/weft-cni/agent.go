package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/containernetworking/cni/pkg/skel"

	"github.com/weft-network/weft/pkg/cni/cniwire"
)

// agentPatience is how long an ADD or STATUS waits for an agent that is being replaced. A failure would delay the pod
// longer, because kubelet retries only after 10 s or more.
const agentPatience = 10 * time.Second

// callAgentWithRetry is callAgent, but waits for the next agent and retries if no agent answers.
func callAgentWithRetry(command cniwire.Command, args *skel.CmdArgs) (cniwire.Response, error) {
	config, err := cniwire.ParseConfig(args.StdinData)
	if err != nil {
		return cniwire.Response{}, err
	}
	deadline := time.Now().Add(agentPatience)
	for {
		resp, err := callAgent(command, args)
		if !errors.Is(err, cniwire.ErrUnavailable) || awaitAgent(config.Socket, deadline) != nil {
			return resp, err
		}
	}
}

// awaitAgent waits until an agent listens at the socket. A lock on the folder lets only one of the node's waiting
// plugins watch the folder at a time. A user has few inotify instances (128), and the container runtime and kubelet
// need some of them. If the folder does not exist, no agent has ever run on this node, and awaitAgent returns an
// error.
func awaitAgent(socket string, deadline time.Time) error {
	dir := filepath.Dir(socket)
	turn, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer turn.Close() // releases the lock
	if err := lock(turn, deadline); err != nil {
		return err
	}
	arrivals, err := watch(dir, deadline)
	if err != nil {
		return err
	}
	defer arrivals.Close()
	for !listens(socket) {
		if _, err := arrivals.Read(make([]byte, 4096)); err != nil {
			return err
		}
	}
	return nil
}

// lock takes the lock of a folder. If the deadline passes, the attempt continues in the background until the process
// ends.
func lock(dir *os.File, deadline time.Time) error {
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	locked := make(chan error, 1)
	fd := int(dir.Fd())
	go func() { locked <- ignoringEINTR(func() error { return unix.Flock(fd, unix.LOCK_EX) }) }()
	select {
	case err := <-locked:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func ignoringEINTR(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// listens reports whether an agent accepts connections at the socket. The agent treats a connection without a request
// as a probe.
func listens(socket string) bool {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// watch returns a file whose reads return when a file arrives in the directory, and fail at the deadline.
func watch(dir string, deadline time.Time) (*os.File, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", dir, err)
	}
	file := os.NewFile(uintptr(fd), dir)
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_MOVED_TO|unix.IN_CREATE); err != nil {
		file.Close()
		return nil, fmt.Errorf("watch %s: %w", dir, err)
	}
	if err := file.SetReadDeadline(deadline); err != nil {
		file.Close()
		return nil, fmt.Errorf("watch %s: %w", dir, err)
	}
	return file, nil
}
