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
	"os"
	"syscall"

	"github.com/weft-network/weft/pkg/options"
)

// usage is what "weft admin" understands.
const usage = "usage: weft admin [--socket PATH] plan [--delete] <MANIFESTS | drift | check"

// Command is "weft admin": it asks the operator that listens on the socket and writes the answer, JSON, to out.
func Command(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("weft admin", flag.ContinueOnError)
	socket := flags.String("socket", options.DefaultAdminSocket, "socket of the operator")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New(usage)
	}
	question, err := newQuestion(ctx, flags.Arg(0), flags.Args()[1:], in)
	if err != nil {
		return err
	}
	answer, err := ask(*socket, question)
	if err != nil {
		return err
	}
	defer answer.Close()
	_, err = io.Copy(out, answer)
	return err
}

func newQuestion(ctx context.Context, verb string, args []string, in io.Reader) (*http.Request, error) {
	flags := flag.NewFlagSet("weft admin "+verb, flag.ContinueOnError)
	var body io.Reader
	method, path, query := http.MethodGet, "/"+verb, ""
	switch path {
	case pathPlan:
		remove := flags.Bool("delete", false, "plan the deletion of the objects")
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		method, body = http.MethodPost, in
		if *remove {
			query = "?delete=true"
		}
	case pathDrift, pathCheck:
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("unknown command %q; %s", verb, usage)
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q; %s", flags.Arg(0), usage)
	}
	return http.NewRequestWithContext(ctx, method, "http://operator"+path+query, body)
}

// ask returns the body of the answer, or its Failure as an error.
func ask(socket string, question *http.Request) (io.ReadCloser, error) {
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}
	answer, err := (&http.Client{Transport: transport, Timeout: answerTimeout + headerTimeout}).Do(question)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("no operator listens on %s: it starts or ends just now", socket)
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
		return nil, fmt.Errorf("the operator answers %s", answer.Status)
	}
	return nil, errors.New(failure.Error)
}
