package main

import (
	"errors"

	"github.com/containernetworking/cni/pkg/skel"

	"github.com/weft-network/weft/pkg/cni/cniwire"
	"github.com/weft-network/weft/pkg/cni/tombstone"
)

// bury writes a tombstone for a DEL and then calls the agent again, so that an agent that started in between does not
// miss the DEL. If the tombstone cannot be written, bury returns an error and the runtime retries. It returns nil if
// the pod's network namespace is gone, because then the interface is gone with it, no pod can use what is left, and
// the agent removes that when it starts.
func bury(args *skel.CmdArgs) error {
	config, err := cniwire.ParseConfig(args.StdinData)
	if err != nil {
		return err
	}
	podArgs, err := cniwire.ParseArgs(args.Args)
	if err != nil {
		return err
	}
	folder := tombstone.Beside(config.Socket)
	buried := folder.Put(tombstone.Tombstone{ContainerID: args.ContainerID, IfName: args.IfName, Args: podArgs})
	var coded *cniwire.Error
	if errors.As(buried, &coded) {
		return coded
	}
	_, err = callAgent(cniwire.Del, args)
	switch {
	case err == nil:
		return runtimeError(folder.Remove(args.ContainerID, args.IfName))
	case !errors.Is(err, cniwire.ErrUnavailable):
		return runtimeError(err)
	case buried != nil && isNetNS(args.Netns):
		return cniwire.Errorf(cniwire.CodeTryAgainLater, "%v; %v", err, buried)
	}
	return nil
}
