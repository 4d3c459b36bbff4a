package serviceoracle

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weft-network/weft/test/poll"
)

// healthCheck is the health check of a service: its port, and the local endpoints that each family's clients get.
type healthCheck struct {
	service *corev1.Service
	port    int32
	local   map[corev1.IPFamily]int
}

// compareHealth compares Weft's answers of health checks with kube-proxy's, and returns an error if one differs for long: kube-proxy
// serves them a moment after its tables.
func compareHealth(ctx context.Context, checks []healthCheck) error {
	probe := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for _, check := range checks {
		for _, family := range check.service.Spec.IPFamilies {
			at := netip.MustParseAddr(map[corev1.IPFamily]string{corev1.IPv4Protocol: "127.0.0.1", corev1.IPv6Protocol: "::1"}[family])
			url := "http://" + net.JoinHostPort(at.String(), strconv.Itoa(int(check.port)))
			err := poll.Wait{Timeout: 5 * time.Second, Interval: poll.Interval}.Until(ctx, func() error {
				return check.compare(ctx, probe, url, check.local[family])
			})
			if err != nil {
				return fmt.Errorf("the health check of %s: %w", describe(check.service), err)
			}
		}
	}
	return nil
}

func (c healthCheck) compare(ctx context.Context, probe *http.Client, url string, want int) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := probe.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var answer struct {
		Service             struct{ Namespace, Name string }
		LocalEndpoints      int
		ServiceProxyHealthy bool
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	status := http.StatusOK
	if want == 0 {
		status = http.StatusServiceUnavailable
	}
	if answer.Service.Namespace != c.service.Namespace || answer.Service.Name != c.service.Name || !answer.ServiceProxyHealthy ||
		answer.LocalEndpoints != want || response.StatusCode != status {
		return fmt.Errorf("kube-proxy answers %d %+v, Weft %d with %d endpoints", response.StatusCode, answer, status, want)
	}
	return nil
}
