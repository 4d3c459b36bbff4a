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

	"github.com/weft-network/weft/pkg/ports"
	"github.com/weft-network/weft/test/poll"
)

// Product is the namespace of the product's own pods.
const Product = "weft-system"

// Agent is a Ready agent of a node.
type Agent struct {
	Node string
	Pod  corev1.Pod
	PID  string // in the node's process namespace
}

// Agent returns the node's agent. It is an error if the agent is not Ready.
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

// AwaitAgent waits for an agent with a process other than formerPID; if that is empty, for any agent.
func (b *Bed) AwaitAgent(ctx context.Context, node, formerPID string) (a Agent, err error) {
	err = poll.Slowly(ctx, patience, func() error {
		if a, err = b.Agent(ctx, node); err == nil && a.PID == formerPID {
			err = errors.New("the former process still runs")
		}
		return err
	})
	return a, err
}

// Ready reports whether a pod is Ready.
func Ready(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// KillAgent sends SIGKILL to the agent. kubelet restarts the container immediately after the first kill, and only
// after 10 s, 20 s, ... after further ones.
func (b *Bed) KillAgent(ctx context.Context, a Agent) error {
	_, err := b.Exec(ctx, a.Node, "busybox", "kill", "-9", a.PID)
	return err
}

// ReplaceAgent makes the DaemonSet create another pod, for which kubelet has no back-off.
func (b *Bed) ReplaceAgent(ctx context.Context, a Agent) error {
	return client.IgnoreNotFound(b.API.Delete(ctx, &a.Pod, client.GracePeriodSeconds(0)))
}

// Metrics reads the agent's samples, by name and labels as printed.
func (b *Bed) Metrics(ctx context.Context, a Agent) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	url := "http://" + a.Pod.Status.HostIP + ports.Any(ports.AgentMetrics) + "/metrics"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
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

// Memory returns a field of the agent's /proc/PID/status, such as RssAnon, in KiB.
func (b *Bed) Memory(ctx context.Context, a Agent, field string) (int, error) {
	return b.Number(ctx, a.Node, `grep "^$1:" /proc/$2/status | tr -s "\t" " " | cut -d" " -f2`, field, a.PID)
}
