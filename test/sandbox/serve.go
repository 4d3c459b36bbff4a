package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Serve processes requests, in parallel, until the input ends.
func Serve(input io.Reader, output io.Writer) error {
	var (
		underWay sync.WaitGroup
		mu       sync.Mutex // of output
		requests = json.NewDecoder(input)
		answers  = json.NewEncoder(output)
	)
	defer underWay.Wait()
	for {
		var r Request
		if err := requests.Decode(&r); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read a request: %w", err)
		}
		underWay.Go(func() {
			answer := do(r)
			mu.Lock()
			defer mu.Unlock()
			_ = answers.Encode(answer) // an error means that the client is gone, so the input ends too
		})
	}
}

func do(r Request) Answer {
	answer := Answer{ID: r.ID}
	var failures error
	for _, name := range r.Make {
		failures = errors.Join(failures, makeNetNS(name))
	}
	for _, name := range r.Destroy {
		failures = errors.Join(failures, destroyNetNS(name))
	}
	if r.Reach != nil {
		failures = errors.Join(failures, r.Reach.run())
	}
	if failures != nil {
		answer.Error = failures.Error()
		return answer
	}
	answer.Ends = make([]End, len(r.Calls))
	var calls sync.WaitGroup
	for i, c := range r.Calls {
		calls.Go(func() { answer.Ends[i] = c.run() })
	}
	calls.Wait()
	return answer
}

func (c Call) run() End {
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if c.KillAfter > 0 {
		ctx, cancel = context.WithTimeout(ctx, c.KillAfter)
	}
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Plugin)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "CNI_COMMAND=" + c.Command, "CNI_CONTAINERID=" +
		c.ContainerID, "CNI_NETNS=" + c.NetNS,
		"CNI_IFNAME=" + c.IfName, "CNI_ARGS=" + c.Args, "CNI_PATH=" + filepath.Dir(c.Plugin)}
	cmd.Stdin = strings.NewReader(c.Config)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	start := time.Now()
	err := cmd.Run()
	end := End{Took: time.Since(start), Output: output.String()}
	if cmd.ProcessState == nil {
		return End{Exit: -1, Took: end.Took, Output: err.Error()}
	}
	end.Exit = cmd.ProcessState.ExitCode()
	return end
}
