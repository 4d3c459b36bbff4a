package capture

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"

	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/openvswitch"
)

// LinkOf returns the host's end of a pod's interface. Open vSwitch has it as an Interface with the pod's UID and the
// interface's name in the pod.
func LinkOf(ctx context.Context, remote, podUID, ifName string) (string, error) {
	conn := ovndb.NewConn(ovndb.Config{Schema: openvswitch.Schema(), Endpoints: []string{remote}, Log: logr.Discard(), ReadOnly: true})
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = conn.Run(ctx) // it ends only with its context
	}()
	defer func() { stop(); <-ended }()
	if err := conn.Wait(ctx, func() (bool, error) { return conn.Connected(), nil }); err != nil {
		return "", errors.Join(err, conn.Failure())
	}
	for _, row := range ovndb.List(conn, func(i *vswitchdb.Interface) bool { return desired.IsOf(i, podUID, ifName) }) {
		return row.Name, nil
	}
	return "", fmt.Errorf("Open vSwitch of this node has no interface %s of a pod with UID %s", ifName, podUID)
}
