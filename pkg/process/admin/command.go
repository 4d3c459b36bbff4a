package admin

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"syscall"

	"github.com/weft-network/weft/pkg/process/options"
)

// usage is the usage of "weft admin".
const usage = "usage: weft admin [--socket PATH] plan [--delete] <MANIFESTS | operations [--delete] <MANIFESTS | " +
	"drift | check | history [--limit N] [OBJECT]"

// Command is "weft admin". It sends a request to the operator that listens on the socket, and writes the JSON
// response to out.
func Command(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("weft admin", flag.ContinueOnError)
	socket := flags.String("socket", options.DefaultAdminSocket, "socket of the operator")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New(usage)
	}
	request, err := newRequest(ctx, flags.Arg(0), flags.Args()[1:], in)
	if err != nil {
		return err
	}
	answer, err := send(*socket, request)
	if err != nil {
		return err
	}
	defer answer.Close()
	_, err = io.Copy(out, answer)
	return err
}

func newRequest(ctx context.Context, verb string, args []string, in io.Reader) (*http.Request, error) {
	flags := flag.NewFlagSet("weft admin "+verb, flag.ContinueOnError)
	var body io.Reader
	method, path, query, arguments := http.MethodGet, "/"+verb, "", 0
	switch path {
	case pathPlan, pathOperations:
		remove := flags.Bool("delete", false, "plan the deletion of the objects")
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		method, body = http.MethodPost, in
		if *remove {
			query = "?delete=true"
		}
	case pathHistory:
		limit := flags.Int("limit", DefaultLimit, "maximum number of entries")
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		query, arguments = "?"+url.Values{"object": {flags.Arg(0)}, "limit": {strconv.Itoa(*limit)}}.Encode(), 1
	case pathDrift, pathCheck:
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("unknown command %q; %s", verb, usage)
	}
	if flags.NArg() > arguments {
		return nil, fmt.Errorf("unexpected argument %q; %s", flags.Arg(arguments), usage)
	}
	return http.NewRequestWithContext(ctx, method, "http://operator"+path+query, body)
}

// send returns the body of the response, or its Failure as an error.
func send(socket string, request *http.Request) (io.ReadCloser, error) {
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}
	answer, err := (&http.Client{Transport: transport, Timeout: answerTimeout + headerTimeout}).Do(request)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("no operator listens on %s; it is starting or ending", socket)
	}
	if err != nil {
		return nil, err
	}
	if answer.StatusCode == http.StatusOK {
		return answer.Body, nil
	}
	defer answer.Body.Close()
	var failure Failure
	if err := json.NewDecoder(io.LimitReader(answer.Body, 1<<20)).Decode(&failure); err != nil || failure.Error == "" {
		return nil, fmt.Errorf("the operator responds %s", answer.Status)
	}
	return nil, errors.New(failure.Error)
}
