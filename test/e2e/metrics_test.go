//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// metrics are the samples of a process by name and labels as printed.
type metrics map[string]float64

// scrape reads the metrics of a pod on its node's network.
func (b *testbed) scrape(ctx context.Context, p *corev1.Pod, port int) (metrics, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	url := fmt.Sprintf("http://%s:%d/metrics", p.Status.HostIP, port)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	client := http.Client{Transport: &http.Transport{DialContext: b.DialContext, DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	samples, err := parseMetrics(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	return samples, nil
}

// parseMetrics reads Prometheus' text format.
func parseMetrics(text []byte) (metrics, error) {
	samples := metrics{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if at := strings.LastIndexByte(line, ' '); at > 0 && !strings.HasPrefix(line, "#") {
			value, err := strconv.ParseFloat(line[at+1:], 64)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", line, err)
			}
			samples[line[:at]] = value
		}
	}
	return samples, nil
}

// sum adds the samples of a metric with all of these labels, each in the form name="value".
func (m metrics) sum(name string, labels ...string) (total float64) {
	for sample, value := range m {
		if base, _, _ := strings.Cut(sample, "{"); base == name && hasAll(sample, labels) {
			total += value
		}
	}
	return total
}

func hasAll(sample string, labels []string) bool {
	for _, l := range labels {
		if !strings.Contains(sample, l) {
			return false
		}
	}
	return true
}

// transactions counts the transactions sent to a database, whatever their result.
func (m metrics) transactions(database, kind string) float64 {
	return m.sum("weft_ovsdb_transactions_total", fmt.Sprintf("database=%q", database), fmt.Sprintf("kind=%q", kind))
}

// idle returns nil if a process is connected to its databases and has nothing left to reconcile.
func (m metrics) idle(databases ...string) error {
	for _, d := range databases {
		if m.sum("weft_ovsdb_connected", fmt.Sprintf("database=%q", d)) != 1 {
			return fmt.Errorf("%s is not connected", d)
		}
	}
	if queued, working := m.sum("workqueue_depth"), m.sum("controller_runtime_active_workers"); queued+working > 0 {
		return fmt.Errorf("%v requests are queued and %v are being processed", queued, working)
	}
	return nil
}
