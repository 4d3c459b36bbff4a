package testbed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Product is the namespace of the product's own pods.
const Product = "weft-system"

// Agent is the agent of a node, Ready.
type Agent struct {
	Node string
	Pod  corev1.Pod
	PID  string // in the node's process namespace
}

// Agent returns the node's agent; an error while it is not Ready.
func (b *Bed) Agent(ctx context.Context, node string) (Agent, error) {
	var list corev1.PodList
	err := b.API.List(ctx, &list, client.InNamespace(Product), client.MatchingLabels{"app.kubernetes.io/component": "agent"})
	if err != nil {
		return Agent{}, err
	}
	pid, err := b.Shell(ctx, node, "busybox pidof weft-agent || true")
	if err != nil {
		return Agent{}, err
	}
	for _, p := range list.Items {
		if p.Spec.NodeName != node || p.DeletionTimestamp != nil {
			continue
		}
		if !Ready(&p) || len(strings.Fields(pid)) != 1 {
			return Agent{}, fmt.Errorf("agent %s on %s is not Ready, its processes are %q", p.Name, node, pid)
		}
		return Agent{node, p, pid}, nil
	}
	return Agent{}, fmt.Errorf("node %s has no agent", node)
}

// AwaitAgent waits for an agent of another process than the given one; empty: for any.
func (b *Bed) AwaitAgent(ctx context.Context, node, formerPID string) (a Agent, err error) {
	err = Poll(ctx, patience, func() error {
		if a, err = b.Agent(ctx, node); err == nil && a.PID == formerPID {
			err = errors.New("it is still the former process")
		}
		return err
	})
	return a, err
}

// Ready tells whether a pod is.
func Ready(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// KillAgent ends the agent by SIGKILL. kubelet starts the next one at once, and after more of them only after 10 s, 20 s, ...
func (b *Bed) KillAgent(ctx context.Context, a Agent) error {
	_, err := b.Exec(ctx, a.Node, "busybox", "kill", "-9", a.PID)
	return err
}

// ReplaceAgent has the DaemonSet make another pod, for which kubelet does not wait.
func (b *Bed) ReplaceAgent(ctx context.Context, a Agent) error {
	return client.IgnoreNotFound(b.API.Delete(ctx, &a.Pod, client.GracePeriodSeconds(0)))
}

// Metrics reads the agent's samples, by name and labels as they are printed.
func (b *Bed) Metrics(ctx context.Context, a Agent) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+a.Pod.Status.HostIP+":9443/metrics", nil)
	if err != nil {
		return nil, err
	}
	api := http.Client{Transport: &http.Transport{DialContext: b.DialContext, DisableKeepAlives: true}}
	response, err := api.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	return parseMetrics(string(text))
}

// parseMetrics reads Prometheus' text format.
func parseMetrics(text string) (map[string]float64, error) {
	samples := map[string]float64{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if at := strings.LastIndexByte(line, ' '); at > 0 && !strings.HasPrefix(line, "#") {
			value, err := strconv.ParseFloat(line[at+1:], 64)
			if err != nil {
				return nil, fmt.Errorf("sample %q: %w", line, err)
			}
			samples[line[:at]] = value
		}
	}
	return samples, nil
}

// Memory is a field of the agent's /proc/PID/status, such as RssAnon, in KiB.
func (b *Bed) Memory(ctx context.Context, a Agent, field string) (int, error) {
	return b.Number(ctx, a.Node, `grep "^$1:" /proc/$2/status | tr -s "\t" " " | cut -d" " -f2`, field, a.PID)
}
