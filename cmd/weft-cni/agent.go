package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/containernetworking/cni/pkg/skel"

	"github.com/weft-network/weft/pkg/cniwire"
)

// agentPatience is how long an ADD waits for an agent that is being replaced. Without waiting the pod would lose more: kubelet
// comes back only after 10 s or more.
const agentPatience = 10 * time.Second

// askPatiently asks like ask, and asks again when an agent puts its socket into place.
func askPatiently(command cniwire.Command, args *skel.CmdArgs) (cniwire.Response, error) {
	config, err := cniwire.ParseConfig(args.StdinData)
	if err != nil {
		return cniwire.Response{}, err
	}
	arrivals, err := watch(filepath.Dir(config.Socket), time.Now().Add(agentPatience))
	if err != nil {
		return ask(command, args) // no agent was ever here
	}
	defer arrivals.Close()
	for {
		resp, err := ask(command, args)
		if !errors.Is(err, cniwire.ErrUnavailable) {
			return resp, err
		}
		if _, ended := arrivals.Read(make([]byte, 4096)); ended != nil {
			return resp, err
		}
	}
}

// watch returns a file whose reads end with each file that arrives in the directory, and fail at the deadline.
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
