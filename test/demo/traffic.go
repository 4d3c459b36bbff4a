package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// Limits for each check. On the userspace datapath the first packets to another node may be lost until Open vSwitch
// has resolved the tunnel's remote end, for about a second.
const (
	attempts    = 3
	tryTimeout  = time.Second
	tryInterval = time.Second
	probePort   = 8080
)

// Limits for parallel checks. More would be faster, but a round-trip time means little when everything waits for a
// processor.
const (
	podsAtATime    = 2
	targetsAtATime = 4
)

// target, outcome and answer are the input and output of the probe.
type target struct {
	Name string `json:"name"`
	Ping string `json:"ping"`
	HTTP string `json:"http"`
}

type outcome struct {
	Name   string  `json:"name"`
	Kind   Kind    `json:"kind"`
	OK     bool    `json:"ok"`
	RTTms  float64 `json:"rttMs"`
	Tries  int     `json:"tries"`
	Answer *answer `json:"answer"`
	Error  string  `json:"error"`
}

type answer struct {
	Pod    string `json:"pod"`
	Client string `json:"client"`
}

// traffic calls every pod from every other. Failures are in the results; there is no error.
func (d *demo) traffic(ctx context.Context, pods []Pod) Report {
	results := expected(pods)
	var group errgroup.Group
	group.SetLimit(podsAtATime)
	for _, from := range pods {
		mine := resultsFrom(results, from)
		group.Go(func() error {
			outcomes, err := d.call(ctx, from, mine)
			fill(from, mine, outcomes, err)
			return nil
		})
	}
	_ = group.Wait() // no goroutine returns an error
	return newReport(results)
}

// resultsFrom returns the part of results that one pod fills; expected keeps a pod's results together.
func resultsFrom(results []Result, from Pod) []Result {
	first, end := -1, 0
	for i, r := range results {
		if r.From == from.Name {
			if first < 0 {
				first = i
			}
			end = i + 1
		}
	}
	return results[max(first, 0):end]
}

func (d *demo) call(ctx context.Context, from Pod, mine []Result) ([]outcome, error) {
	targets, err := json.Marshal(targets(mine))
	if err != nil {
		return nil, err
	}
	cmd := d.Cluster.KubectlCommand(ctx, "-n", Namespace, "exec", "-i", from.Name, "--", "probe", "check", "--targets=-",
		fmt.Sprint("--attempts=", attempts), fmt.Sprint("--timeout=", tryTimeout), fmt.Sprint("--interval=", tryInterval),
		fmt.Sprint("--parallel=", targetsAtATime))
	cmd.Stdin = bytes.NewReader(targets)
	return outcomes(cmd)
}

// outcomes runs a probe, which prints its outcomes even if it fails because of them.
func outcomes(cmd *exec.Cmd) ([]outcome, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	ran := cmd.Run()
	var list []outcome
	if err := json.Unmarshal(stdout.Bytes(), &list); err == nil {
		return list, nil
	} else if ran == nil {
		return nil, fmt.Errorf("probe: %w", err)
	}
	// one line, because it is shown in a table
	return nil, fmt.Errorf("kubectl exec: %w: %s", ran, strings.Join(strings.Fields(stderr.String()), " "))
}

// targets returns the addresses in results, each once for both kinds.
func targets(results []Result) []target {
	var list []target
	for _, r := range results {
		if r.Kind != Ping || r.Address == "" {
			continue
		}
		address := netip.MustParseAddr(r.Address) // it was formatted from a netip.Addr
		list = append(list, target{Name: r.Address, Ping: r.Address, HTTP: "http://" + netip.AddrPortFrom(address,
			probePort).String() + "/"})
	}
	return list
}

// fill completes one pod's results from its probe's output. An error applies to all of them.
func fill(from Pod, mine []Result, outcomes []outcome, err error) {
	type key struct {
		address string
		kind    Kind
	}
	byTarget := map[key]outcome{}
	for _, o := range outcomes {
		byTarget[key{o.Name, o.Kind}] = o
	}
	for i := range mine {
		r := &mine[i]
		o, called := byTarget[key{r.Address, r.Kind}]
		switch {
		case r.Address == "":
		case err != nil:
			r.Error = err.Error()
		case called:
			r.take(o, from.address(r.Family))
		}
	}
}

// take judges an outcome. An answer from another pod, or to an address other than the caller's, is a failure.
func (r *Result) take(o outcome, caller netip.Addr) {
	r.Tries, r.Error = o.Tries, o.Error
	if !o.OK {
		return
	}
	if r.Kind == HTTP {
		if r.Error = o.Answer.wrong(r.To, caller); r.Error != "" {
			return
		}
	}
	r.OK, r.RTTms = true, o.RTTms
}

func (a *answer) wrong(to string, caller netip.Addr) string {
	if a == nil {
		return "the answer is not the probe's"
	}
	client, err := netip.ParseAddrPort(a.Client)
	switch {
	case a.Pod != to:
		return fmt.Sprintf("pod %q answered", a.Pod)
	case err != nil || client.Addr().Unmap() != caller:
		return fmt.Sprintf("it saw the caller as %s, not as %s", a.Client, caller)
	}
	return ""
}
