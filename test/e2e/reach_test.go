//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// target and result are the input and output of probe check.
type target struct {
	Name string `json:"name"`
	Ping string `json:"ping,omitempty"`
	HTTP string `json:"http,omitempty"`
}

type result struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"`
	Target string `json:"target"`
	OK     bool   `json:"ok"`
	Error  string `json:"error"`
	Answer *struct {
		Pod    string `json:"pod"`
		Client string `json:"client"`
	} `json:"answer"`
}

// targetsOf returns all addresses of pods, for ping and HTTP.
func targetsOf(pods ...*corev1.Pod) []target {
	var targets []target
	for _, p := range pods {
		for _, a := range addressesOf(p) {
			url := "http://" + netip.AddrPortFrom(a, 8080).String()
			targets = append(targets, target{Name: p.Name, Ping: a.String(), HTTP: url})
		}
	}
	return targets
}

// reach tries every target from a pod, three times each, because the first packets to a node with an unresolved
// tunnel endpoint are lost. The right server must answer and see the client under one of the given addresses.
func (b *testbed) reach(ctx context.Context, from *corev1.Pod, clients []netip.Addr, targets []target) error {
	text, err := json.Marshal(targets)
	if err != nil {
		return err
	}
	out, failed := b.in(ctx, from, "probe", "check", "--attempts=3", "--timeout=1s", "--targets="+string(text))
	var results []result
	if err := json.Unmarshal(out, &results); err != nil {
		return errors.Join(failed, err)
	}
	var wrong error
	for _, r := range results {
		if err := r.check(clients); err != nil {
			wrong = errors.Join(wrong, fmt.Errorf("%s -> %s (%s %s): %w", from.Name, r.Name, r.Kind, r.Target, err))
		}
	}
	if wrong == nil && len(results) == 0 {
		return errors.New("no target was tried")
	}
	return wrong
}

func (r result) check(clients []netip.Addr) error {
	switch {
	case !r.OK:
		return errors.New(r.Error)
	case r.Kind != "http":
		return nil
	case r.Answer == nil || r.Answer.Pod != r.Name:
		return fmt.Errorf("answered by %+v", r.Answer)
	}
	seen, err := netip.ParseAddrPort(r.Answer.Client)
	if err != nil {
		return err
	}
	for _, c := range clients {
		if seen.Addr().Unmap() == c {
			return nil
		}
	}
	return fmt.Errorf("seen as %s, want one of %v", seen.Addr(), clients)
}

// mustReach calls every pod from every pod.
func (b *testbed) mustReach(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	for _, from := range pods {
		if err := b.reach(t.Context(), from, addressesOf(from), targetsOf(pods...)); err != nil {
			t.Error(err)
		}
	}
}

// hostReach calls pods from a node itself.
func (b *testbed) hostReach(ctx context.Context, node string, pods ...*corev1.Pod) error {
	var failed error
	for _, p := range pods {
		for _, a := range addressesOf(p) {
			url := "http://" + net.JoinHostPort(a.String(), "8080")
			out, err := b.Exec(ctx, node, "busybox", "wget", "-T", "2", "-q", "-O-", url)
			if err == nil && !strings.Contains(string(out), `"pod":"`+p.Name+`"`) {
				err = fmt.Errorf("answered %s", out)
			}
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("node %s -> %s (%s): %w", node, p.Name, a, err))
			}
		}
	}
	return failed
}
