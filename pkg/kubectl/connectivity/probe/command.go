package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/weft-network/weft/pkg/kubectl/connectivity"
)

// socket is the address of "weft probe flows" in the abstract namespace.
const socket = "@weft-probe"

// Command runs "weft probe" with args.
func Command(args []string, in io.Reader, out io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	switch {
	case len(args) == 2 && args[0] == "serve":
		l, err := listen(ctx, ":"+strconv.Itoa(connectivity.Port), socket)
		if err != nil {
			return err
		}
		return serve(ctx, args[1], l)
	case len(args) == 1 && args[0] == "run":
		var probes []connectivity.Probe
		if err := json.NewDecoder(in).Decode(&probes); err != nil {
			return fmt.Errorf("cannot parse the probes: %w", err)
		}
		return json.NewEncoder(out).Encode(Run(ctx, probes))
	case len(args) == 1 && args[0] == "flows":
		return forward(ctx, socket, in, out)
	}
	return errors.New("want weft probe serve NAME, run or flows; kubectl weft check connectivity uses them")
}

// forward passes a request to the pod's server and its answer back.
func forward(ctx context.Context, path string, in io.Reader, out io.Writer) error {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := io.Copy(conn, in); err != nil {
		return err
	}
	if err := conn.(*net.UnixConn).CloseWrite(); err != nil {
		return err
	}
	_, err = io.Copy(out, conn)
	return err
}
