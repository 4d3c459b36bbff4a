// Command weft-cni is the CNI plugin that the container runtime executes. It passes the command to weft-agent and
// prints the agent's answer.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/weft-network/weft/pkg/cni/cniwire"
)

// patience is longer than the agent's own limit for a request, so that the agent's more specific error arrives first.
// It is shorter than kubelet's limit of 2 minutes for a runtime request.
const patience = 90 * time.Second

// about is what the plugin prints when it is executed without a command.
const about = "CNI plugin weft-cni"

func main() { skel.PluginMainFuncs(functions(), versions(), about) }

func functions() skel.CNIFuncs {
	return skel.CNIFuncs{Add: add, Del: del, Check: check, Status: status, GC: gc}
}

func versions() version.PluginInfo {
	return version.PluginSupports("0.3.1", "0.4.0", "1.0.0", "1.1.0")
}

// add prints the agent's result in the version that the configuration requests.
func add(args *skel.CmdArgs) error {
	config, err := cniwire.ParseConfig(args.StdinData)
	if err != nil {
		return err
	}
	resp, err := callAgentWithRetry(cniwire.Add, args)
	if err != nil {
		return runtimeError(err)
	}
	result, err := types100.NewResult(resp.Result)
	if err != nil {
		return cniwire.Errorf(cniwire.CodeDecodingFailure, "result of weft-agent: %v", err)
	}
	converted, err := result.GetAsVersion(config.CNIVersion)
	if err != nil {
		return fmt.Errorf("result of weft-agent as version %s: %w", config.CNIVersion, err)
	}
	return converted.PrintTo(os.Stdout)
}

// del removes what add created. The specification demands that DEL succeeds even if resources are missing; see bury
// for a missing agent.
func del(args *skel.CmdArgs) error {
	_, err := callAgent(cniwire.Del, args)
	if errors.Is(err, cniwire.ErrUnavailable) {
		return bury(args)
	}
	return runtimeError(err)
}

func check(args *skel.CmdArgs) error {
	_, err := callAgent(cniwire.Check, args)
	return runtimeError(err)
}

func gc(args *skel.CmdArgs) error {
	_, err := callAgent(cniwire.GC, args)
	return runtimeError(err)
}

// status waits, as ADD does, for an agent that is being replaced. Otherwise each replacement would make the node
// NotReady and remove its pods from Services. After that it returns "not available" instead of "try again later",
// because that is the code of STATUS for a plugin that cannot serve ADD.
func status(args *skel.CmdArgs) error {
	_, err := callAgentWithRetry(cniwire.Status, args)
	if errors.Is(err, cniwire.ErrUnavailable) {
		return cniwire.Errorf(cniwire.CodeNotAvailable, "%v", err)
	}
	return runtimeError(err)
}

// callAgent sends the command to the agent. It returns the agent's error or an error of the connection.
func callAgent(command cniwire.Command, args *skel.CmdArgs) (cniwire.Response, error) {
	config, err := cniwire.ParseConfig(args.StdinData)
	if err != nil {
		return cniwire.Response{}, err
	}
	podArgs, err := cniwire.ParseArgs(args.Args)
	if err != nil {
		return cniwire.Response{}, err
	}
	req := cniwire.Request{
		Version:     cniwire.Version,
		Command:     command,
		ContainerID: args.ContainerID,
		NetNS:       args.Netns,
		IfName:      args.IfName,
		Args:        podArgs,
		Config:      args.StdinData,
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resp, err := cniwire.Do(ctx, config.Socket, req)
	if err == nil && resp.Error != nil {
		err = resp.Error
	}
	return resp, err
}

// runtimeError gives an error of the connection its code. An error of the agent already has one.
func runtimeError(err error) error {
	var coded *cniwire.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &coded):
		return coded
	case errors.Is(err, cniwire.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return cniwire.Errorf(cniwire.CodeTryAgainLater, "%v", err)
	}
	return cniwire.Errorf(cniwire.CodeIOFailure, "%v", err)
}
