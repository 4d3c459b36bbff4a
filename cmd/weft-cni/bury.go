package main

import (
	"errors"

	"github.com/containernetworking/cni/pkg/skel"

	"github.com/weft-network/weft/pkg/cniwire"
	"github.com/weft-network/weft/pkg/tombstone"
)

// bury leaves a DEL to the next agent and asks once more, so that an agent that came in between does not miss it. If no tombstone can be
// written it fails, and the runtime tries again, unless the pod's network namespace is gone: then the interface is gone with it, nobody
// can use what is left, and the agent removes that when it starts.
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
	_, err = ask(cniwire.Del, args)
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
